"""What the tools of a server say that is new, beside what was accepted."""

from __future__ import annotations

import difflib
import json

from service.cli.terminal.output import aside, out, plain
from service.wire.daemon_bodies import ToolServerChanges, ToolWords

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_changes(waiting: ToolServerChanges) -> None:
    """Each tool with the lines that are others: a new one whole."""
    from rich.text import Text

    if not waiting.changes:
        aside().print(f"Nothing of {waiting.server} waits to be looked at.")
    for change in waiting.changes:
        words = "is new" if change.before is None else "says something else"
        out().print(Text.assemble((plain(change.name), "bold"), f" {words}"))
        before = [] if change.before is None else _lines(change.before)
        for line in list(difflib.unified_diff(before, _lines(change.after), lineterm=""))[2:]:
            style = _STYLES.get(line[:1], "dim")
            out().print(Text(f"  {line}", style=style), soft_wrap=True)


def _lines(words: ToolWords) -> list[str]:
    schema = json.dumps(words.parameters, indent=1, sort_keys=True, ensure_ascii=False)
    return plain(f"{words.description}\n{schema}").split("\n")
