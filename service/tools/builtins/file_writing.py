"""Writing and editing files in the folders that a person has granted for it.

Each call asks, and shows the difference that it would make. The yes is to just that: where the file
is something else by then, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.decorator import FunctionTool, tool
from service.tools.files.file_writer import MOST_BYTES, Caller, FileWriter, PlannedChange
from service.tools.files.text_form import TextForm
from service.tools.protocol import CallPreview, ToolFailure

NAMES = ("write_file", "edit_file")

_CHANGED = (
    "Not written: {path} is not what it was when the person was shown the difference, or it was"
    " shown for something else. Call it again, and they are asked anew."
)

PathArgument = Annotated[str, Field(min_length=1, description="As list_files gives it.")]
Plan = Callable[[Mapping[str, object]], PlannedChange]


class FileWritingTool:
    """A tool that changes a file, and can show beforehand what it would change."""

    def __init__(self, function: FunctionTool, plan: Plan) -> None:
        """Name what it is made of.

        Args:
            function: the tool itself.
            plan: what a call with some arguments would change.
        """
        self._function = function
        self._plan = plan

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told."""
        return self._function.definition

    @property
    def effect(self) -> ToolEffect:
        """It changes a file."""
        return self._function.effect

    @property
    def needs_approval(self) -> bool:
        """A person agrees to each call."""
        return self._function.needs_approval

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return self._function.timeout_seconds

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self._function.check(arguments)

    def approval_scope(self, arguments: str) -> str | None:
        """See `ScopesApproval`: the file, with what it holds and what it is to hold."""
        return self._function.approval_scope(arguments)

    def preview(self, arguments: str) -> CallPreview:
        """See `PreviewsCalls`: the difference."""
        change = self._plan(self._function.read(arguments))
        return CallPreview(change.scope, change.difference())

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self._function.run(arguments, context)


def file_writing_tools(writer: FileWriter) -> tuple[FileWritingTool, ...]:
    """`write_file` and `edit_file`."""
    return _write_file(writer), _edit_file(writer)


def _write_file(writer: FileWriter) -> FileWritingTool:
    def plan(given: Mapping[str, object]) -> PlannedChange:
        content = str(given["content"])
        return writer.plan(str(given["path"]), lambda _, form: form.plain(content))

    @tool(effect="side_effects", needs_approval=True, scope=lambda given: plan(given).scope)
    def write_file(
        context: ToolContext,
        path: PathArgument,
        content: Annotated[str, Field(description="All that it is to hold.")],
    ) -> str:
        """Write a text file: a new one, or another content in place of all that one holds. The user
        is shown the difference and asked first. To change a part, use edit_file."""
        change = plan({"path": path, "content": content})
        return _carried_out(writer, change, context, "write_file")

    return FileWritingTool(write_file, plan)


def _edit_file(writer: FileWriter) -> FileWritingTool:
    def plan(given: Mapping[str, object]) -> PlannedChange:
        path, old, new = (str(given[each]) for each in ("path", "old_text", "new_text"))
        every = bool(given["replace_all"])
        return writer.plan(
            path, lambda text, form: _edited(text, form, path, old, new, every=every)
        )

    @tool(effect="side_effects", needs_approval=True, scope=lambda given: plan(given).scope)
    def edit_file(
        context: ToolContext,
        path: PathArgument,
        old_text: Annotated[
            str, Field(min_length=1, description="What stands there, to the letter, and once.")
        ],
        new_text: Annotated[str, Field(description="What is to stand in its place.")],
        replace_all: Annotated[bool, Field(description="Wherever it stands.")] = False,
    ) -> str:
        """Replace a piece of a text file. The user is shown the difference and asked first."""
        change = plan(
            {"path": path, "old_text": old_text, "new_text": new_text, "replace_all": replace_all}
        )
        return _carried_out(writer, change, context, "edit_file")

    return FileWritingTool(edit_file, plan)


def _edited(text: str | None, form: TextForm, path: str, old: str, new: str, *, every: bool) -> str:
    name = path[:200]
    if text is None:
        raise ToolFailure(f"There is no {name}. write_file makes a new file.")
    old, new = form.plain(old), form.plain(new)
    if old not in text and "\r\n" in text:  # its lines end in both ways
        old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
    times = text.count(old)
    if not times:
        raise ToolFailure(
            f"{name} does not hold that old_text. It has to be as it stands there, with all spaces"
            " and line ends: read_file shows it."
        )
    if times > 1 and not every:
        raise ToolFailure(
            f"old_text stands in {name} {times:,} times: give more of what stands around the one"
            " that you mean, or set replace_all."
        )
    length = len(text) + times * (len(new) - len(old))
    if length > MOST_BYTES:
        raise ToolFailure(
            f"It would have {length:,} characters; at most {MOST_BYTES:,} bytes are written."
        )
    return text.replace(old, new)


def _carried_out(writer: FileWriter, change: PlannedChange, context: ToolContext, name: str) -> str:
    if not context.covers(name, change.scope):
        raise ToolFailure(_CHANGED.format(path=change.path))
    caller = Caller(context.owner, context.run_loop_id, context.idempotency_key)
    record = writer.carry_out(change, caller)
    done = "is written, a new file" if change.before is None else "is changed"
    return (
        f"{change.path} {done}: {len(change.after):,} bytes. The user can undo it with"
        f" `rondo files undo {record.id}`."
    )
