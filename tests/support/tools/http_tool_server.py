"""An MCP server made with the official SDK that answers over streamable HTTP, in a process of its
own: files in its folder tell it what to do, and are told what came."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Literal

import anyio
import anyio.lowlevel
import uvicorn
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from mcp_types import Tool
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.tools.handshake_tool_server import answer


class Clock(MCPServer):
    """Offers what the files in its folder say at the moment."""

    def __init__(self, folder: Path) -> None:
        # With a key of its own for each process, what it has asked would be lost with it.
        kept = RequestStateSecurity(keys=[b"k" * 32], ttl=3600)
        super().__init__("clock", request_state_security=kept)
        self._folder = folder

    async def list_tools(self) -> list[Tool]:
        """All tools, as they are now."""
        for name in ("now", "later"):
            self.remove_or_not(name)
        words = self._folder / "description"
        described = words.read_text("utf-8") if words.exists() else "The time in a city."
        self.add_tool(_now, name="now", description=described)
        if (self._folder / "later").exists():
            self.add_tool(_later, name="later")
        if (self._folder / "many").exists():
            for number in range(60):
                long = f"Paint picture number {number} of a house. " + "Mind the colours. " * 40
                self.remove_or_not(f"paint_{number}")
                self.add_tool(_paint, name=f"paint_{number}", description=long)
            self.remove_or_not("send_post")
            self.add_tool(_now, name="send_post", description="Send a letter by post. 寄信")
        return await super().list_tools()

    def remove_or_not(self, name: str) -> None:
        """Have no tool of this name."""
        with contextlib.suppress(ToolError):
            self.remove_tool(name)


def _now(city: str) -> str:
    return f"noon in {city}"


class Stay(BaseModel):
    """What a guest wants."""

    room: Literal["small", "large"]
    nights: int = Field(ge=1, le=9, description="How many nights?")
    breakfast: bool
    wish: str = ""


def _ask(city: str) -> Elicit[Stay]:
    return Elicit(f"A stay in {city} 住宿", Stay)


def _paint(colour: str) -> str:
    return f"painted {colour}"


def _later() -> str:
    """Come later."""
    return "here"


def made(folder: Path) -> MCPServer:
    """The server and its tools."""
    server = Clock(folder)

    @server.tool()
    async def change(context: Context) -> str:
        """Say that the tools are others now."""
        await context.notify_tools_changed()
        return "changed"

    @server.tool()
    def book(city: str, stay: Annotated[ElicitationResult[Stay], Resolve(_ask)]) -> str:
        """Book a stay."""
        with (folder / "booked").open("a") as file:
            file.write(f"{city}\n")
        return f"{city}: {stay.data if isinstance(stay, AcceptedElicitation) else stay.action}"

    @server.tool()
    def huge() -> str:
        """Give far too much."""
        return "x" * 20_000_000

    @server.tool()
    def endless() -> str:
        """Answer without an end; see `Front`."""
        return ""

    @server.tool()
    async def doze() -> str:
        """Sleep."""
        await anyio.sleep(600)
        return ""

    @server.tool()
    def seen(context: Context) -> str:
        """What the request carried beside the call."""
        return str(sorted((context.request_context.meta or {}).keys()))

    return server


class Front:
    """What stands before the server: a check of the token, and ways to misbehave."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app = app
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._own(Request(scope)) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def _own(self, request: Request) -> Response | None:
        shown = request.headers.get("authorization", "")
        with (self._folder / "shown").open("a") as file:
            file.write(f"{shown}\n")
        token = self._folder / "token"
        if token.exists() and shown != token.read_text():
            return Response("who are you?", status_code=401)
        elsewhere = self._folder / "elsewhere"
        if elsewhere.exists():
            return RedirectResponse(elsewhere.read_text(), status_code=307)
        if request.url.path == "/breaking":
            return _Breaking(self._folder)
        if request.url.path == "/short":
            return RedirectResponse("/mcp", status_code=308)
        if request.headers.get("mcp-name") == "endless":
            return StreamingResponse(_forever(), media_type="text/event-stream")
        return None


class _Breaking(Response):
    """A server of sessions that breaks each answer to a call off, and says how to go on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        message = json.loads(await request.body() or "{}")
        if "last-event-id" in request.headers:
            with (self._folder / "resumed").open("a") as file:
                file.write("1\n")
        result = None if message.get("method") == "tools/call" else "id" in message
        if result is False and request.method == "POST":
            answered = Response(status_code=202)
        elif result:
            told = answer(message["method"], message.get("params", {}))
            error = {"error": {"code": -32601, "message": "Method not found"}}
            content = {"result": told} if told is not None else error
            answered = JSONResponse({"jsonrpc": "2.0", "id": message["id"], **content})
        else:
            words = "id: 1\nretry: 0\ndata: \n\n"
            answered = Response(words, media_type="text/event-stream")
        await answered(scope, receive, send)


async def _forever() -> AsyncGenerator[bytes]:
    for number in itertools.count():
        yield f": {number} {'still here ' * 100}\n\n".encode()
        await anyio.lowlevel.checkpoint()


def main() -> None:
    """``FOLDER SOCKET``: the number of a socket that listens."""
    folder, listening = Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    app = made(folder).streamable_http_app()
    config = uvicorn.Config(Front(app, folder), log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
