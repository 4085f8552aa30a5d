"""Recorded bytes, cut at will and read by the real client, without a socket in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import httpx2

from service.domain.conversation.messages import Message, TextPart, ThinkPart
from service.domain.conversation.stream_parts import MessageAssembler, TokenUsage
from service.domain.errors import LLMError
from service.llm.protocol import LLM

QUESTION = (Message.user("Hello"),)


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Replay(httpx2.AsyncBaseTransport):
    """Answers every call with the same stream, in the pieces that are set."""

    def __init__(self) -> None:
        self.pieces: Sequence[bytes] = ()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":  # what a model can do: these endpoints do not tell
            return httpx2.Response(404, json={"error": {"message": "no such route"}})
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx2.Response(200, headers=headers, stream=_Pieces(self.pieces))


@dataclass(frozen=True)
class Outcome:
    """What a stream came to."""

    content: tuple[tuple[str, str, str | None], ...] = ()
    """Kind, words, and signature of each part."""
    calls: tuple[tuple[str | None, str, str], ...] = ()
    """Id (None for one of our own), name and arguments."""
    usage: TokenUsage | None = None
    error: str = ""
    """Kind and words of the error that ended it."""


async def outcome(llm: LLM, replay: Replay, pieces: Sequence[bytes]) -> Outcome:
    """Play these bytes to the client, and assemble what it makes of them."""
    replay.pieces = pieces
    assembler = MessageAssembler()
    try:
        async for part in llm.stream(QUESTION):
            assembler.add(part)
    except LLMError as error:
        return Outcome(error=f"{error.kind} (retryable: {error.retryable}): {error.detail}")
    message = assembler.message()
    data = b"".join(pieces)
    return Outcome(
        tuple(
            ("text", part.text, None)
            if isinstance(part, TextPart)
            else ("think", part.think, part.signature)
            for part in message.content
            if isinstance(part, TextPart | ThinkPart)
        ),
        tuple(
            (call.id if call.id.encode() in data else None, call.name, call.arguments)
            for call in message.tool_calls
        ),
        assembler.usage,
    )


def in_two(data: bytes) -> Iterator[list[bytes]]:
    """The bytes in two pieces, for every place where they can be cut."""
    for offset in range(1, len(data)):
        yield [data[:offset], data[offset:]]


def in_equal_pieces(data: bytes, size: int) -> Iterator[list[bytes]]:
    """The bytes in pieces of one size, begun at every offset: each place is cut once."""
    for start in range(size):
        places = [0, *range(start or size, len(data), size), len(data)]
        yield [data[a:b] for a, b in pairwise(places)]


def one_by_one(data: bytes) -> list[bytes]:
    """Each byte alone."""
    return [data[i : i + 1] for i in range(len(data))]


def with_other_ends_of_line(data: bytes) -> list[bytes]:
    """The same stream with LF, and with CRLF, at the ends of its lines."""
    lf = data.replace(b"\r\n", b"\n")
    return [lf, lf.replace(b"\n", b"\r\n")]
