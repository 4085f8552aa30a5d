"""Where the copies of forgotten words are followed to, and what they are not taken for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import (
    TERMINAL,
    CompactionFinished,
    CompactionStarted,
    Event,
    ForkPoint,
    RunLoopCancelled,
    RunLoopImported,
    RunLoopResumed,
    RunLoopStarted,
)
from service.domain.history.state import RunLoopState
from service.domain.run_loops import Iteration
from service.memory.journal.appends import copies_of
from service.memory.journal.imported_loops import Import
from service.memory.memory import Memory
from tests.memory.test_forgetting import QUESTION, SECRETS, secret_loop
from tests.support.memory.journal_file import writing
from tests.support.memory.remembering import NOON, run_loop, tool_turn
from tests.support.memory.secrets import (
    Loop,
    archived,
    forget,
    piece,
    record_exchange,
    traces,
    working_memory,
)

pytestmark = pytest.mark.anyio


async def fork(memory: Memory, run_loop_id: str, fork_id: str) -> Loop:
    """A fork of a loop's whole history, as `Control` makes it."""
    events = await memory.journal.read(run_loop_id=run_loop_id)
    if isinstance(events[-1].body, TERMINAL):
        events.pop()
    state = await memory.journal.replay(run_loop_id)
    point = ForkPoint(run_loop_id=run_loop_id, seq=events[-1].seq or 0)
    opening = RunLoopStarted(goal=state.goal, predecessor_id=run_loop_id, forked_from=point)
    first = events[0].model_copy(update={"body": opening, "at": datetime.now(UTC)})
    words = events if isinstance(events[0].body, RunLoopImported) else events[1:]
    copies: list[Event] = [first, *(each for each in words if each.type != "usage")]
    read_at = memory.journal.lost_words_at
    await memory.journal.append_together(copies_of(fork_id, copies, owner="me", read_at=read_at))
    loop = Loop(memory, fork_id)
    loop.iterations = state.iteration_count  # it goes on from there
    return loop


@pytest.mark.slow
async def test_a_fork_loses_what_it_has_copied_and_keeps_what_is_its_own(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        child = await fork(memory, "secret", "child")
        await (await child.say("Now tell me about tulips.")).answer("They like sun.")
        await child.end()
        grandchild = await fork(memory, "child", "grandchild")
        await (await grandchild.say("And about crocuses?")).answer("They like it, too.")
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("secret",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert {each.run_loop_id for each in preview.copies} == {"child", "grandchild"}
        await forget(memory, request)
        assert traces(tmp_path, *SECRETS) == []
        for fork_id, words in (("child", "tulips"), ("grandchild", "crocuses")):
            forked_loop = (await memory.journal.replay(fork_id)).run_loop()
            assert forked_loop.goal == FORGOTTEN
            assert forked_loop.iterations[0].user_message == FORGOTTEN
            assert words in (forked_loop.iterations[-1].user_message or "")


@pytest.mark.slow
async def test_a_summary_goes_with_what_it_was_made_of(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "long")
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        await (await loop.say("Tell me about tulips.")).answer("They like sun.")
        summary = Message.user("Somebody hid Zwibbelquast's sextant.")
        await loop.add(
            CompactionStarted(tokens=10, limit=5),
            CompactionFinished(
                messages=2, replacement=(summary,), method="model", tokens_before=9, tokens_after=2
            ),
        )
        later = Message.user("Somebody hid a sextant; tulips like sun.")
        await loop.add(
            CompactionFinished(
                messages=2, replacement=(later,), method="model", tokens_before=9, tokens_after=2
            ),
        )
        await (await loop.say("And crocuses?")).answer("They, too.")
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("long", 0, 0),)))
        assert traces(tmp_path, "Zwibbelquast", "sextant", "Somebody hid") == []
        state = memory.short_term.state("long")
        assert state is not None
        assert next(message.text for message in state.history) == FORGOTTEN
        assert state.iterations[1].user_message == "Tell me about tulips."


@pytest.mark.slow
async def test_an_imported_run_loop_is_forgotten_whole_or_in_part(tmp_path: Path) -> None:
    turn = tool_turn(QUESTION, "look_up", '{"who": "Plinkhorst"}', "Ombrelune knows.", "Dorvaal.")
    plain = Iteration(user_message="What else?", response="Nothing.", timestamp=NOON)
    async with working_memory(tmp_path) as memory:
        for loop_id in ("part", "whole"):
            body = RunLoopImported(run_loop=run_loop(loop_id, turn, plain))
            imported = Import(loop_id, body, body.model_dump_json())
            await memory.append_imports([imported], owner="me")
        child = await fork(memory, "part", "child")
        await (await child.say("More?")).answer("No.")
        await archived(memory)
        await forget(
            memory,
            ForgetRequest(anchors=(AnchorRef("part", 0, 0),), run_loop_ids=("whole",)),
        )
        assert traces(tmp_path, "Zwibbelquast", "Plinkhorst", "Ombrelune", "Dorvaal") == []
        kept = (await memory.journal.replay("part")).run_loop()
        assert kept.iterations[0].forgotten
        assert kept.iterations[1].response == "Nothing."
        assert (await memory.long_term.run_loop("part", owner="me")) == kept


