"""Small archives of conversations elsewhere, as files, and what is made of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from service.domain.run_loops import RunLoop
from service.memory.exchange.importers.archives import Archive, ArchivedConversation, Format

FIXTURES = Path(__file__).parents[3] / "data" / "fixtures"
CHATGPT = FIXTURES / "chatgpt" / "conversations.json"
CLAUDE = FIXTURES / "claude" / "conversations.json"


def read(path: Path, archive_format: Format | None = None) -> list[ArchivedConversation]:
    """All that an archive holds."""
    with Archive(path, sys.stdin.buffer, archive_format) as archive:
        return list(archive.conversations())


def loops(conversations: list[ArchivedConversation]) -> dict[str, RunLoop]:
    """The run loops by their ids, each once."""
    by_id: dict[str, RunLoop] = {}
    for each in conversations:
        for loop in each.run_loops:
            assert loop.id not in by_id
            by_id[loop.id] = loop
    return by_id


def said(loop: RunLoop) -> list[tuple[str | None, str | None]]:
    """Question and answer of each turn."""
    return [(each.user_message, each.response) for each in loop.iterations]


def written(folder: Path, *conversations: Any) -> Path:
    """An archive of these conversations."""
    path = folder / "conversations.json"
    path.write_text(json.dumps(conversations, ensure_ascii=False))
    return path


def chatgpt(
    *messages: tuple[str, str | None, str, str],
    current: str | None = None,
    title: str = "A talk",
    conversation_id: str = "c1",
) -> dict[str, Any]:
    """A conversation of messages (id, parent, role, text), a second apart."""
    mapping: dict[str, Any] = {}
    for second, (node_id, parent, role, text) in enumerate(messages):
        mapping[node_id] = {
            "id": node_id,
            "parent": parent,
            "children": [],
            "message": {
                "id": node_id,
                "author": {"role": role},
                "create_time": 1_770_000_000 + second,
                "content": {"content_type": "text", "parts": [text]},
                "recipient": "all",
                "metadata": {},
            },
        }
        if parent is not None:
            mapping[parent]["children"].append(node_id)
    return {
        "conversation_id": conversation_id,
        "title": title,
        "create_time": 1_770_000_000,
        "current_node": current or messages[-1][0],
        "mapping": mapping,
    }
