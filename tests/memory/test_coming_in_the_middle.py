"""Who comes, or comes back, in the middle of an answer is given what has streamed of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.history.events import (
    Event,
    IterationStarted,
    MessageCompleted,
    MessageDelta,
    MessageReceived,
    RunLoopStarted,
)
from service.memory.journal.event_feed import Reader
from service.memory.memory import Memory

pytestmark = pytest.mark.anyio


def stream(memory: Memory, text: str, owner: str = "me") -> None:
    body = MessageDelta(text=text)
    memory.feed.publish(
        (Event(seq=None, at=datetime.now(UTC), owner=owner, run_loop_id="a", body=body),)
    )


async def begun(memory: Memory) -> None:
    await memory.journal.append(
        "a",
        RunLoopStarted(goal="hello"),
        MessageReceived(message_id="m", message=Message.user("hello")),
        IterationStarted(index=0, message_ids=("m",)),
        owner="me",
    )


async def texts(reader: Reader, count: int, *, after: int | None = 0) -> list[tuple[str, str]]:
    spoken: list[tuple[str, str]] = []
    with anyio.fail_after(10):
        async for event in reader.events(run_loop_id="a", after=after):
            match event.body:
                case MessageDelta(text=text, whole=whole):
                    spoken.append(("whole" if whole else "delta", text))
                case MessageCompleted(message=message):
                    spoken.append(("completed", message.text))
                case _:
                    continue
            if len(spoken) == count:
                break
    return spoken


async def test_the_beginning_of_an_answer_comes_before_the_rest_of_it(tmp_path: Path) -> None:
    async with Memory(tmp_path, embedder=None) as memory:
        await begun(memory)
        stream(memory, "你好，")
        stream(memory, "wor")
        with Reader(memory.feed, owner="me") as reader:
            stream(memory, "ld")
            await memory.journal.append(
                "a", MessageCompleted(message=Message.assistant("你好，world"))
            )
            assert await texts(reader, 3) == [
                ("whole", "你好，wor"),
                ("delta", "ld"),
                ("completed", "你好，world"),
            ]


async def test_an_answer_that_is_complete_is_not_told_from_its_beginning(tmp_path: Path) -> None:
    async with Memory(tmp_path, embedder=None) as memory:
        await begun(memory)
        stream(memory, "done")
        await memory.journal.append("a", MessageCompleted(message=Message.assistant("done")))
        with Reader(memory.feed, owner="me") as reader:
            stream(memory, "next")
            assert await texts(reader, 2) == [("completed", "done"), ("delta", "next")]


async def test_another_owner_is_told_nothing_of_it(tmp_path: Path) -> None:
    async with Memory(tmp_path, embedder=None) as memory:
        await begun(memory)
        stream(memory, "secret")
        assert memory.feed.streaming("you") == {}
        assert set(memory.feed.streaming("me")) == {"a"}


async def test_what_is_forgotten_does_not_come_back_from_the_stream(tmp_path: Path) -> None:
    async with Memory(tmp_path, embedder=None) as memory:
        await begun(memory)
        stream(memory, "secret")
        memory.feed.drop()
        assert memory.feed.streaming(None) == {}


async def test_a_reader_that_fell_behind_hears_the_answer_from_its_beginning(
    tmp_path: Path,
) -> None:
    async with Memory(tmp_path, embedder=None) as memory:
        memory.feed.mailbox_size = 4
        await begun(memory)
        with Reader(memory.feed, owner="me") as reader:
            for number in range(20):
                stream(memory, f"{number} ")
            await memory.journal.append("a", MessageCompleted(message=Message.assistant("0 to 19")))
            stream(memory, "after")
            assert (await texts(reader, 2))[-1] in {("whole", "after"), ("delta", "after")}
