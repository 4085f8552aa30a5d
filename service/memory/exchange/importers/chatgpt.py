"""Conversations of ChatGPT's data export.

The format is not documented by its maker. Known of it: a conversation holds ``mapping``, the nodes
of a tree by their ids, each with ``message`` (or null), ``parent`` and ``children``; and
``current_node``. A message has ``author.role``, ``recipient``, ``content`` of a ``content_type``,
``create_time`` in seconds, and ``metadata``.
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

_UNSAID = frozenset(("user_editable_context", "model_editable_context", "reasoning_recap"))
"""Not said by anybody: what a person has set up for all conversations, and for how long the model
has thought."""
_MEDIA = (("image", "image"), ("audio", "audio"), ("video", "video"))


def read_chatgpt(value: dict[str, Any]) -> Conversation:
    """A conversation as the archive has it.

    Raises:
        BadConversationError: it is not of that form.
    """
    mapping = value.get("mapping")
    return conversation(
        "chatgpt",
        value.get("conversation_id") or value.get("id"),
        title=value.get("title"),
        nodes=_nodes(mapping) if isinstance(mapping, dict) else "`mapping` is missing",
        current=value.get("current_node"),
        created_at=value.get("create_time"),
    )


def _nodes(mapping: dict[str, Any]) -> list[Node]:
    entries = {key: entry for key, entry in mapping.items() if isinstance(entry, dict)}
    return [_node(node_id, entries[node_id]) for node_id in _ordered_ids(entries)]


def _ordered_ids(entries: dict[str, dict[str, Any]]) -> list[str]:
    """The ids, so that siblings stand as their parent names them."""
    ordered: dict[str, None] = {}
    for node_id, entry in entries.items():
        if entry.get("parent") not in entries:
            ordered.setdefault(node_id)
    for entry in entries.values():
        children = entry.get("children")
        for child in children if isinstance(children, list) else ():
            if isinstance(child, str) and child in entries:
                ordered.setdefault(child)
    for node_id in entries:
        ordered.setdefault(node_id)
    return list(ordered)


def _node(node_id: str, entry: dict[str, Any]) -> Node:
    parent = entry.get("parent")
    message = entry.get("message")
    fields = message if isinstance(message, dict) else {}
    return Node(
        id=node_id,
        parent=parent if isinstance(parent, str) else None,
        at=moment(fields.get("create_time")),
        pieces=tuple(_pieces(fields)),
    )


def _pieces(message: dict[str, Any]) -> Iterator[Piece]:
    content = message.get("content")
    metadata = _object(message.get("metadata"))
    if not isinstance(content, dict) or metadata.get("is_visually_hidden_from_conversation"):
        return
    kind = text_of(content.get("content_type"))
    author = _object(message.get("author"))
    if kind in _UNSAID or author.get("role") == "system":
        return
    text = _text(content, metadata)
    match author.get("role"):
        case "user":
            yield Piece("user", paragraphs(text, *_attachments(content, metadata)))
        case "tool":
            name = text_of(author.get("name"))
            yield Piece("result", text, name=name, is_error=kind == "system_error")
        case "assistant":
            yield _of_assistant(message, kind, text)
        case _:
            return


def _of_assistant(message: dict[str, Any], kind: str, text: str) -> Piece:
    recipient = text_of(message.get("recipient")) or "all"
    if kind == "thoughts":
        return Piece("reasoning", text)
    if recipient != "all":
        return Piece("call", as_arguments(text), name=recipient)
    return Piece("response", f"```\n{text}\n```" if kind == "code" and text else text)


def _text(content: dict[str, Any], metadata: dict[str, Any]) -> str:
    """All words of a message's content."""
    match content.get("content_type"):
        case "text" | "multimodal_text":
            return paragraphs(*_parts(content, metadata))
        case "thoughts":
            thoughts = objects(content.get("thoughts"))
            return paragraphs(
                *(
                    paragraphs(text_of(each.get("summary")), text_of(each.get("content")))
                    for each in thoughts
                )
            )
        case "tether_quote":
            return paragraphs(*(text_of(content.get(name)) for name in ("title", "url", "text")))
        case "tether_browsing_display":
            return paragraphs(text_of(content.get("result")), text_of(content.get("summary")))
        case _:  # code, execution_output, system_error, and what may come
            words = paragraphs(
                text_of(content.get("text")),
                text_of(content.get("result")),
                text_of(content.get("content")),
                *_parts(content, metadata),
            )
            rest = {key: each for key, each in content.items() if each and key not in _PLAIN}
            return words or (as_json(rest) if rest else "")


_PLAIN = frozenset(("content_type", "language", "response_format_name", "text", "parts"))


def _parts(content: dict[str, Any], metadata: dict[str, Any]) -> Iterator[str]:
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            yield text_of(part)
        elif isinstance(part, dict):
            yield _part(part, metadata)


def _part(part: dict[str, Any], metadata: dict[str, Any]) -> str:
    if words := text_of(part.get("text")):
        return words  # a transcription of what was spoken
    pointer = text_of(part.get("asset_pointer"))
    kind = text_of(part.get("content_type"))
    named = next((name for sign, name in _MEDIA if sign in kind), "file")
    made = _object(_object(part.get("metadata")).get("dalle"))
    asset = pointer.rpartition("/")[2]
    name = _name_of(asset, metadata) or text_of(made.get("prompt")) or asset
    return file_marker(named, name)


def _attachments(content: dict[str, Any], metadata: dict[str, Any]) -> Iterator[str]:
    """Files that are not shown in their places: their text where it is there, else their names."""
    shown = {
        text_of(part.get("asset_pointer")).rpartition("/")[2]
        for part in objects(content.get("parts"))
    }
    for each in objects(metadata.get("attachments")):
        if text_of(each.get("id")) in shown and each.get("id"):
            continue
        name = text_of(each.get("name"))
        text = text_of(each.get("extracted_content") or each.get("text"))
        kind = text_of(each.get("mimeType") or each.get("mime_type")).partition("/")[0]
        if text:
            yield attached_text(name, text)
        else:
            yield file_marker(kind if kind in ("image", "audio", "video") else "file", name)


def _name_of(asset: str, metadata: dict[str, Any]) -> str:
    for each in objects(metadata.get("attachments")):
        if asset and each.get("id") == asset:
            return text_of(each.get("name"))
    return ""


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
