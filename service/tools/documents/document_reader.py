"""Taking the text out of a document, in a process of its own: in the sandbox where there is one.

What reads documents is code of others, and documents come from anywhere. So the process sees the
document alone, on its standard input, and the libraries; it has no network, and its time, memory
and output are bounded. Where a machine has no sandbox, the bounds hold all the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from service.domain.errors import ConfigurationError
from service.tools.documents import text_extraction
from service.tools.protocol import ToolFailure
from service.tools.sandbox.confinement import Confinement, Limits
from service.tools.sandbox.levels import Sandbox
from service.tools.scripts.child_process import Outcome, run_process
from service.tools.scripts.supervisor import remove

MOST_PAGES = 50
"""Of one call."""
LIBRARIES = ("pypdf", "docx", "python_calamine", "lxml", "typing_extensions", "cryptography")

_BEGINNINGS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")  # ZIP, and OLE: .doc, .xls
_SECONDS = 20.0
_STARTING_SECONDS = 10.0
"""For the process to start and the libraries to load, and for what cannot be left half-way."""
_LIMITS = Limits(memory_bytes=1 << 30, file_bytes=1 << 20, processes=64)
_SCRATCH_BYTES = 16 << 20
_MOST_CHARACTERS = 400_000


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What a document says."""

    text: str
    what: str
    """Which part of it, in words."""
    more: str
    """How the rest can be asked for; empty: there is no other part."""


def is_document(data: bytes) -> bool:
    """Whether the beginning of a file is that of a kind of document that is no plain text."""
    return b"%PDF-" in data[:1024] or data.startswith(_BEGINNINGS)


class DocumentReader:
    """Reads documents."""

    def __init__(
        self,
        sandbox: Callable[[], Sandbox],
        *,
        hidden: tuple[Path, ...] = (),
        seconds: float = _SECONDS,
        starting_seconds: float = _STARTING_SECONDS,
        limits: Limits = _LIMITS,
        most_characters: int = _MOST_CHARACTERS,
    ) -> None:
        """Name what it works with.

        Args:
            sandbox: gives the one to read in, when the first document comes; may block.
            hidden: what is not to be seen in it.
            seconds: how long a document may take: then what there is by then is given.
            starting_seconds: how long the process may take beyond that before it is ended.
            limits: what else it may use up.
            most_characters: how much of a text is taken.
        """
        self._sandbox = sandbox
        self._confinement = Confinement(
            readable=_places(), hidden=hidden, scratch_bytes=_SCRATCH_BYTES, limits=limits
        )
        self._seconds = seconds
        self._longest = seconds + starting_seconds
        self._most_characters = most_characters

    async def text_of(
        self, data: bytes, name: str, *, pages: tuple[int, int] | None, sheet: str
    ) -> DocumentText:
        """The text of a document.

        Args:
            data: the document.
            name: of the file, for the words of a failure.
            pages: of a PDF: the first and the last one; None: the first `MOST_PAGES`.
            sheet: of a spreadsheet: its name or number; empty: the first one.

        Raises:
            ToolFailure: it cannot be read; says why.
        """
        first, last = pages or (1, MOST_PAGES)
        request = {
            "pages": [first, min(last, first + MOST_PAGES - 1)],
            "sheet": sheet,
            "most_characters": self._most_characters,
            "seconds": self._seconds,
            "paths": [str(each) for each in _places()],
        }
        outcome = await self._run(json.dumps(request).encode() + b"\n" + data)
        answer = _read(outcome)
        if answer is None:
            why = _ending(outcome, self._seconds)
            raise ToolFailure(f"{name[:200]} cannot be read: {why}. Tell the user.")
        if "problem" in answer:
            raise ToolFailure(f"{name[:200]} cannot be read: {answer['problem']}.")
        return DocumentText(answer["text"], answer["what"], answer["more"])

    async def _run(self, stdin: bytes) -> Outcome:
        program = Path(text_extraction.__file__)
        place = await anyio.to_thread.run_sync(_make_place)
        try:
            sandbox = await anyio.to_thread.run_sync(self._sandbox)
            return await run_process(
                sandbox.command(
                    (sys.executable, "-I", "-B", str(program)),
                    confinement=self._confinement,
                    code=program.parent,
                    scratch=place / "work",
                ),
                stdin=stdin,
                cwd=place / "work",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                timeout_seconds=self._longest,
                keep_bytes=16 * self._most_characters + 100_000,
                folder=place,
                limits=self._confinement.limits.by_name(),
            )
        except ConfigurationError as error:
            raise ToolFailure(error.problem().in_words()) from error
        except OSError as error:
            raise ToolFailure(
                f"The process that reads documents cannot be started: {error}."
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove, str(place))


def _make_place() -> Path:
    place = Path(tempfile.mkdtemp(prefix="rondo-document-"))
    (place / "work").mkdir(mode=0o700)
    return place


def _places() -> tuple[Path, ...]:
    """The folders that the libraries are in, wherever this Python finds them."""
    specs = (importlib.util.find_spec(each) for each in LIBRARIES)
    origins = (Path(each.origin) for each in specs if each is not None and each.origin)
    parents = (
        each.parent.parent if each.name == "__init__.py" else each.parent for each in origins
    )
    return tuple(dict.fromkeys(parents))


def _read(outcome: Outcome) -> dict[str, str] | None:
    try:
        answer = json.loads(outcome.stdout)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _ending(outcome: Outcome, seconds: float) -> str:
    if outcome.timed_out:
        return f"it takes more than {seconds:g} seconds"
    if outcome.exit_code < 0 or outcome.exit_code > 128:
        return "reading it takes too much memory, or ended in a crash"
    words = outcome.stderr.strip().splitlines()[-1:]
    return f"what reads it failed ({''.join(words)[:200] or 'without saying why'})"