@pytest.mark.slow
async def test_a_copy_of_a_copy_goes_too(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "first", QUESTION, "Nobody knows.")
        second = Loop(memory, "second")
        await second.say("What was it?", recalled=[piece("first", 0, QUESTION)])
        await (await second.answer(f"It was this: {QUESTION}")).end()
        third = Loop(memory, "third")
        await third.say(
            "And again?", recalled=[piece("second", 0, f"It was this: {QUESTION}", "response")]
        )
        await (await third.answer(f"I was told: {QUESTION}")).end()
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("first",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert {each.run_loop_id for each in preview.answers} == {"second", "third"}
        await forget(memory, request.model_copy(update={"with_answers": True}))
        assert traces(tmp_path, "Zwibbelquast", "朱砂六分仪") == []


@pytest.mark.slow
async def test_what_was_said_again_or_imported_is_told_and_stays(tmp_path: Path) -> None:
    contract = "The undersigned Zwibbelquast sells the vermilion sextant for nine shillings."
    async with working_memory(tmp_path) as memory:
        await record_exchange(
            memory, "first", f"{contract} The code is 4711. 密码是芝麻开门。", "Noted."
        )
        await record_exchange(memory, "second", f"Look: {contract}", "I see.")
        await record_exchange(memory, "third", "Is it still 4711?", "I do not know.")
        await record_exchange(memory, "chinese", "密码是芝麻开门，对吗？", "我不知道。")
        await record_exchange(memory, "fourth", "The sextant, please.", "Here it is.")
        brought = RunLoopImported(run_loop=run_loop("file", ("Read this.", contract)))
        await memory.append_imports(
            [Import("file", brought, brought.model_dump_json())], owner="me"
        )
        open_one = Loop(memory, "open")
        await (await open_one.say(f"Look at this: {contract}")).answer("I see.")
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("first",), with_all_that_saw=True)
        preview = await memory.forgetting.preview(request, owner="me")
        assert {(each.run_loop_id, each.by) for each in preview.repeated} == {
            ("second", "person"),
            ("third", "person"),
            ("chinese", "person"),
            ("file", "import"),
            ("open", "person"),
        }
        assert (preview.copies, preview.answers, preview.saw) == ((), (), ())
        await forget(memory, request)
        assert traces(tmp_path, "nine shillings")
        others = ("second", "third", "chinese", "file", "open")
        await forget(memory, ForgetRequest(anchors=tuple(AnchorRef(e, 0, 0) for e in others)))
        assert traces(tmp_path, "Zwibbelquast", "nine shillings", "4711", "芝麻开门") == []
        assert (await memory.journal.replay("fourth")).goal == "The sextant, please."


