"""The embedded model: a real process with the real weights, and what happens when it fails."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.config import default_models_dir
from service.domain.conversation.messages import (
    ImageUrlPart,
    Message,
    TextPart,
    ToolCall,
    ToolResult,
)
from service.domain.conversation.stream_parts import MessageAssembler, TextDelta
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import LLMConnectionError, LLMContextError, LLMError, LLMNotReadyError
from service.llm.embedded.embedded_model import EmbeddedLLM, describe
from service.models.catalog import FileSource, KnownModel
from service.models.weight_store import ModelStore

pytestmark = pytest.mark.anyio


def text_tool(name: str, description: str, parameter: str) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": {parameter: {"type": "string"}},
            "required": [parameter],
        },
    )


TOOLS = [
    text_tool("calculator", "Calculate an arithmetic expression exactly.", "expression"),
    text_tool("current_time", "Tell the present date and time in a time zone.", "timezone"),
    text_tool("memory_search", "Search everything that was said earlier.", "query"),
]
SYSTEM = Message.system("You are Rondo, a personal assistant. Answer briefly and truthfully.")


async def ask(
    llm: EmbeddedLLM,
    *messages: Message,
    tools: Sequence[ToolDefinition] = TOOLS,
    schema: dict[str, Any] | None = None,
) -> Message:
    assembler = MessageAssembler()
    stream = llm.stream([SYSTEM, *messages], tools=tools, response_schema=schema, max_tokens=120)
    async for part in stream:
        assembler.add(part)
    assert assembler.usage is not None
    return assembler.message()


def test_the_words_about_it_are_honest_and_name_the_way_out() -> None:
    words = describe()
    for part in ("very small", "invents facts", "RONDO_LLM__BASE_URL", "OPENAI_API_KEY"):
        assert part in words


async def test_without_its_weights_it_says_what_failed_and_how_to_do_without_it(
    tmp_path: Path,
) -> None:
    catalog = [
        KnownModel("tiny", "", 10, "0" * 64, "", "", 4096, 1e8, (FileSource(tmp_path / "none"),))
    ]
    llm = EmbeddedLLM(store=ModelStore(tmp_path / "models", catalog=catalog), name="tiny")
    assert not llm.status().ready
    for _ in range(2):
        with pytest.raises(LLMNotReadyError, match="cannot be read") as raised:
            await ask(llm, Message.user("Hello"))
        assert not raised.value.retryable
        assert "RONDO_LLM__BASE_URL" in raised.value.advice
        assert raised.value.problem().in_words().count("`--from`") == 1
    assert "cannot be read" in llm.status().detail
    await llm.aclose()


async def test_a_file_that_is_no_model_ends_the_start_with_words(tmp_path: Path) -> None:
    import hashlib

    file = tmp_path / "not-a-model"
    file.write_bytes(b"no model")
    sha256 = hashlib.sha256(b"no model").hexdigest()
    catalog = [KnownModel("tiny", "", 8, sha256, "", "", 4096, 1e8, (FileSource(file),))]
    llm = EmbeddedLLM(store=ModelStore(tmp_path / "models", catalog=catalog), name="tiny")
    with pytest.raises(LLMNotReadyError, match="while loading"):
        await llm.warm_up([])
    await llm.aclose()


@pytest.fixture(scope="module")
def weights() -> ModelStore:
    store = ModelStore(default_models_dir())
    store.pull("qwen2.5-coder-0.5b")
    return store


@pytest.fixture(scope="module")
async def embedded(weights: ModelStore) -> AsyncIterator[EmbeddedLLM]:
    llm = EmbeddedLLM(store=weights)
    await llm.warm_up([], tools=TOOLS)
    yield llm
    await llm.aclose()


def pid(llm: EmbeddedLLM) -> int:
    process = llm.process
    assert process is not None
    assert process.pid is not None
    return process.pid


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "Hello!",
        "你好",
        "Thanks, that helps.",
        "How do I boil an egg?",
        "Translate 'good morning, my friend' to German",
        "My son was born in 2015.",
        "我对花生过敏，请记住。",
    ],
)
async def test_it_chats_without_a_tool(embedded: EmbeddedLLM, words: str) -> None:
    said = await ask(embedded, Message.user(words))
    assert said.text
    assert said.tool_calls == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "tool", "argument"),
    [
        ("what is 23*19", "calculator", "23"),
        ("23乘以19等于多少？", "calculator", "23"),
        ("What time is it in Tokyo?", "current_time", "Tokyo"),
        ("现在东京几点？", "current_time", "Tokyo|东京"),
        ("I buy 3 shirts at 19.90 each: what do I pay?", "calculator", "3"),
        ("午饭35元，打车48元，一共多少钱？", "calculator", "35"),
    ],
)
async def test_it_calls_the_tool_that_the_words_ask_for(
    embedded: EmbeddedLLM, words: str, tool: str, argument: str
) -> None:
    (call,) = (await ask(embedded, Message.user(words))).tool_calls
    assert call.name == tool
    assert re.search(argument, call.arguments)


@pytest.mark.slow
async def test_it_puts_a_tool_result_into_words(embedded: EmbeddedLLM) -> None:
    call = ToolCall(id="c", name="calculator", arguments='{"expression":"23*19"}')
    said = await ask(
        embedded,
        Message.user("what is 23*19"),
        Message.assistant("", (call,)),
        Message.tool(ToolResult(id="c", content="437")),
    )
    assert "437" in said.text


@pytest.mark.slow
async def test_a_history_with_tools_can_be_answered_without_any_on_offer(
    embedded: EmbeddedLLM,
) -> None:
    call = ToolCall(id="c", name="calculator", arguments='{"expression":"23*19"}')
    said = await ask(
        embedded,
        Message.user("what is 23*19"),
        Message.assistant("", (call,)),
        Message.tool(ToolResult(id="c", content="437")),
        tools=(),
    )
    assert "437" in said.text
    assert "{" not in said.text


@pytest.mark.slow
async def test_it_keeps_to_a_schema(embedded: EmbeddedLLM) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    said = await ask(embedded, Message.user("What colour is the sky?"), tools=(), schema=schema)
    assert "blue" in said.text


@pytest.mark.slow
async def test_what_is_too_long_for_it_is_refused_in_its_own_words(embedded: EmbeddedLLM) -> None:
    with pytest.raises(LLMContextError, match="exceeds the available context") as raised:
        await ask(embedded, Message.user("word " * 9000), tools=())
    assert not raised.value.retryable
    assert "RONDO_LLM__BASE_URL" in raised.value.advice


@pytest.mark.slow
async def test_an_image_does_not_keep_it_from_answering(embedded: EmbeddedLLM) -> None:
    image = ImageUrlPart(url="https://images.example/cat.png")
    seen = Message(role="user", content=(TextPart(text="What is this?"), image))
    assert (await ask(embedded, seen, tools=())).text


@pytest.mark.slow
async def test_cancelling_a_call_lets_the_next_one_in(embedded: EmbeddedLLM) -> None:
    started = anyio.Event()

    async def long_answer() -> None:
        async for part in embedded.stream([Message.user("Count from one to one hundred.")]):
            if isinstance(part, TextDelta):
                started.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(long_answer)
        await started.wait()
        tasks.cancel_scope.cancel()
    assert (await ask(embedded, Message.user("Hello"))).text


@pytest.mark.slow
async def test_calls_at_once_share_one_process(weights: ModelStore) -> None:
    llm = EmbeddedLLM(store=weights)
    pids: list[int] = []

    async def call() -> None:
        await ask(llm, Message.user("Hello"), tools=())
        pids.append(pid(llm))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
    assert len(pids) == 3
    assert len(set(pids)) == 1
    await llm.aclose()
    assert not is_running(pids[0])
    with pytest.raises(LLMError):
        await ask(llm, Message.user("Hello"))


@pytest.mark.slow
async def test_a_killed_process_fails_the_running_call_and_the_next_one_starts_another(
    weights: ModelStore,
) -> None:
    llm = EmbeddedLLM(store=weights)
    stream = llm.stream([Message.user("Count from one to one hundred.")])
    await anext(stream)
    first = pid(llm)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(LLMConnectionError, match="SIGKILL"):
        async for _ in stream:
            pass
    assert (await ask(llm, Message.user("Hello"), tools=())).text
    assert pid(llm) != first
    await llm.aclose()


@pytest.mark.slow
async def test_the_process_ends_when_its_parent_is_killed(weights: ModelStore) -> None:
    program = f"""
