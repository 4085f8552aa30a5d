from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest
from pydantic import SecretStr

from service.domain.conversation.messages import ToolResult
from service.tools.builtins.web_search import web_search_tool
from tests.support.tools.tool_calls import CONTEXT, call_of, execute_all, registry_of, result_of

pytestmark = pytest.mark.anyio

PAGES = {
    "query": "q",
    "results": [
        {
            "title": "天气",
            "url": "https://example.org/a",
            "content": "晴",
            "score": 0.9,
            "published_date": "Sun, 01 Mar 2026 08:00:00 GMT",
        },
        {"title": "", "url": "https://example.org/b", "content": "x" * 5000},
    ],
}


class Tavily:
    """A server that answers as Tavily does."""

    def __init__(self) -> None:
        self.status = 200
        self.body = json.dumps(PAGES).encode()
        self.silent = False
        self.asked: list[tuple[str | None, dict[str, object]]] = []
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.asked.append(
                    (self.headers["Authorization"], json.loads(self.rfile.read(length)))
                )
                if outer.silent:
                    outer.release.wait()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def tavily(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tavily]:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    server = Tavily()
    yield server
    server.close()


async def search(tavily: Tavily, **arguments: object) -> ToolResult:
    tool = web_search_tool(SecretStr("tvly-secret"), api_base_url=tavily.url)
    return await result_of(tool, **arguments)


@pytest.mark.slow
async def test_each_result_has_title_address_and_excerpt(tavily: Tavily) -> None:
    result = await search(tavily, query="北京天气", max_results=2)
    assert not result.is_error
    assert (
        "1. 天气\nhttps://example.org/a\nPublished: Sun, 01 Mar 2026 08:00:00 GMT\n晴"
        in result.content
    )
    assert "2. https://example.org/b" in result.content
    assert len(result.content) < 2500
    authorization, asked = tavily.asked[0]
    assert authorization == "Bearer tvly-secret"
    assert (asked["query"], asked["max_results"]) == ("北京天气", 2)


@pytest.mark.slow
async def test_nothing_found_is_said(tavily: Tavily) -> None:
    tavily.body = b'{"results": []}'
    result = await search(tavily, query="q")
    assert not result.is_error
    assert "found nothing" in result.content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"detail": {"error": "Unauthorized"}}, "TAVILY_API_KEY"),
        (429, {"detail": {"error": "Slow down"}}, "Slow down"),
        (432, {"detail": {"error": "Plan limit"}}, "Plan limit"),
        (400, {"detail": {"error": "Too long"}}, "Too long"),
        (503, {}, "HTTP status 503"),
        (200, {"results": [1]}, "cannot be read"),
        (200, None, "cannot be read"),
    ],
)
async def test_an_answer_that_is_a_failure_is_told_in_words(
    tavily: Tavily, status: int, body: dict[str, object] | None, words: str
) -> None:
    tavily.status = status
    tavily.body = b"<html>" if body is None else json.dumps(body).encode()
    result = await search(tavily, query="q")
    assert result.is_error
    assert words in result.content
    assert "tvly-secret" not in result.content


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_told_in_words(tavily: Tavily) -> None:
    tavily.close()
    result = await search(tavily, query="q")
    assert result.is_error
    assert "cannot be reached" in result.content


@pytest.mark.slow
async def test_a_server_that_stays_silent_is_given_up(tavily: Tavily) -> None:
    tavily.silent = True
    tool = web_search_tool(SecretStr("k"), api_base_url=tavily.url, timeout_seconds=0.1)
    result = await result_of(tool, query="q")
    assert result.is_error
    assert "0.1 seconds" in result.content


@pytest.mark.slow
async def test_searches_run_side_by_side(tavily: Tavily) -> None:
    registry = registry_of(web_search_tool(SecretStr("k"), api_base_url=tavily.url))
    calls = [call_of("web_search", str(number), query=f"q{number}") for number in range(5)]
    with anyio.fail_after(60):
        results = await execute_all(registry, calls, lambda call: CONTEXT)
    assert [result.is_error for result in results] == [False] * 5
    assert sorted(str(asked["query"]) for _, asked in tavily.asked) == [f"q{n}" for n in range(5)]


@pytest.mark.slow
async def test_the_number_of_results_is_bounded(tavily: Tavily) -> None:
    assert (await search(tavily, query="q", max_results=50)).is_error
    assert tavily.asked == []
