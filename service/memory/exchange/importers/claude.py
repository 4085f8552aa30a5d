"""Conversations of Claude's data export.

The format is not documented by its maker. Known of it: a conversation holds ``chat_messages``, each
with ``sender``, ``content`` (blocks of a ``type``; ``text`` where there are none), ``attachments``
with their ``extracted_content``, ``files``, ``created_at``; and, in newer exports,
``parent_message_uuid``, by which edits and second answers make branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.memory.exchange.importers.message_pieces import (
    Conversation,
    Node,
    Piece,
    as_arguments,
    as_json,
    attached_text,
    conversation,
    file_marker,
    moment,
    objects,
    paragraphs,
    text_of,
)

_SILENT = frozenset(("token_budget", "flag"))
"""Blocks in which nobody says anything."""


def read_claude(value: dict[str, Any]) -> Conversation:
    """A conversation as the archive has it.

    Raises:
        BadConversationError: it is not of that form.
    """
    messages = value.get("chat_messages")
    return conversation(
        "claude",
        value.get("uuid"),
        title=value.get("name"),
        nodes=_nodes(objects(messages))
        if isinstance(messages, list)
        else "`chat_messages` is missing",
        current=value.get("current_leaf_message_uuid"),
        created_at=value.get("created_at"),
    )


def _nodes(messages: list[dict[str, Any]]) -> list[Node]:
    """The messages; one that names no parent follows the one before it."""
    nodes: dict[str, Node] = {}
    before: str | None = None
    for index, message in enumerate(messages):
        named = text_of(message.get("uuid"))
        node_id = named if named and named not in nodes else f"{named}#{index}"
        nodes[node_id] = Node(
            id=node_id,
            parent=text_of(message.get("parent_message_uuid")) or before,
            at=moment(message.get("created_at")),
            pieces=tuple(_pieces(message)),
        )
        before = node_id
    return list(nodes.values())


def _pieces(message: dict[str, Any]) -> Iterator[Piece]:
    blocks = objects(message.get("content"))
    if message.get("sender") == "human":
        yield Piece("user", _of_person(message, blocks))
        return
    said = False
    for block in blocks:
        for piece in _of_block(block):
            said = said or bool(piece.text.strip())
            yield piece
    if not said:
        yield Piece("response", text_of(message.get("text")))
    if files := paragraphs(*_files(message)):
        yield Piece("response", files)


def _of_person(message: dict[str, Any], blocks: list[dict[str, Any]]) -> str:
    words = paragraphs(*(text_of(block.get("text")) for block in blocks))
    return paragraphs(words or text_of(message.get("text")), *_files(message))


def _of_block(block: dict[str, Any]) -> Iterator[Piece]:
    match block.get("type"):
        case "text" | "voice_note":
            yield Piece("response", text_of(block.get("text")))
        case "thinking":
            yield Piece("reasoning", text_of(block.get("thinking")))
        case "tool_use":
            yield Piece(
                "call",
                as_arguments(block.get("input")),
                name=text_of(block.get("name")) or "tool",
                call_id=text_of(block.get("id")),
            )
        case "tool_result":
            yield Piece(
                "result",
                _result(block.get("content")),
                name=text_of(block.get("name")),
                call_id=text_of(block.get("tool_use_id")),
                is_error=block.get("is_error") is True,
            )
        case kind if kind not in _SILENT:
            yield Piece("response", text_of(block.get("text")))
        case _:
            return


def _result(content: object) -> str:
    if isinstance(content, str):
        return text_of(content)
    parts = []
    for each in objects(content):
        if each.get("type") == "image":
            parts.append(file_marker("image", text_of(each.get("file_name"))))
        elif words := text_of(each.get("text")):
            links = (text_of(each.get("title")), text_of(each.get("url")))
            parts.append(paragraphs(*links, words))
        else:
            parts.append(as_json(each))
    if content and not parts:
        return as_json(content)
    return paragraphs(*parts)


def _files(message: dict[str, Any]) -> Iterator[str]:
    """Attachments by their text, and files by their names, each once."""
    seen_names: set[str] = set()
    for each in objects(message.get("attachments")):
        name = text_of(each.get("file_name"))
        seen_names.add(name)
        text = text_of(each.get("extracted_content"))
        yield attached_text(name, text) if text else file_marker("file", name)
    for each in (*objects(message.get("files")), *objects(message.get("files_v2"))):
        name = text_of(each.get("file_name"))
        if name not in seen_names or not name:
            kind = "image" if each.get("file_kind") == "image" else "file"
            yield file_marker(kind, name)
        seen_names.add(name)
