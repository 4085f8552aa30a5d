"""A file that a person sends is read in that run loop alone, and goes with its message."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.agent.agent_factory import agent_from_settings
from service.config import EmbedderSettings, Settings
from service.domain.anchors import AnchorRef
from service.domain.conversation.file_attachments import NewFile
from service.domain.conversation.messages import Message
from service.domain.errors import InvalidInputError, StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import Event, MessageReceived
from service.tools.builtins.ask_user import ask_user
from tests.support.agent.agents import Answer, FunctionLLM, answer_of
from tests.support.agent.waiting import tool_call
from tests.support.tools.documents import pdf

pytestmark = pytest.mark.anyio

TEA = NewFile("茶.txt", b"the tea is in the barn\n")
PATH = re.compile(r"its path is (sent:\S+)")


def reading(messages: Sequence[Message]) -> Answer:
    """Reads the file that it was told of last, or what it is told to."""
    if messages[-1].role == "tool":
        return f"It says: {messages[-1].text}"
    asked = re.search(r"read (\S+)", messages[-1].text)
    told = PATH.findall("\n".join(each.notes for each in messages))
    path = asked[1] if asked else told[-1] if told else None
    return "Which file?" if path is None else [tool_call("read_file", path=path)]


@asynccontextmanager
async def working(folder: Path) -> AsyncIterator[Agent]:
    settings = Settings(data_dir=folder, embedder=EmbedderSettings(kind="none"))
    async with agent_from_settings(settings, llm=FunctionLLM(reading)) as agent:
        yield agent


async def send(
    agent: Agent, words: str, *files: NewFile, to: str | None = "new", **options: Any
) -> list[Event]:
    with agent.reader() as reader:
        receipt = await agent.accept(words, run_loop_id=to, files=files, **options)
        return [event async for event in agent.follow(receipt.message_id, reader=reader)]


def told(events: Sequence[Event]) -> str:
    """The path that the model was told."""
    [message] = [each.body for each in events if isinstance(each.body, MessageReceived)]
    path = PATH.findall(message.message.notes)[0]
    assert isinstance(path, str)
    return path


async def forget(agent: Agent, **named: Any) -> int:
    request = ForgetRequest(stop=True, **named)
    preview = await agent.preview_forgetting(request)
    assert preview.confirm is not None, preview.notice
    return (await agent.forget(request, preview.confirm)).removed.sent_files


def kept(folder: Path) -> int:
    return len(list((folder / "sent-files").glob("*")))


async def test_it_is_read_where_it_was_sent_and_nowhere_else(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        events = await send(agent, "what does it say?", TEA)
        assert "the tea is in the barn" in answer_of(events)
        loop_id = events[0].run_loop_id
        run_loop = await agent.run_loop(loop_id)
        assert run_loop.goal == "what does it say? (a file: 茶.txt)"
        path = told(events)
        # Later in the same loop, too, and in its fork; not in another one.
        assert "in the barn" in answer_of(await send(agent, f"read {path}", to=loop_id))
        fork = await agent.fork(loop_id)
        assert "in the barn" in answer_of(await send(agent, f"read {path}", to=fork.id))
        elsewhere = answer_of(await send(agent, f"read {path}"))
        assert "was not sent with a message of this conversation" in elsewhere
        assert "in the barn" in answer_of(await send(agent, "read 茶.txt", to=loop_id))
        await send(agent, "and this?", NewFile("茶.txt", b"another one"), to=loop_id)
        assert "another one" in answer_of(await send(agent, "read 茶.txt", to=loop_id))
        assert "in the barn" in answer_of(await send(agent, f"read {path}", to=loop_id))
        wrong = answer_of(await send(agent, "read sent:none/x", to=loop_id))
        assert path in wrong, "it is told which there are"


async def test_documents_and_words_that_are_left_out_will_do(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        events = await send(agent, "", NewFile("../of\nfice/年报.pdf", pdf(["茶 4.50"])))
        assert "茶 4.50" in answer_of(events)
        assert (await agent.run_loop(events[0].run_loop_id)).goal == "(a file: 年报.pdf)"


async def test_it_goes_with_what_tells_of_it(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        first = (await send(agent, "one", TEA))[0].run_loop_id
        await send(agent, "two", NewFile("b.txt", b"b"), to=first)
        other = (await send(agent, "three", NewFile("c.txt", b"c")))[0].run_loop_id
        assert kept(tmp_path) == 3
        assert await forget(agent, anchors=(AnchorRef.parse(f"{first}:0.0"),)) == 1
        assert kept(tmp_path) == 2
        assert await forget(agent, run_loop_ids=(other,)) == 1
        [left] = (tmp_path / "sent-files").iterdir()
        assert left.read_bytes().endswith(b"\nb")
        assert left.stat().st_mode & 0o777 == 0o600
        assert await forget(agent, everything=True) == 1
        assert kept(tmp_path) == 0


async def test_it_moves_with_its_message(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        first = (await send(agent, "hello"))[0].run_loop_id
        events = await send(agent, "what is in it?", TEA, to=first)
        path = told(events)
        moved = (await agent.reroute(first, to="new")).to_run_loop_id
        assert "in the barn" in answer_of(await send(agent, f"read {path}", to=moved))
        assert "was not sent" in answer_of(await send(agent, f"read {path}", to=first))
        assert await forget(agent, run_loop_ids=(first,)) == 0
        assert await forget(agent, run_loop_ids=(moved,)) == 1


async def test_the_same_message_once_more_keeps_one_copy(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        for _ in range(3):
            await send(agent, "one", TEA, idempotency_key="k", request_hash="h")
        assert kept(tmp_path) == 1


async def test_what_is_not_accepted_leaves_nothing(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        with pytest.raises(InvalidInputError, match="10,000,000"):
            await send(agent, "one", NewFile("large", bytes(10_000_001)))
        (tmp_path / "sent-files").write_text("in the place of the folder")
        with pytest.raises(StorageError, match="cannot be kept"):
            await send(agent, "one", TEA)
        (tmp_path / "sent-files").unlink()
        summaries = await agent.memory.journal.run_loops.summaries(owner="me")
        assert summaries == []


async def test_what_a_crash_has_left_goes_at_the_start_and_no_other(tmp_path: Path) -> None:
    async with working(tmp_path) as agent:
        loop_id = (await send(agent, "one", TEA))[0].run_loop_id
    orphan = tmp_path / "sent-files" / "0000000000000000.sent"
    orphan.write_bytes(b'{"id":"0000000000000000","owner":"me","name":"x","size":1}\nx')
    (tmp_path / "sent-files" / "cut.sent.new").write_bytes(b"x")
    async with working(tmp_path) as agent:
        assert await agent.memory.sent_files.sweep(agent.memory.journal) in (0, 1)
        assert kept(tmp_path) == 1
        [left] = (tmp_path / "sent-files").iterdir()
        path = f"sent:{left.name.removesuffix('.sent')}/x"
        assert "in the barn" in answer_of(await send(agent, f"read {path}", to=loop_id))


async def test_a_file_is_no_answer_to_what_is_asked(tmp_path: Path) -> None:
    def asking(messages: Sequence[Message]) -> Answer:
        asked = any(each.tool_call_id == "c0" for each in messages)
        return reading(messages) if asked else [tool_call("ask_user", question="Where is it?")]

    settings = Settings(data_dir=tmp_path, embedder=EmbedderSettings(kind="none"))
    llm = FunctionLLM(asking)
    async with agent_from_settings(settings, llm=llm, tools=[ask_user]) as agent:
        events = await send(agent, "find the tea")
        assert events[-1].type == "input.required"
        events = await send(agent, "here", TEA, to=events[0].run_loop_id)
        assert "in the barn" in answer_of(events)
