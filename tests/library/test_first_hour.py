"""What a program does with Rondo first: an agent by one call, its tools, its memory as a file."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from service import (
    Agent,
    AgentOptions,
    BadAnchorError,
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    LLMConnectionError,
    LLMError,
    Memory,
    OpenAIModel,
    RunLoopIdle,
    Script,
    ScriptedModel,
    StorageError,
    ToolContext,
    agent_from_settings,
    create_agent,
    export_memory,
    import_memory,
    load_settings,
    tool,
)
from tests.support import model_servers
from tests.support.memory.archives import chatgpt, written
from tests.support.model_servers import Asked, delta

pytestmark = pytest.mark.anyio


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def owner_of(context: ToolContext) -> str:
    """Whose run loop it is."""
    return context.owner


def echoing(folder: Path) -> Agent:
    return create_agent(ScriptedModel(Script()), memory=Memory(folder))


async def test_tools_are_functions_with_or_without_the_decorator(tmp_path: Path) -> None:
    llm = ScriptedModel(
        turns=['call: double {"number": 21}', "call: owner_of {}", "text: {result}"]
    )
    async with create_agent(llm, [double, owner_of], Memory(str(tmp_path))) as agent:
        assert await agent.ask("Twice 21, for whom?") == "me"
        results = [message.text for message in llm.requests[-1].messages if message.role == "tool"]
    assert results == ["42", "me"]


def test_two_tools_of_one_name_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="`double`"):
        create_agent(ScriptedModel(Script()), [double, double], tmp_path)


async def test_what_is_not_given_is_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_LLM__PROVIDER", "scripted")
    monkeypatch.setenv("RONDO_EMBEDDER__KIND", "none")
    monkeypatch.setenv("RONDO_DATA_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("RONDO_AGENT__LINGER_SECONDS", "12")
    async with create_agent() as agent:
        assert await agent.ask("Hello") == "You said: Hello"
        assert agent.options.linger_seconds == 12
        assert agent.memory.folder == tmp_path / "home"
    async with create_agent(memory=tmp_path / "own") as agent:
        assert agent.memory.folder == tmp_path / "own"
    async with agent_from_settings(load_settings(), tools=[double]) as agent:
        assert {"double", "memory_search"} <= set(agent.tools.names)


async def test_a_key_of_the_environment_goes_to_the_address_there_and_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(asked: Asked) -> None:
        asked.stream(delta(content="Hello."), delta("stop"))

    with model_servers.serving(answer) as configured, model_servers.serving(answer) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", configured.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
        for number, model in enumerate(
            [OpenAIModel("m"), OpenAIModel("m", base_url=other.base_url)]
        ):
            async with create_agent(model, memory=Memory(tmp_path / str(number))) as agent:
                assert await agent.ask("Hello") == "Hello."
    assert configured.requests
    assert other.requests
    for _, headers, _ in configured.requests:
        assert headers["authorization"] == "Bearer sk-of-the-environment"
    assert "of-the-environment" not in json.dumps(other.requests)


async def test_what_was_said_just_now_is_found_opened_and_taken_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    async with echoing(tmp_path / "one") as agent:
        events = [event.body async for event in agent.send("The shed's code is 4711.")]
        assert isinstance(events[-1], RunLoopIdle)
        found = await agent.memory.search("code of the shed")
        assert found.hits[0].content == "The shed's code is 4711."
        for anchor in (found.hits[0].anchor, str(found.hits[0].anchor), found.hits[0].anchor.ref):
            around = await agent.memory.expand(anchor)
            assert [each.content for each in around.after] == ["You said: The shed's code is 4711."]
        with pytest.raises(BadAnchorError):
            await agent.memory.expand("the shed")
        file.write_text("what stood there before")
        assert await export_memory(agent.memory, file) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [file.name]
    async with echoing(tmp_path / "two") as agent:
        dry = await import_memory(agent.memory, file, dry_run=True)
        assert dry.imported == 1
        assert not (await agent.memory.search("shed")).hits
        assert (await import_memory(agent.memory, str(file))).imported == 1
        assert (await import_memory(agent.memory, file)).unchanged == 1
        assert "4711" in (await agent.memory.search("shed")).hits[0].content


async def test_an_archive_of_another_service_comes_in_and_tells_what_could_not(
    tmp_path: Path,
) -> None:
    trip = chatgpt(("1", None, "user", "Where is Bern?"), ("2", "1", "assistant", "Here."))
    written(tmp_path, trip, {"title": "Odd", "mapping": {"a": 5}})
    async with echoing(tmp_path / "home") as agent:
        report = await import_memory(agent.memory, tmp_path)
    assert (report.imported, report.failures) == (1, 1)
    assert report.failed[0].problem.startswith("conversation 2 'Odd': ")


async def test_a_file_that_cannot_be_is_told(tmp_path: Path) -> None:
    async with echoing(tmp_path / "home") as agent:
        with pytest.raises(InvalidInputError, match="nowhere"):
            await import_memory(agent.memory, tmp_path / "nowhere.jsonl")
        with pytest.raises(StorageError, match="nowhere"):
            await export_memory(agent.memory, tmp_path / "nowhere" / "memory.jsonl")


async def test_an_agent_that_is_not_at_work_says_how_it_is_used(tmp_path: Path) -> None:
    agent = echoing(tmp_path)
    with pytest.raises(ConflictError, match="not at work") as early:
        await agent.ask("Hello")
    assert "async with" in early.value.advice
    async with agent:
        assert await agent.ask("Hello") == "You said: Hello"
    with pytest.raises(ConflictError, match="not at work"):
        await agent.cancel("x")


def test_the_name_of_a_model_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'gpt-5' is no model") as refused:
        create_agent("gpt-5", memory=tmp_path)  # type: ignore[arg-type]
    assert "OpenAIModel(" in refused.value.advice


async def test_a_model_that_cannot_be_reached_is_an_error_to_catch(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens there
        model = OpenAIModel("m", base_url=f"http://127.0.0.1:{held.getsockname()[1]}/v1")
        options = AgentOptions(max_retries=0)
        async with create_agent(model, memory=Memory(tmp_path), options=options) as agent:
            with pytest.raises(LLMConnectionError) as failed:
                await agent.ask("Hello")
    assert failed.value.kind == "llm-connection"
    assert "nothing listens" in failed.value.detail
    assert failed.value.advice


async def test_what_an_endpoint_refuses_is_an_error_to_catch(tmp_path: Path) -> None:
    with model_servers.serving(lambda asked: asked.reply({"error": {}}, status=401)) as endpoint:
        model = OpenAIModel("m", base_url=endpoint.base_url)
        options = AgentOptions(max_retries=0)
        async with create_agent(model, memory=Memory(tmp_path), options=options) as agent:
            with pytest.raises(LLMError) as failed:
                await agent.ask("Hello")
    assert failed.value.kind == "llm-status"
