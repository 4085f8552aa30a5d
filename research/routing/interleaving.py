"""Conversations made into streams.

    python -m research.routing.interleaving FILE... --out DIR

A file holds conversations as people write them down: a block of lines each, ``> `` before what the
person says and ``< `` before what the assistant does. They are interleaved as if one person held
several at once, now and then, with pauses as people make them; the streams are of the form that
`service.bench.routing.routing_dataset` reads.

The conversations are dealt into `GROUPS`, and a stream is made of one group: the files' names are
such that the n-th of them is of group n modulo `GROUPS`, so that whoever trains on all but every
third file has never seen the conversations of that one.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from service.domain.errors import InvalidInputError

GROUPS = 3
_START = datetime(2026, 1, 5, 8, tzinfo=UTC)
_AT_ONCE = {1: 0.4, 2: 0.3, 3: 0.2, 5: 0.1}
"""How many unfinished conversations a person holds at most in a stream, and how often so."""
_OPENS = 0.5
"""How often a person begins with something else, where an unfinished conversation allows it."""
_GOES_ON_WITH_LAST = 0.6
_PAUSE = {"same": 35.0, "other": 100.0, "answer": 6.0}
"""Median seconds before a message: in the same conversation, in another, and the assistant's."""
_SPREAD = 1.0
"""Standard deviation of a pause's logarithm."""
_LONGEST_PAUSE = 700.0
_PER_STREAM = 24


@dataclass(frozen=True, slots=True)
class Line:
    """Something said."""

    role: str
    text: str


@dataclass(slots=True)
class _Open:
    """A conversation that is going on."""

    thread: str
    left: list[Line] = field(default_factory=list)


def conversations(text: str) -> list[list[Line]]:
    """Read conversations.

    >>> [[line.role for line in each] for each in conversations("> Hi\\n< Hello\\n\\n> Bye\\n")]
    [['user', 'assistant'], ['user']]

    Raises:
        InvalidInputError: a line is neither the person's nor the assistant's, or the assistant
            begins.
    """
    conversations: list[list[Line]] = [[]]
    for number, line in enumerate(text.splitlines(), start=1):
        mark, said = line[:2], line[2:].strip()
        if not line.strip():
            conversations.append([])
        elif said and mark == "> ":
            conversations[-1].append(Line("user", said))
        elif said and mark == "< " and conversations[-1]:
            conversations[-1].append(Line("assistant", said))
        else:
            raise InvalidInputError(
                f"line {number} is no line of a conversation: {line[:60]!r}",
                advice="Begin a line of the person's with '> ' and one of the assistant's with"
                " '< '; the person begins.",
            )
    return [each for each in conversations if each]


def stream(
    dealt: Sequence[tuple[str, list[Line]]],
    chance: random.Random,
    *,
    stays: float = _GOES_ON_WITH_LAST,
) -> Iterator[dict[str, str]]:
    """Interleave conversations, each with the name of its thread.

    Args:
        dealt: the conversations, in the order in which they are opened.
        chance: decides what comes next, and when.
        stays: how often a person goes on with the conversation that was last spoken in.
    """
    waiting = list(dealt)
    at_once = chance.choices([*_AT_ONCE], [*_AT_ONCE.values()])[0]
    going: list[_Open] = []
    last: _Open | None = None
    at = _START + timedelta(seconds=chance.uniform(0, 3600))
    while waiting or going:
        now = _next(waiting, going, last, at_once, chance, stays)
        kind = "same" if now is last else "other"
        at += timedelta(seconds=_pause(kind, chance))
        while now.left:
            line = now.left.pop(0)
            yield {"text": line.text, "at": at.isoformat(), "thread": now.thread, "role": line.role}
            if line.role == "assistant" or not now.left:
                break
            at += timedelta(seconds=_pause("answer", chance))
        if not now.left:
            going.remove(now)
        last = now


def _next(
    waiting: list[tuple[str, list[Line]]],
    going: list[_Open],
    last: _Open | None,
    at_once: int,
    chance: random.Random,
    stays: float,
) -> _Open:
    """The conversation in which the person says something next."""
    may_open = waiting and len(going) < at_once
    if may_open and (not going or chance.random() < _OPENS):
        thread, lines = waiting.pop(0)
        going.append(_Open(thread, list(lines)))
        return going[-1]
    if last in going and chance.random() < stays:
        assert last is not None
        return last
    return chance.choice(going)


def _pause(kind: str, chance: random.Random) -> float:
    return min(chance.lognormvariate(math.log(_PAUSE[kind]), _SPREAD), _LONGEST_PAUSE)


def streams(
    every: Sequence[list[Line]], *, rounds: int, seed: int
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Streams by their files' names: each conversation once a round, in other company each time."""
    chance = random.Random(seed)
    named = [(f"c{number}", lines) for number, lines in enumerate(every)]
    chance.shuffle(named)
    groups = [named[group::GROUPS] for group in range(GROUPS)]
    count = 0
    for _ in range(rounds):
        shuffled = [chance.sample(group, len(group)) for group in groups]
        for start in range(0, max(map(len, groups)), _PER_STREAM):
            for group in shuffled:
                lines = [
                    {"id": f"{count}-{number}", **said}
                    for number, said in enumerate(
                        stream(group[start : start + _PER_STREAM], chance)
                    )
                ]
                yield f"{count:04d}.jsonl", lines
                count += 1


def _read(path: Path) -> list[list[Line]]:
    try:
        return conversations(path.read_text("utf-8"))
    except InvalidInputError as error:
        raise click.ClickException(f"{path}: {error}. {error.advice}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--rounds", default=3, show_default=True, help="How often each conversation occurs.")
@click.option("--seed", default=0, show_default=True)
def main(sources: tuple[Path, ...], out: Path, rounds: int, seed: int) -> None:
    """Interleave the conversations of SOURCES into streams under OUT."""
    every = [each for path in sources for each in _read(path)]
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in streams(every, rounds=rounds, seed=seed):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (out / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
