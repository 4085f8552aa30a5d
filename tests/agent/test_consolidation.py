"""Notes are written in idle time, by a model that was chosen for it, and only what can be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_settings import options_from_settings
from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.config import ConsolidationSettings, LLMSettings, MemorySettings, Settings
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TextDelta
from service.domain.errors import ConfigurationError, LLMConnectionError, LLMStreamError
from service.loop.hooks.hooks import Hooks
from tests.support.agent.agents import sent, until
from tests.support.agent.consolidating import (
    NotingLLM,
    agent_with,
    all_read,
    archived,
    facts,
    remember,
    texts,
)
from tests.support.memory.remembering import run_loop

pytestmark = pytest.mark.anyio

# --- when


async def test_by_default_nothing_is_ever_asked_and_nothing_is_found(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    async with agent_with(tmp_path, llm, None) as agent:
        await remember(agent, "Ada lives in Basel.")
        await anyio.sleep(0.1)
        assert llm.asked == []
        assert await agent.consolidation_status() is None
        assert not agent.memory.long_term.gives_notes
    assert options_from_settings(Settings()).consolidation is None


async def test_notes_appear_once_it_is_quiet_and_are_found(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    async with agent_with(tmp_path, llm) as agent:
        await remember(agent, "Ada lives in Basel.", "小明住在杭州。")
        await until(lambda: len(texts(agent)) == 2)
        [note] = (await agent.memory.long_term.search("Where is Ada?", owner="me")).notes
        assert note.subject == "Ada"
        [anchor] = note.sentences[0].anchors
        around = await agent.memory.long_term.expand(anchor.ref, owner="me")
        assert around.focus.content == "Ada lives in Basel."
        [note] = (await agent.memory.long_term.search("小明在哪里", owner="me")).notes
        assert note.sentences[0].text == "小明住在杭州。"
        await until(lambda: all_read(agent))
        asked = len(llm.asked)
        agent.memory.archivist.submit(await agent.replay(anchor.run_loop_id))
        await agent.memory.archivist.drain()
        await anyio.sleep(0.1)
        assert len(llm.asked) == asked
    assert sorted(text for passages in llm.asked for text in passages.values()) == sorted(
        [
            "Ada lives in Basel.",
            "You said: Ada lives in Basel.",
            "小明住在杭州。",
            "You said: 小明住在杭州。",
        ]
    )


async def test_nothing_is_asked_while_a_loop_is_at_work(tmp_path: Path) -> None:
    held = anyio.Event()
    llm = NotingLLM(facts)
    async with agent_with(tmp_path, llm) as agent:
        await archived(agent, run_loop("old", ("Ada lives in Basel.", "Good.")))
        llm.respond = lambda messages: [held, TextDelta("done")]
        async with anyio.create_task_group() as group:
            group.start_soon(sent, agent, "work")
            await until(lambda: llm.calls)
            asked = len(llm.asked)
            await agent.memory.archivist.drain()
            await anyio.sleep(0.1)
            assert len(llm.asked) == asked
            held.set()
        await until(lambda: all_read(agent))


async def test_a_message_ends_the_call_at_once_and_it_is_made_again_later(tmp_path: Path) -> None:
    never = anyio.Event()
    llm = NotingLLM(lambda passages: never)
    patient = ConsolidationOptions(0.05, 10**6, 1, 0.02)
    async with agent_with(tmp_path, llm, patient) as agent:
        await archived(agent, run_loop("old", ("Ada lives in Basel.", "Good.")))
        await until(lambda: llm.asked)
        assert llm.left == 0
        answered = await sent(agent, "hello")
        assert llm.left == 1
        assert answered[-1].type in ("run_loop.idle", "run_loop.completed")
        assert texts(agent) == []
        llm.write = facts
        await until(lambda: texts(agent) == ["Ada lives in Basel."])


@pytest.mark.slow
async def test_stopping_in_the_middle_of_a_call_and_starting_again_goes_on(tmp_path: Path) -> None:
    never = anyio.Event()
    first = NotingLLM(facts)
    lines = [f"Ada counts {number} geese." for number in range(1, 120)]
    async with agent_with(tmp_path, first) as agent:
        await remember(agent, "hello")
        await until(lambda: all_read(agent))
        before = len(first.asked)
        first.write = lambda material: facts(material) if len(first.asked) == before + 1 else never
        await archived(agent, run_loop("old", *((line, "Good.") for line in lines)))
        await until(lambda: len(first.asked) == before + 2)
        assert texts(agent)
    second = NotingLLM(facts)
    async with agent_with(tmp_path, second) as agent:
        await until(lambda: all_read(agent))
    read = [text for each in (*first.asked[:-1], *second.asked) for text in each.values()]
    assert sorted(text for text in read if text.startswith("Ada")) == sorted(lines)


async def test_it_waits_until_there_is_enough_that_is_new(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    enough = ConsolidationOptions(0.02, 10**6, 4, 0.02)
    async with agent_with(tmp_path, llm, enough) as agent:
        await remember(agent, "Ada lives in Basel.")
        await anyio.sleep(0.1)
        assert llm.asked == []
        await remember(agent, "Bea lives in Bern.")
        await until(lambda: len(texts(agent)) == 2)


async def test_two_owners_never_mix(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    async with agent_with(tmp_path, llm) as agent:
        await remember(agent, "Ada lives in Basel.")
        await remember(agent, "Ada hates Bern.", owner="eve")
        await until(lambda: all_read(agent) and all_read(agent, "eve"))
        assert texts(agent) == ["Ada lives in Basel."]
        assert texts(agent, "eve") == ["Ada hates Bern."]
    for material in llm.material:
        assert not ("Basel" in material and "Bern" in material)


@pytest.mark.slow
async def test_the_budget_of_a_day_stops_it_and_what_was_used_is_counted(tmp_path: Path) -> None:
    llm = NotingLLM(facts)
    llm.used = (3_000, 100)
    some = ConsolidationOptions(0.02, 10_000, 1, 0.02)
    async with agent_with(tmp_path, llm, some) as agent:
        await sent(agent, "hello")
        lines = [f"Ada counts {number} geese {'by the lake ' * 20}" for number in range(1, 300)]
        await archived(agent, run_loop("old", *((line, "Good.") for line in lines)))
        await agent.memory.archivist.drain()
        await until(lambda: llm.asked)
        with anyio.fail_after(10):
            while (status := await agent.consolidation_status()) and status.state != "used up":
                await anyio.sleep(0.01)
        assert status is not None
        assert status.tokens_today == 3_100 * len(llm.asked) <= 10_000
        assert status.problem is not None
        assert not all_read(agent)
        used = await agent.memory.journal.usage.lines(owner="me", by="purpose")
        assert {line.key: line.calls for line in used}["consolidation"] == len(llm.asked)
        assert "" in {
            line.key for line in await agent.memory.journal.usage.lines(owner="me", by="run_loop")
        }
    async with agent_with(tmp_path, again := NotingLLM(facts), some) as agent:
        status = await agent.consolidation_status()
        assert status is not None
        assert status.tokens_today == 3_100 * len(llm.asked)
        assert again.asked == []


# --- failures


@pytest.mark.slow
@pytest.mark.parametrize(
    "failure",
    [
        LLMConnectionError("down"),
        LLMStreamError("cut"),
        "I would rather not.",
        '{"notes": [{"kind": "ghost", "subject": "x", "sentences": []}]}',
        '{"notes": [{"kind": "person", "subject": "\\ud83d", "sentences": []}]}',
        "{",
    ],
)
async def test_a_failure_leaves_all_as_it_was_is_told_and_tried_again(
    tmp_path: Path, failure: object
) -> None:
    llm = NotingLLM(lambda passages: failure)
    slowly = ConsolidationOptions(0.02, 10**6, 1, 0.3)
    async with agent_with(tmp_path, llm, slowly) as agent:
        await archived(agent, run_loop("old", ("Ada lives in Basel.", "Good.")))
        await until(lambda: llm.asked)
        with anyio.fail_after(10):
            while (status := await agent.consolidation_status()) and status.state != "failing":
                await anyio.sleep(0.01)
        assert status is not None
        assert status.problem
        assert texts(agent) == []
        assert not all_read(agent)
        llm.write = facts
        await until(lambda: all_read(agent))
        assert texts(agent) == ["Ada lives in Basel."]
        status = await agent.consolidation_status()
        assert status is not None
        assert status.problem is None


@pytest.mark.slow
async def test_a_passage_that_the_model_stumbles_over_does_not_keep_the_others_from_being_read(
    tmp_path: Path,
) -> None:
    def write(passages: dict[int, str]) -> object:
        return "no" if any("poison" in text for text in passages.values()) else facts(passages)

    llm = NotingLLM(write)
    async with agent_with(tmp_path, llm) as agent:
        turns = [("Ada lives in Basel.", "Good."), ("poison", "Good."), ("Bea lives here.", "Ah.")]
        await archived(agent, run_loop("old", *turns))
        await until(lambda: len(texts(agent)) == 2)
        status = await agent.consolidation_status()
        assert status is not None
        assert status.passages_set_aside == 1
        left = agent.memory.long_term.notes.unread("me", limit=10)
        assert [each.segment.content for each in left] == ["poison"]
        asked = len(llm.asked)
        await anyio.sleep(0.1)
        assert len(llm.asked) == asked


async def test_a_disk_that_refuses_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = NotingLLM(facts)
    async with agent_with(tmp_path, llm) as agent:
        notes = agent.memory.long_term.notes
        whole = notes.write

        def refuse(*args: Any, **named: Any) -> int:
            raise OSError("disk is full")

        monkeypatch.setattr(notes, "write", refuse)
        await archived(agent, run_loop("old", ("Ada lives in Basel.", "Good.")))
        await until(lambda: len(llm.asked) > 1)
        monkeypatch.setattr(notes, "write", whole)
        await until(lambda: texts(agent) == ["Ada lives in Basel."])
        assert (await sent(agent, "still there?"))[-1].type.startswith("run_loop.")


def test_the_embedded_model_is_refused_in_words() -> None:
    chosen = MemorySettings(consolidation=ConsolidationSettings(enabled=True))
    with pytest.raises(ConfigurationError, match="embedded model"):
        options_from_settings(Settings(memory=chosen, llm=LLMSettings(provider="embedded")))
    with_endpoint = Settings(memory=chosen, llm=LLMSettings(base_url="http://127.0.0.1:1/v1"))
    options = options_from_settings(with_endpoint).consolidation
    assert options is not None
    assert options.idle_seconds == chosen.consolidation.idle_seconds


# --- hooks


class Redacting(Hooks):
    """Takes a word out; or fails, as long as it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.owners: list[str] = []

    async def before_consolidation(self, owner: str, messages: list[Message]) -> list[Message]:
        self.owners.append(owner)
        if self.fails:
            raise ValueError("not today")
        return [
            Message.system(messages[0].text),
            Message.user(messages[1].text.replace("Ada", "A")),
        ]


async def test_a_hook_changes_what_the_model_is_shown(tmp_path: Path) -> None:
    llm, hook = NotingLLM(facts), Redacting()
    async with agent_with(tmp_path, llm, hooks=[hook]) as agent:
        await remember(agent, "Ada lives in Basel.")
        await until(lambda: all_read(agent))
        assert set(hook.owners) == {"me"}
    assert "A lives in Basel." in llm.material[0]
    assert not any("Ada" in each for each in llm.material)


async def test_a_hook_that_fails_keeps_the_words_from_the_model(tmp_path: Path) -> None:
    llm, hook = NotingLLM(facts), Redacting(fails=True)
    async with agent_with(tmp_path, llm, hooks=[hook]) as agent:
        await remember(agent, "Ada lives in Basel.")
        await until(lambda: len(hook.owners) > 1)
        assert llm.asked == []
        status = await agent.consolidation_status()
        assert status is not None
        assert "not today" in (status.problem or "")
        hook.fails = False
        await until(lambda: all_read(agent))
