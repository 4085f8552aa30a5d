"""What hooks may give: anything else counts as a failure of theirs, and never reaches the journal.

Each function gives what it was given, as its type, or raises `ValueError` with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from service.domain.conversation.messages import Message, ToolResult
from service.tools.model_text import fitted
from service.tools.registry import WHOLE_LIMIT


def messages_of(shown: Sequence[Message], given: object) -> list[Message]:
    """What the model is to be shown instead of `shown`."""
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"it gave {_kind(given)}, not a list of messages")
    known = {id(message) for message in shown}
    open_calls: list[str] = []
    for message in given:
        if not isinstance(message, Message):
            raise ValueError(f"it gave {_kind(message)} among the messages")
        if id(message) not in known:
            _storable(message)
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise ValueError(f"it gave a tool result ({message.tool_call_id}) without its call")
            open_calls.remove(message.tool_call_id)
        elif open_calls:
            break
        open_calls += [call.id for call in message.tool_calls]
    if open_calls:
        raise ValueError(f"it gave a tool call ({open_calls[0]}) without its result")
    return list(given)


def message_of(given: object) -> Message:
    """What the model is to have said."""
    if not isinstance(given, Message):
        raise ValueError(f"it gave {_kind(given)}, not a message")
    if given.role != "assistant" or given.tool_call_id is not None:
        raise ValueError(f"it gave a message of the role {given.role}, not of the assistant's")
    ids = [call.id for call in given.tool_calls]
    if len(set(ids)) != len(ids) or not all(ids):
        raise ValueError("it gave tool calls whose ids are empty or not distinct")
    if not given.text.strip() and not ids:
        raise ValueError("it gave a message with neither words nor a tool call")
    _storable(given)
    return given


def refusal_of(given: object) -> str | None:
    """Words that block a call, perhaps none; or None."""
    return None if given is None else words_of(given)


def result_of(result: ToolResult, given: object) -> ToolResult:
    """What a call is to have come to instead of `result`; over-long ones lose their middle."""
    if given is result:
        return result
    if not isinstance(given, ToolResult):
        raise ValueError(f"it gave {_kind(given)}, not a tool result")
    if given.id != result.id:
        raise ValueError(f"it gave the result of another call ({given.id})")
    _storable(given)
    return given.model_copy(update={"content": fitted(given.content, WHOLE_LIMIT)})


def words_of(given: object) -> str:
    """A text that has a form in UTF-8."""
    if not isinstance(given, str):
        raise ValueError(f"it gave {_kind(given)}, not a text")
    given.encode()
    return given


def nothing_of(given: object) -> None:
    """Nothing is asked for, and whatever is given is not looked at."""


def _storable(value: BaseModel) -> None:
    """Models can be made with anything in them (`model_construct`, `model_copy`)."""
    type(value).model_validate_json(value.model_dump_json())


def _kind(value: object) -> str:
    return "nothing" if value is None else f"something of the type {type(value).__name__}"