@pytest.mark.slow
async def test_run_loops_at_work_that_hold_copies_stand_in_the_way(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "first", QUESTION, "Nobody knows.")
        working = Loop(memory, "working")
        await working.say("What was it?", recalled=[piece("first", 0, QUESTION)])
        request = ForgetRequest(run_loop_ids=("first",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert [each.id for each in preview.active] == ["working"]
        assert preview.confirm is None
        await working.answer("I do not know.")
        await forget(memory, request)
        state = memory.short_term.state("working")
        assert state is not None
        assert state.recollections == ()


async def test_exact_words_are_found_however_they_are_written(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        for name, arguments in (
            ("plain", '{"what": "青瓷密匣 \\"Orb\\""}'),
            ("escaped", '{"what": "\\u9752\\u74f7\\u5bc6\\u5323 \\"orb\\""}'),
        ):
            loop = Loop(memory, name)
            await loop.say("Look it up, please.")
            await loop.use("look_up", arguments, "Nothing was found.")
            await (await loop.answer("I found nothing.")).end()
        request = ForgetRequest(query='青瓷密匣 "ORB"', exact=True)
        preview = await memory.forgetting.preview(request, owner="me")
        assert {(i.run_loop_id, i.iteration) for i in preview.iterations} == {
            ("plain", 0),
            ("escaped", 0),
        }


@pytest.mark.slow
async def test_two_at_once_both_happen(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await record_exchange(memory, "other", "How do I bake rye bread?", "With sourdough.")
        async with anyio.create_task_group() as group:
            for run_loop_id in ("secret", "other"):
                group.start_soon(forget, memory, ForgetRequest(run_loop_ids=(run_loop_id,)))
        assert len(await memory.forgetting.receipts(owner="me")) == 2
        assert traces(tmp_path, *SECRETS, "sourdough") == []


@pytest.mark.slow
async def test_what_waits_to_be_archived_does_not_come_back(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        stale = await memory.journal.replay("secret")
        read_at = memory.journal.changes.last
        await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
        assert await memory.archivist.archive([stale], read_at=read_at) is None
        await archived(memory)
        assert (await memory.long_term.stats()).run_loops == 0
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_readers_are_given_what_is_left(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        from service.memory.journal.event_feed import Reader

        with Reader(memory.feed, owner="me") as reader:
            await secret_loop(memory)
            await record_exchange(memory, "other", "How do I bake rye bread?", "With sourdough.")
            await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
            seen = []
            async for event in reader.events():
                seen.append(event)
                if event.type == "run_loop.completed":
                    break
        assert {event.run_loop_id for event in seen} == {"other"}


@pytest.mark.slow
async def test_logs_hold_none_of_the_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="service")
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        await forget(memory, ForgetRequest(query="Zwibbelquast", exact=True))
    assert not [word for word in SECRETS if word in caplog.text]


@pytest.mark.slow
async def test_what_was_recalled_just_before_does_not_come_back_just_after(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        read_at = memory.journal.lost_words_at
        events = await memory.journal.read(run_loop_id="secret")
        await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
        late = Loop(memory, "late")
        kept = piece("other", 0, "Rye bread.")
        await late.say("What was it?", recalled=[piece("secret", 0, QUESTION), kept])
        await late.use("memory_search", "{}", f"[secret:0.0] 2026, user_message\n{QUESTION}")
        await late.answer("I do not know.")
        state = memory.short_term.state("late")
        assert state is not None
        assert state.recollections == (kept,)
        point = ForkPoint(run_loop_id="secret", seq=events[-2].seq or 0)
        opening = RunLoopStarted(goal=QUESTION, predecessor_id="secret", forked_from=point)
        copies = [events[0].model_copy(update={"body": opening}), *events[1:-1]]
        with pytest.raises(ConflictError):
            await memory.journal.append_together(
                copies_of("fork", copies, owner="me", read_at=read_at)
            )
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_a_run_loop_that_is_resumed_meanwhile_does_not_bring_words_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "part")
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        await (await loop.say("Tell me about tulips.")).answer("They like sun.")
        await loop.add(RunLoopCancelled())
        replay = memory.journal.replay

        async def slowly(run_loop_id: str, *, owner: str | None = None) -> RunLoopState:
            state = await replay(run_loop_id, owner=owner)
            monkeypatch.undo()
            await forget(memory, ForgetRequest(anchors=(AnchorRef("part", 0, 0),)))
            return state

        monkeypatch.setattr(memory.journal, "replay", slowly)
        with pytest.raises(ConflictError):
            await memory.journal.append("part", RunLoopResumed())
        await memory.journal.append("part", RunLoopResumed())
        await archived(memory)
        assert traces(tmp_path, "Zwibbelquast") == []


@pytest.mark.slow
async def test_a_run_loop_that_cannot_be_read_can_be_forgotten(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)

        with writing(tmp_path / "journal.sqlite3") as db:
            db.execute(
                "UPDATE events SET body = json_set(body, '$.message', 'Zwibbelquast')"
                " WHERE body LIKE '%message.completed%'"
            )
        await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
@pytest.mark.parametrize("in_the_fork_first", [True, False])
async def test_a_fork_that_has_lost_words_of_its_own_is_still_known_as_one(
    tmp_path: Path, in_the_fork_first: bool
) -> None:
    async with working_memory(tmp_path) as memory:
        parent = Loop(memory, "parent")
        await (await parent.say("Tell me about tulips.")).answer("They like sun.")
        await (await parent.say(QUESTION)).answer("In 青瓷密匣, says Ombrelune.")
        await (await parent.say("Who is Krasvingel?")).answer("A friend of Dorvaal.")
        await parent.end()
        child = await fork(memory, "parent", "child")
        await (await child.say("And crocuses?")).answer("They, too.")
        await child.end()
        await archived(memory)
        first = AnchorRef("child" if in_the_fork_first else "parent", 0, 0)
        await forget(memory, ForgetRequest(anchors=(first,)))
        await forget(memory, ForgetRequest(run_loop_ids=("parent",)))
        assert traces(tmp_path, "Zwibbelquast", "青瓷密匣", "Krasvingel", "Dorvaal") == []
        left = (await memory.journal.replay("child")).iterations
        assert left[-1].user_message == "And crocuses?"
        assert [each.forgotten for each in left] == [True, True, True, False]
