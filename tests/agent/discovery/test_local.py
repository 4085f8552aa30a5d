"""The search for model servers on this machine finds what is one, and nothing else."""

from __future__ import annotations

import json
from contextlib import ExitStack

import anyio
import pytest

from service.llm.discovery.local_programs import find_servers, window_now
from service.llm.discovery.providers import LocalPlace, LocalServer, OfferedModel, local_places
from tests.support.model_servers import Answer, Asked, listing, ollama, serving, silent

pytestmark = pytest.mark.anyio

_LONG = 30.0  # seconds for tests that are not about being quick


async def found_at(*ports: int, seconds: float = _LONG) -> list[LocalServer]:
    places = [LocalPlace("Something", f"http://localhost:{port}/v1") for port in ports]
    with anyio.fail_after(60):
        return await find_servers(places, seconds=seconds)


async def found_of(answer: Answer) -> list[LocalServer]:
    with serving(answer) as served:
        return await found_at(served.port)


async def test_ollama_is_told_by_name_with_what_its_models_are_and_can_do() -> None:
    with serving(ollama()) as served:
        (server,) = await found_at(served.port)
        assert server.base_url == served.base_url
    assert (server.program, server.version) == ("Ollama", "0.12.6")
    assert server.offers.models == (
        OfferedModel("qwen3:8b", note="8.2B", size=5_200_000_000, tools=True),
        OfferedModel("gemma2:2b", note="8.2B", size=1_600_000_000, tools=False),
    )
    assert server.offers.others == 1  # it embeds


async def test_ollama_without_models_is_told_too() -> None:
    (server,) = await found_of(ollama({}))
    assert server.program == "Ollama"
    assert server.offers.models == ()


async def test_the_window_that_ollama_has_loaded_a_model_with_is_told() -> None:
    with serving(ollama(window=4096)) as served:
        assert await window_now(served.base_url, "qwen3:8b") == 4096
        assert await window_now(served.base_url, "another") is None


def _llama_cpp(asked: Asked) -> None:
    match asked.path:
        case "/v1/models":
            asked.reply({"object": "list", "data": [{"id": "m.gguf", "owned_by": "llamacpp"}]})
        case "/props":
            asked.reply({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1})
        case _:
            asked.reply({"error": "not found"}, status=404)


def _lm_studio(asked: Asked) -> None:
    ids = ["small", "large", "nomic"]
    match asked.path:
        case "/v1/models":
            entries = [{"id": each, "owned_by": "organization_owner"} for each in ids]
            asked.reply({"data": entries})
        case "/api/v0/models":
            small = {"id": "small", "type": "llm", "state": "loaded", "capabilities": ["tool_use"]}
            small["loaded_context_length"] = 4096  # type: ignore[assignment]
            large = {"id": "large", "type": "vlm", "state": "not-loaded"}
            asked.reply({"data": [small, large, {"id": "nomic", "type": "embeddings"}]})
        case _:
            asked.reply({"error": "Unexpected endpoint"})


async def test_llama_cpp_tells_its_window() -> None:
    (server,) = await found_of(_llama_cpp)
    assert server.program == "llama.cpp"
    assert server.offers.models == (OfferedModel("m.gguf", context_tokens=8192),)


async def test_lm_studio_tells_which_models_embed_and_which_is_loaded() -> None:
    (server,) = await found_of(_lm_studio)
    assert server.program == "LM Studio"
    assert server.offers.models == (
        OfferedModel("small", note="loaded", tools=True, context_tokens=4096),
        OfferedModel("large"),
    )
    assert server.offers.others == 1


async def test_any_other_server_is_told_by_what_usually_listens_there() -> None:
    with serving(listing("小模型", "text-embedding-3", max_model_len=16384)) as served:
        (server,) = await found_at(served.port)
    assert "where Something usually listens" in server.program
    assert server.offers.models == (OfferedModel("小模型", context_tokens=16384),)


async def test_a_server_that_wants_a_key_is_told_and_is_sent_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    with serving(listing("m", key="sk-right")) as served:
        (server,) = await found_at(served.port)
        assert server.wants_key
        assert "sk-hush" not in str(served.requests)


def _redirects(asked: Asked) -> None:
    asked.reply("moved", status=302, Location="http://127.0.0.1:1/v1/models")


def _refuses_as_a_web_page(asked: Asked) -> None:
    asked.reply("<html>Log in</html>", status=401)


def _is_rondo(asked: Asked) -> None:
    if asked.path == "/":
        asked.reply({"name": "Rondo", "version": "0.1.0"})
    else:
        asked.reply({"data": [{"id": "default"}]})


def _refuses_as_rondo(asked: Asked) -> None:
    asked.reply({"title": "no"}, status=401, media_type="application/problem+json")


def _is_endless(asked: Asked) -> None:
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.end_headers()
    try:
        asked.wfile.write(b'{"data": [{"id": "m"}], "more": "')
        while True:
            asked.wfile.write(b"x" * 65536)
    except OSError:
        asked.close_connection = True


def _is_garbage(asked: Asked) -> None:
    asked.wfile.write(b"\x00\xff SSH-2.0 \r\n\r\n\r\n")
    asked.close_connection = True


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: asked.reply("<!doctype html><html>A web page</html>"),
        lambda asked: asked.reply("{" + "[" * 100_000, media_type="application/json"),
        lambda asked: asked.reply({"hello": "world"}),
        lambda asked: asked.reply({"data": []}),
        lambda asked: asked.reply({"data": [{"id": "m"}]}, status=500),
        lambda asked: asked.reply("", status=204),
        _redirects,
        _refuses_as_a_web_page,
        _refuses_as_rondo,
        _is_rondo,
        _is_endless,
        _is_garbage,
    ],
    ids=lambda answer: answer.__name__,
)
async def test_what_is_no_model_server_is_left_out(answer: Answer) -> None:
    assert await found_of(answer) == []


@pytest.mark.slow
async def test_a_port_that_stays_silent_delays_nothing_else() -> None:
    with ExitStack() as stack:
        mute = [stack.enter_context(silent()) for _ in range(5)]
        served = stack.enter_context(serving(ollama()))
        with anyio.fail_after(60):  # it would wait for ever
            servers = await found_at(*mute, served.port, seconds=10)
    assert [server.base_url for server in servers] == [served.base_url]


@pytest.mark.slow
async def test_what_comes_too_late_leaves_what_came_in_time() -> None:
    def slow_after_its_list(asked: Asked) -> None:
        if asked.path == "/api/show":
            asked.rfile.read(1)  # until the other side has gone
        else:
            ollama()(asked)

    with serving(slow_after_its_list) as served:
        (server,) = await found_at(served.port, seconds=10)
    assert [model.name for model in server.offers.models][:2] == ["qwen3:8b", "gemma2:2b"]


async def test_one_server_under_two_names_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ollama()) as served:
        assert len(await found_at(served.port, served.port)) == 1


def test_ollama_is_looked_for_where_its_own_variable_says() -> None:
    first, *others = local_places({"OLLAMA_HOST": "127.0.0.1:4321"})
    assert first == LocalPlace("Ollama", "http://localhost:4321/v1")
    ports = {place.base_url for place in others}
    assert {f"http://localhost:{port}/v1" for port in (1234, 8080, 8000, 1337, 5001)} <= ports
    assert local_places({})[0].base_url == "http://localhost:11434/v1"


async def test_names_that_could_drive_a_terminal_are_left_out() -> None:
    with serving(listing("good", "evil\x1b[2J", "x" * 1000)) as served:
        (server,) = await found_at(served.port)
    assert json.dumps([model.name for model in server.offers.models]) == '["good"]'
