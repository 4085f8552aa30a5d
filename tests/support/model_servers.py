"""Servers that stand in for those that people run: real sockets, and the forms that they speak."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Asked"], None]


class Asked(BaseHTTPRequestHandler):
    """A request, and the ways to answer it."""

    server: ThreadingHTTPServer
    body: dict[str, Any]

    def reply(
        self, body: object, *, status: int = 200, media_type: str = "", **headers: str
    ) -> None:
        raw = (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()
        self.send_response(status)
        kind = media_type or ("text/html" if isinstance(body, str) else "application/json")
        for name, value in {"Content-Type": kind, "Connection": "close", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        self.close_connection = True

    def stream(self, *chunks: dict[str, Any]) -> None:
        """Chunks of a chat completion."""
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.reply("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        pass


@dataclass
class Served:
    """A server that runs, and what it was asked."""

    port: int
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://localhost:{self.port}/v1"

    @property
    def asked_for(self) -> list[str]:
        return [path for path, _, _ in self.requests]


@contextmanager
def serving(answer: Answer) -> Iterator[Served]:
    """Serve until the end of ``with``, on a free port of 127.0.0.1."""

    class Handler(Asked):
        def do_GET(self) -> None:
            self._handle({})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._handle(json.loads(raw or b"{}"))

        def _handle(self, body: dict[str, Any]) -> None:
            self.body = body
            headers = {name.lower(): value for name, value in self.headers.items()}
            served.requests.append((self.path, headers, body))
            answer(self)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Served(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silent() -> Iterator[int]:
    """A port that accepts, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    """A chunk of an answer."""
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def answered(asked: Asked, *, tools: bool = True, words: str = "Hello, I am here.") -> None:
    """A chat completion: of the tool, where one is offered and the model can."""
    if asked.body.get("tools"):
        if not tools:
            model = asked.body["model"]
            error = {"message": f"{model} does not support tools", "type": "api_error"}
            asked.reply({"error": error}, status=400)
            return
        name = asked.body["tools"][0]["function"]["name"]
        call = {"name": name, "arguments": '{"city": "Lisbon"}'}
        calls = [{"index": 0, "id": "call_1", "type": "function", "function": call}]
        asked.stream(delta(tool_calls=calls), delta("tool_calls"))
        return
    asked.stream(delta(content=words), delta("stop"))


OLLAMA_MODELS: dict[str, tuple[int, list[str]]] = {
    "qwen3:8b": (5_200_000_000, ["completion", "tools", "thinking"]),
    "gemma2:2b": (1_600_000_000, ["completion"]),
    "some-vectors:latest": (274_000_000, ["embedding"]),
}


def ollama(models: dict[str, tuple[int, list[str]]] | None = None, *, window: int = 4096) -> Answer:
    """Ollama, with these models: their sizes, and what they can do.

    In the forms of https://github.com/ollama/ollama/blob/main/docs/api.md.
    """
    served = OLLAMA_MODELS if models is None else models

    def answer(asked: Asked) -> None:
        match asked.path:
            case "/api/version":
                asked.reply({"version": "0.12.6"})
            case "/v1/models":
                entries = [{"id": m, "object": "model", "owned_by": "library"} for m in served]
                asked.reply({"object": "list", "data": entries})
            case "/api/tags":
                details = {"parameter_size": "8.2B"}
                tags = [{"name": m, "size": served[m][0], "details": details} for m in served]
                asked.reply({"models": tags})
            case "/api/show" if asked.body["model"] in served:
                asked.reply({"capabilities": served[asked.body["model"]][1], "model_info": {}})
            case "/api/ps":
                loaded = [{"name": name, "context_length": window} for name in served]
                asked.reply({"models": loaded})
            case "/v1/chat/completions" if asked.body["model"] in served:
                answered(asked, tools="tools" in served[asked.body["model"]][1])
            case "/v1/chat/completions":
                error = {"message": f"model '{asked.body['model']}' not found"}
                asked.reply({"error": error}, status=404)
            case _:
                asked.reply("404 page not found", status=404, media_type="text/plain")

    return answer


def listing(*names: str, key: str = "", **entry: object) -> Answer:
    """A server that speaks OpenAI's API and tells nothing of what it is."""

    def answer(asked: Asked) -> None:
        if key and asked.headers.get("Authorization") != f"Bearer {key}":
            asked.reply({"error": {"message": "Invalid API key"}}, status=401)
        elif asked.path == "/v1/models":
            entries = [{"id": name, "object": "model", **entry} for name in names]
            asked.reply({"object": "list", "data": entries})
        elif asked.path == "/v1/chat/completions":
            answered(asked)
        else:
            asked.reply({"detail": "Not Found"}, status=404)

    return answer
