"""Reading a file: in a folder that the person has granted, or one that they sent with a message."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from service.domain.conversation.file_attachments import SENT, SentFile, ids_in
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import NotFoundError
from service.memory.sent_files import SentFiles
from service.tools.builtins.read_result import Load
from service.tools.decorator import FunctionTool, tool
from service.tools.documents.document_reader import MOST_PAGES, DocumentReader, is_document
from service.tools.files.granted_folders import GrantedFolders
from service.tools.files.text_decoding import decoded
from service.tools.protocol import ToolFailure

NAME = "read_file"
_MOST_BYTES = 20_000_000
_NOTHING_TO_READ = (
    'No folder is granted, and no file was sent. Set tools.files_read = ["~/Documents"], for one,'
    " or send a file: rondo send --file."
)


class ReadFile:
    """The `read_file` tool. Without granted folders it is offered while there are sent files."""

    def __init__(
        self, granted: GrantedFolders, documents: DocumentReader, sent: SentFiles, load: Load
    ) -> None:
        """Name what it works with.

        Args:
            granted: the folders; perhaps none.
            documents: reads what is no plain text.
            sent: the files that were sent.
            load: gives a run loop by its id: what was sent there is read there alone.
        """
        self._granted = granted
        self._documents = documents
        self._sent = sent
        self._load = load
        self._tool = self._made()

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return self._tool.definition

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        if self._granted.folders:
            return None
        try:
            return None if self._sent.are_there else _NOTHING_TO_READ
        except OSError:
            return _NOTHING_TO_READ

    @property
    def effect(self) -> ToolEffect:
        """It reads."""
        return self._tool.effect

    @property
    def outside(self) -> bool:
        """A file can hold anybody's words."""
        return True

    @property
    def needs_approval(self) -> bool:
        """What may be read was granted, or sent."""
        return self._tool.needs_approval

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self._tool.timeout_seconds

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self._tool.check(arguments)

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self._tool.run(arguments, context)

    def _made(self) -> FunctionTool:
        @tool(name=NAME, effect="read_only", timeout_seconds=60, outside=True)
        async def read_file(
            context: ToolContext,
            path: Annotated[str, Field(min_length=1, description="As it is listed or told.")],
            start_line: Annotated[int, Field(ge=1, description="The first line to read.")] = 1,
            lines: Annotated[int, Field(ge=1, le=2000)] = 400,
            pages: Annotated[str, Field(description="Of a PDF, such as 3 or 3-7.")] = "",
            sheet: Annotated[str, Field(description="Of a spreadsheet: its name or number.")] = "",
        ) -> str:
            """Read a file of the person's, in a folder that they granted, or one that they sent:
            text, PDF, Word (.docx), or a spreadsheet."""
            asked_pages = _pages(pages)
            data = await self._content_of(path.strip(), context)
            if is_document(data):
                document = await self._documents.text_of(
                    data, path, pages=asked_pages, sheet=sheet.strip()
                )
                text, what, more = document.text, document.what, document.more
            else:
                text, what = await anyio.to_thread.run_sync(
                    decoded, data, path, abandon_on_cancel=True
                )
                more = ""
            return _shown(path, text, what, more, start_line=start_line, lines=lines)

        return read_file

    async def _content_of(self, path: str, context: ToolContext) -> bytes:
        """What a file holds.

        Raises:
            ToolFailure: there is none of this path that may be read here; says which there are.
        """
        failure: ToolFailure | None = None
        if self._granted.folders and not path.startswith(SENT):
            try:
                return await anyio.to_thread.run_sync(
                    _content, self._granted, path, abandon_on_cancel=True
                )
            except ToolFailure as refused:
                failure = refused
        sent = await self._sent_here(context)
        file_id, _, rest = path.removeprefix(SENT).partition("/")
        by_id = (each for each in sent if each.id == file_id)
        by_name = (each for each in sent if each.name in (path, rest or file_id))
        meant = next(by_id, None) or next(by_name, None)
        if meant is not None:
            content = partial(self._sent.content, meant.id, owner=context.owner)
            return await anyio.to_thread.run_sync(content)
        if failure is not None:
            raise failure
        raise ToolFailure(
            f"{path[:200]} was not sent with a message of this conversation. Those that were:"
            f" {', '.join(each.path for each in sent) or 'none'}."
        )

    async def _sent_here(self, context: ToolContext) -> list[SentFile]:
        """The files that were sent with messages of a run loop, newest first."""
        run_loop = await self._load(context.run_loop_id) if context.run_loop_id else None
        if run_loop is None or run_loop.owner != context.owner:
            return []
        ids = [each for iteration in run_loop.iterations for each in ids_in(iteration.metadata)]
        kept = partial(self._kept, tuple(dict.fromkeys(reversed(ids))), context.owner)
        return await anyio.to_thread.run_sync(kept)

    def _kept(self, ids: tuple[str, ...], owner: str) -> list[SentFile]:
        kept = []
        for each in ids:
            with suppress(NotFoundError):
                kept.append(self._sent.find(each, owner=owner))
        return kept


def _content(granted: GrantedFolders, path: str) -> bytes:
    with granted.file(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ToolFailure(f"{path[:200]} is larger than {_MOST_BYTES // 1_000_000} MB.")
    return data


def _pages(written: str) -> tuple[int, int] | None:
    """The first and the last page that are meant.

    >>> _pages("3-7"), _pages("3"), _pages("3 –"), _pages("")
    ((3, 7), (3, 3), (3, 52), None)
    """
    if not written.strip():
        return None
    match = re.fullmatch(r"(\d{1,6})(?:\s*([-–])\s*(\d{1,6})?)?", written.strip())
    first = int(match[1]) if match else 0
    last = int(match[3]) if match and match[3] else first
    if match and match[2] and not match[3]:
        last = first + MOST_PAGES - 1
    if not 1 <= first <= last:
        raise ToolFailure(f"pages={written[:40]!r} names no pages; it is such as 3 or 3-7.")
    return first, last


def _shown(path: str, text: str, what: str, more: str, *, start_line: int, lines: int) -> str:
    """Some lines of a text, with which ones they are and how to get at the others."""
    every = text.splitlines()
    if not every:
        return f"{path} is empty."
    if start_line > len(every):
        raise ToolFailure(f"{path[:200]} has {len(every):,} lines: start_line is below that.")
    shown = every[start_line - 1 : start_line - 1 + lines]
    end = start_line + len(shown) - 1
    ways = [f"start_line={end + 1}"] if end < len(every) else []
    ways += [more] if more else []
    on = f" It goes on: {'; or '.join(ways)}." if ways else ""
    head = f"[{path}, lines {start_line:,} to {end:,} of {len(every):,}, {what}.{on}]"
    return "\n".join((head, "", *shown))