import anyio, sys
from pathlib import Path
from service.llm.embedded.embedded_model import EmbeddedLLM
from service.models.weight_store import ModelStore
async def main():
    llm = EmbeddedLLM(store=ModelStore(Path({str(weights.models_dir)!r})))
    await llm.warm_up([])
    print(llm.process.pid, flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""
    parent = await anyio.open_process([sys.executable, "-c", program])
    assert parent.stdout is not None
    child = int(await parent.stdout.receive())
    assert is_running(child)
    parent.kill()
    await parent.wait()
    with anyio.fail_after(20):
        while is_running(child):
            await anyio.sleep(0.05)


@pytest.mark.slow
async def test_closing_while_the_model_loads_leaves_nothing_behind(weights: ModelStore) -> None:
    llm = EmbeddedLLM(store=weights)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(llm.warm_up, ())
        while llm.status().detail != "loading qwen2.5-coder-0.5b":
            await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    await llm.aclose()
    process = llm.process
    assert process is not None
    assert process.phase == "over"
    assert process.pid is None or not is_running(process.pid)


@pytest.mark.slow
async def test_an_answer_that_is_cut_off_is_marked_and_ends_in_its_own_words(
    embedded: EmbeddedLLM,
) -> None:
    assembler = MessageAssembler()
    said = [SYSTEM, Message.user("Write a story about a fox and a bear, in ten sentences.")]
    async for part in embedded.stream(said, tools=TOOLS[1:2], max_tokens=40):
        assembler.add(part)
    assert assembler.finish_reason == "length"
    assert assembler.message().text.strip()
    assert "…" not in assembler.message().text
