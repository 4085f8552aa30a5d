"""JSON Lines of run loops: from bytes that arrive in any pieces, to run loops; and back.

The format is that of Rondo's exchange (``docs/exchange.md``): UTF-8, one run loop a line. A
byte order mark, CRLF and blank lines are taken.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterable
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.history.imported import last_moment
from service.domain.json_values import unwritable_number
from service.domain.run_loops import Iteration, RunLoop
from service.memory.memory_tuning import IMPORT_LINE_BYTES

_BOM = b"\xef\xbb\xbf"
_LONGEST_ID = 256
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that end lines, drive terminals or turn the order in which is read."""
_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""An escape of one half of a character beyond U+FFFF, without the other half."""
_YEARS = range(2, 9999)  # at the edges a moment cannot be told in another time zone
_SHOWN_PROBLEMS = 3


class Line(NamedTuple):
    """One line of a file."""

    number: int
    """From 1, blank lines counted."""
    content: bytes | None
    """Without its end; None where it is longer than is taken."""


class BadLineError(ValueError):
    """A line does not hold a run loop; says why, in words."""

    def __init__(self, words: str, run_loop_id: str | None = None) -> None:
        super().__init__(words)
        self.run_loop_id = run_loop_id
        """Where the line could be read so far."""


async def lines_of(
    chunks: AsyncIterable[bytes], *, longest: int = IMPORT_LINE_BYTES
) -> AsyncGenerator[Line]:
    """The lines that are not blank. Never holds more than one of them, and one piece.

    Args:
        chunks: the bytes, in pieces of any size.
        longest: most bytes of a line; of a longer one only its number is told.
    """
    held = bytearray()
    number, too_long = 1, False
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            held += piece
            line = _line(number, held, too_long or len(held) > longest)
            if line is not None:
                yield line
            held, too_long = bytearray(), False
            number += 1
        held += rest
        if len(held) > longest:
            held, too_long = bytearray(), True
    line = _line(number, held, too_long)
    if line is not None:
        yield line


def _line(number: int, held: bytearray, too_long: bool) -> Line | None:
    if too_long:
        return Line(number, None)
    content = bytes(held).strip(b" \t\r")
    if number == 1:
        content = content.removeprefix(_BOM).strip(b" \t\r")
    return Line(number, content) if content else None


def parse(line: Line, *, owner: str) -> RunLoop:
    """The run loop of a line, as it goes in: it has ended, and its moments are milliseconds.

    Raises:
        BadLineError: the line does not hold one.
    """
    if line.content is None:
        raise BadLineError(f"it is longer than {IMPORT_LINE_BYTES:,} bytes, the most that is taken")
    try:
        text = line.content.decode()
    except UnicodeDecodeError as error:
        raise BadLineError(
            f"it is not UTF-8 ({error.reason} at byte {error.start + 1}); save the file as UTF-8"
        ) from error
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        if half := _HALF.search(text):
            raise BadLineError(
                f"it is not JSON: {half[0]} at character {half.start() + 1} is half of a character;"
                " write the whole one, or U+FFFD in its place"
            ) from error
        raise BadLineError(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadLineError("it is not a JSON object, as a run loop is")
    given = value.get("id")
    run_loop_id = given if isinstance(given, str) else None
    if number := unwritable_number(value):
        raise BadLineError(
            f"{number}, a number that JSON cannot hold; leave it out, or write it as text",
            run_loop_id,
        )
    if isinstance(value.get("problem"), str) and "iterations" not in value:
        raise BadLineError(f"it was not exported: {value['problem']}", run_loop_id)
    try:
        run_loop = RunLoop.model_validate({**value, "owner": owner})
        return settled(run_loop)
    except ValidationError as error:
        raise BadLineError(_in_words(error), run_loop_id) from error
    except BadLineError as error:
        raise BadLineError(str(error), run_loop_id) from error


def settled(run_loop: RunLoop) -> RunLoop:
    """A loop as it goes into the journal.

    One that is still open was completed when something last happened in it; moments without a zone
    are UTC, and are cut to milliseconds, as all that is journaled.

    Raises:
        BadLineError: its id or one of its moments cannot be used.
    """
    _check_id(run_loop.id)
    iterations = tuple(_iteration(each) for each in run_loop.iterations)
    completed_at = run_loop.completed_at and _moment(run_loop.completed_at)
    run_loop = run_loop.model_copy(
        update={
            "iterations": iterations,
            "created_at": _moment(run_loop.created_at),
            "completed_at": None if run_loop.is_active else completed_at,
            "status": "completed" if run_loop.is_active else run_loop.status,
        }
    )
    if run_loop.completed_at is not None:
        return run_loop
    return run_loop.model_copy(update={"completed_at": last_moment(run_loop)})


def _check_id(run_loop_id: str) -> None:
    if not run_loop_id.strip():
        raise BadLineError("its id is blank; give it one of letters and digits")
    if run_loop_id == NEW_RUN_LOOP:
        raise BadLineError(
            f"its id is “{NEW_RUN_LOOP}”, by which a message is said to open a new run loop;"
            " give it another one"
        )
    if len(run_loop_id) > _LONGEST_ID:
        raise BadLineError(
            f"its id has {len(run_loop_id)} characters; at most {_LONGEST_ID} are taken"
        )
    if unseen := _UNSEEN.search(run_loop_id):
        raise BadLineError(
            f"its id holds the control character U+{ord(unseen[0]):04X}; give it one without"
        )


def line_of(run_loop: RunLoop) -> bytes:
    """A run loop as a line; its owner is whoever brings it in."""
    return run_loop.model_dump_json(exclude={"owner"}).encode() + b"\n"


def _iteration(iteration: Iteration) -> Iteration:
    at = _moment(iteration.timestamp)
    return (
        iteration if at is iteration.timestamp else iteration.model_copy(update={"timestamp": at})
    )


def _moment(at: datetime) -> datetime:
    if at.year not in _YEARS:
        raise BadLineError(f"{at.isoformat()} is no moment that can be kept")
    if at.tzinfo is not None and at.microsecond % 1000 == 0:
        return at
    return at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=at.tzinfo or UTC)


def _in_words(error: ValidationError) -> str:
    problems = error.errors(include_input=False, include_url=False)
    words = [
        f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
        for each in problems[:_SHOWN_PROBLEMS]
    ]
    if len(problems) > _SHOWN_PROBLEMS:
        words.append(f"and {len(problems) - _SHOWN_PROBLEMS} more")
    return "; ".join(words)
