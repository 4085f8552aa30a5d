"""A real daemon for tests: real HTTP on a real port, real memory, and a model that does as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.config import EmbedderSettings, ServerSettings, Settings, ToolsSettings
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart
from service.llm.named_models import NamedModel
from service.llm.protocol import LLM, LLMStatus
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from service.server.daemon import Daemon
from service.server.daemon_main import listen, url_of
from service.server.http.connection_limits import Limits
from service.server.http.uvicorn_server import UvicornServer
from service.server.http_app import create_app
from service.tools.builtins import builtin_tools
from service.tools.builtins.file_writing import NAMES as WRITING_TOOLS
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry


class PatientLLM(ScriptedModel):
    """Plays its turns, then answers everything; waits before it answers while it is held."""

    def __init__(self, *turns: str) -> None:
        script = parse_script("== default\ntext/4: Answer to {message}")
        super().__init__(script, turns=turns)
        self.ready = True
        self._held: anyio.Event | None = None

    def hold(self) -> None:
        """From now on wait before answering."""
        self._held = anyio.Event()

    def release(self) -> None:
        """Answer, also what waits."""
        if self._held is not None:
            self._held.set()
            self._held = None

    async def stream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[StreamPart]:
        if self._held is not None:
            await self._held.wait()
        async with aclosing(super().stream(messages, **options)) as parts:
            async for part in parts:
                yield part

    def status(self) -> LLMStatus:
        return LLMStatus(self.ready, "it answers" if self.ready else "it sleeps")


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event, as it came."""

    event: str
    id: str | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class House:
    """A daemon that runs, and a client that may talk to it."""

    agent: Agent
    llm: PatientLLM
    """Or another one, where a test has given it."""
    daemon: Daemon
    server: UvicornServer
    client: httpx2.AsyncClient
    url: str
    token: str

    async def send(self, message: str, **more: Any) -> dict[str, Any]:
        """Send a message and wait for its answer."""
        response = await self.client.post("/v1/send", json={"message": message, **more})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> AsyncIterator[AsyncGenerator[Frame]]:
        """An event stream that is open."""
        headers = {"Accept": "text/event-stream", **(headers or {})}
        async with self.client.stream(method, path, headers=headers, **more) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield frames_of(response)

    async def frames(self, method: str, path: str, **more: Any) -> list[Frame]:
        """All events of a stream that ends."""
        async with self.stream(method, path, **more) as frames:
            return [frame async for frame in frames]

    @property
    def listeners(self) -> int:
        """How many read the feed."""
        return self.agent.memory.feed.readers

    async def loop_at_work(self) -> str:
        """Wait until there is an active run loop, and give its id."""
        with anyio.fail_after(10):
            while not (states := self.agent.memory.short_term.states()):
                await anyio.sleep(0.01)
        return states[0].id

    async def until(self, listeners: int) -> None:
        """Wait until so many read the feed."""
        with anyio.fail_after(10):
            while self.listeners != listeners:
                await anyio.sleep(0.01)


@asynccontextmanager
async def running(
    folder: Path,
    *,
    llm: LLM | None = None,
    tools: Sequence[Tool] = (),
    options: AgentOptions | None = None,
    max_body_bytes: int = 4_000_000,
    heartbeat_seconds: float = 15.0,
    least_free_bytes: int = 0,
    embedder: Embedder | None = None,
    limits: Limits | None = None,
    models: Mapping[str, NamedModel] | None = None,
    tool_settings: ToolsSettings | None = None,
) -> AsyncIterator[House]:
    """A daemon on a free port; where files may be changed, with the tools that do, and read."""
    llm = llm or PatientLLM()
    settings = Settings(
        data_dir=folder,
        server=ServerSettings(
            port=0, max_body_bytes=max_body_bytes, heartbeat_seconds=heartbeat_seconds
        ),
        embedder=EmbedderSettings(kind="none"),
        tools=tool_settings or ToolsSettings(),
    )
    memory = Memory(folder, embedder)
    offer = builtin_tools(
        settings, memory.long_term, memory.load, memory.files, memory.journal.schedules
    )
    of_files = ("read_file", *WRITING_TOOLS) if settings.tools.files_write else ()
    builtin = [each for each in offer.tools if each.definition.name in of_files]
    agent = create_agent(
        llm,
        ToolRegistry([*tools, *builtin], unavailable=offer.withheld),
        memory,
        options or AgentOptions(auto_classify=False, max_retries=0),
        models=models,
    )
    app = create_app(settings, agent=agent, least_free_bytes=least_free_bytes)
    server = UvicornServer(app, limits=limits)
    listener = listen(settings.server)
    url = url_of(listener)
    token = (folder / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    served = asyncio.create_task(server.serve([listener]))
    try:
        async with httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=120, trust_env=False
        ) as client:
            yield House(agent, cast(PatientLLM, llm), app.state.daemon, server, client, url, token)
    finally:
        server.stop()
        await served


async def frames_of(response: httpx2.Response) -> AsyncGenerator[Frame]:
    """The events of an answer, as they come; comments are skipped."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Frame(fields["event"], fields.get("id"), json.loads(fields["data"]))
            fields = {}


def problem_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    """The problem that an error answer holds."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["type"].startswith("urn:rondo:")
    assert problem["status"] == status
    assert problem["title"]
    return problem


def head(house: House, path: str, *lines: str, method: str = "POST") -> bytes:
    """A request's first lines, for a bare socket."""
    fields = (
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {house.token}",
    )
    return "\r\n".join([*fields, *lines, "", ""]).encode()
