"""A tiny HTTP server over real sockets, whose answers a test writes byte by byte."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream


@dataclass
class Call:
    """A request that came in, and the way to answer it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    stream: SocketStream
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client closes the connection."""

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def begin(self, kind: str = "text/event-stream", status: str = "200 OK") -> None:
        await self.send(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()
        )

    async def event(self, chunk: object) -> None:
        text = chunk if isinstance(chunk, str) else json.dumps(chunk, ensure_ascii=False)
        await self.send(f"data: {text}\n\n".encode())

    async def reply(self, status: str, body: object, headers: Mapping[str, str] = {}) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append("Connection: close")
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


Handler = Callable[[Call], Awaitable[None]]


@dataclass
class Endpoint:
    base_url: str
    calls: list[Call] = field(default_factory=list)


@asynccontextmanager
async def endpoint(handler: Handler) -> AsyncIterator[Endpoint]:
    """Serve the handler on a free port."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    served = Endpoint(f"http://127.0.0.1:{port}/v1")

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            head, _, body = head.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
            while len(body) < int(headers.get("content-length", 0)):
                body += await stream.receive()
            call = Call(first.split()[1], headers, json.loads(body or b"{}"), stream)
            served.calls.append(call)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch, call)
                try:
                    await handler(call)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    call.gone.set()
                tasks.cancel_scope.cancel()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield served
        tasks.cancel_scope.cancel()


async def _watch(call: Call) -> None:
    try:
        while True:
            await call.stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        call.gone.set()


def chunk(delta: Mapping[str, object] | None = None, finish: str | None = None) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}


def playing(*events: object) -> Handler:
    """A handler that streams these events and then closes."""

    async def handler(call: Call) -> None:
        await call.begin()
        for event in events:
            await call.event(event)

    return handler
