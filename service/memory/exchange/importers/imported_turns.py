"""From the messages of a branch to iterations: each is one observation, thought, act and word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.run_loops import Iteration
from service.memory.exchange.importers.message_pieces import Node, Piece, paragraphs

NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""When nothing in a conversation tells a time."""


def iterations_of(
    nodes: Sequence[Node], *, otherwise: datetime | None, metadata: dict[str, Any]
) -> tuple[Iteration, ...]:
    """The iterations of messages that follow one another.

    A message without a time has that of the one before it, else of the one after it.

    Args:
        nodes: the messages.
        otherwise: a time for where no message has one.
        metadata: goes with each iteration.
    """
    first = next((node.at for node in nodes if node.at is not None), otherwise)
    at = first or NO_TIME
    turns = _Turns(metadata)
    for node in nodes:
        at = node.at or at
        for index, piece in enumerate(node.pieces):
            turns.add(piece, at, f"{node.id}-{index}" if index else node.id)
    return turns.close()


@dataclass(slots=True)
class _Open:
    """An iteration that grows."""

    at: datetime
    user: str = ""
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    response: list[str] = field(default_factory=list)

    @property
    def has_acted(self) -> bool:
        return bool(self.calls or self.results)

    def closed(self, metadata: dict[str, Any]) -> Iteration:
        return Iteration(
            user_message=self.user or None,
            reasoning=paragraphs(*self.reasoning) or None,
            tool_calls=tuple(self.calls),
            tool_results=tuple(self.results),
            response=paragraphs(*self.response) or None,
            timestamp=self.at,
            metadata=metadata,
        )


class _Turns:
    """Takes pieces in order. A model's message ends where it hands over to tools."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._metadata = metadata
        self._done: list[Iteration] = []
        self._open: _Open | None = None
        self._call_ids: set[str] = set()

    def add(self, piece: Piece, at: datetime, place: str) -> None:
        """Take a piece; `place` is an id for what has none."""
        if not piece.text.strip() and piece.kind not in ("call", "result"):
            return
        now = self._now(at, piece)
        match piece.kind:
            case "user":
                now.user = piece.text
            case "reasoning":
                now.reasoning.append(piece.text)
            case "response":
                now.response.append(piece.text)
            case "call":
                call_id = self._new_id(piece.call_id or place)
                now.calls.append(ToolCall(id=call_id, name=piece.name, arguments=piece.text))
            case "result":
                self._add_result(now, piece, place)

    def close(self) -> tuple[Iteration, ...]:
        """All iterations."""
        if self._open is not None:
            self._done.append(self._open.closed(self._metadata))
            self._open = None
        return tuple(self._done)

    def _now(self, at: datetime, piece: Piece) -> _Open:
        """The iteration that a piece belongs to."""
        now = self._open
        if now is not None and not _begins_another(now, piece):
            return now
        self.close()
        self._open = now = _Open(at)
        return now

    def _new_id(self, preferred: str) -> str:
        call_id, number = preferred, 1
        while call_id in self._call_ids:
            number += 1
            call_id = f"{preferred}-{number}"
        self._call_ids.add(call_id)
        return call_id

    def _add_result(self, now: _Open, piece: Piece, place: str) -> None:
        call_id = piece.call_id or _awaited(now, piece.name) or place
        for index, earlier in enumerate(now.results):
            if earlier.id == call_id:  # a call has one result, which may come in parts
                now.results[index] = earlier.model_copy(
                    update={
                        "content": paragraphs(earlier.content, piece.text),
                        "is_error": earlier.is_error or piece.is_error,
                    }
                )
                return
        now.results.append(ToolResult(id=call_id, content=piece.text, is_error=piece.is_error))


def _begins_another(now: _Open, piece: Piece) -> bool:
    match piece.kind:
        case "user":
            return True
        case "reasoning":
            return bool(now.response) or now.has_acted
        case "response":
            return now.has_acted
        case "call":
            return bool(now.results)
        case "result":
            return False


def _awaited(now: _Open, name: str) -> str:
    """The call of a result that does not name it: the last one of that tool, else the last."""
    answered = {result.id for result in now.results}
    waiting = [call for call in now.calls if call.id not in answered] or now.calls
    named = [call for call in waiting if call.name == name or call.name.startswith(f"{name}.")]
    last = (named or waiting)[-1:]
    return last[0].id if last else ""


def words_of(iterations: Iterable[Iteration]) -> set[tuple[object, ...]]:
    """What iterations say, without when."""
    return {
        (each.user_message, each.reasoning, each.tool_calls, each.tool_results, each.response)
        for each in iterations
    }
