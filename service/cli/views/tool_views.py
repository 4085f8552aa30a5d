"""Tools in a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.cli.terminal.output import aside, out, plain
from service.domain.conversation.tool_definitions import ToolEffect
from service.wire.daemon_bodies import OfferedTool, Tools

_EFFECTS: dict[ToolEffect, str] = {
    "read_only": "reads",
    "idempotent": "changes, repeatable",
    "side_effects": "changes",
}


def print_tools(listing: Tools) -> None:
    """The tools with what they may do, and those that are not offered."""
    from rich.padding import Padding
    from rich.text import Text

    for tool in listing.tools:
        asks = (" · asks first", "yellow") if tool.needs_approval else ""
        out().print(
            Text.assemble((plain(tool.name), "bold"), (f"  {_EFFECTS[tool.effect]}", "dim"), asks)
        )
        out().print(Padding(Text(_first_sentence(plain(tool.description))), (0, 0, 0, 2)))
    for server in listing.servers:
        style = "dim" if server.is_there and not server.held else "yellow"
        told = f"The tool server {server.name}"
        words = plain(server.words)
        line = words if words.startswith(told) else f"{told}: {words}"
        aside().print(f"\n{line}", style=style)
    servers = {server.name for server in listing.servers}
    for each in listing.not_offered:
        if each.name in servers:
            continue
        aside().print(f"\n{plain(each.name)} is not offered. {plain(each.reason)}", style="dim")


def print_tool(tool: OfferedTool) -> None:
    """One tool: its description, effect, and parameters."""
    from rich.text import Text

    asks = "asks you before each call" if tool.needs_approval else "runs without asking"
    out().print(Text(plain(tool.name), style="bold"))
    out().print(plain(tool.description), soft_wrap=True)
    within = f"{tool.timeout_seconds:g} s at most"
    out().print(f"{_EFFECTS[tool.effect]} · {asks} · {within}", style="dim")
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}  # type: ignore[assignment]
    required = tool.parameters.get("required") or []
    for name, schema in properties.items():
        needed = "" if name in required else ", optional"  # type: ignore[operator]
        words = plain(str(schema.get("description", "")))
        line = Text.assemble("  ", (plain(name), "cyan"), (f"  {_kind(schema)}{needed}  ", "dim"))
        out().print(line.append(words), soft_wrap=True)


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = [schema, *schema.get("anyOf", ())]
    named = [str(each["type"]) for each in kinds if each.get("type") not in (None, "null")]
    if "enum" in schema:
        named = [" | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])]
    return plain(" or ".join(named) or "any")


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."
