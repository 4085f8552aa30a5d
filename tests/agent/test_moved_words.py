"""Where memory finds words that were moved, and that forgetting them leaves them nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError, StorageError
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import MessageReceived, RunLoopStarted
from tests.support.agent.agents import Answer, call, running_agent, sending, sent, types, until
from tests.support.agent.heist import (
    RESULT,
    SECRET,
    SECRETS,
    forget,
    house,
    look,
    moved,
    places,
    respond,
)
from tests.support.agent.moves import heard, whole
from tests.support.agent.moving import at_rest, message_ids, opened, unseen
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, traces

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("ended", [False, True])
async def test_memory_finds_the_words_where_they_are_now_and_nowhere_else(
    tmp_path: Path, ended: bool
) -> None:
    async with house(tmp_path) as agent:
        bank = await opened(agent, "What is a bank?")
        garden = await opened(agent, "How do tulips grow?")
        await sent(agent, f"Plan the {SECRET}", garden)
        if ended:
            await agent.complete(garden)
        assert await places(agent, SECRET) == {(garden, 1)}
        await agent.reroute(garden, to=bank)
        results = await agent.memory.long_term.search(SECRET, owner="me", limit=20, fold=False)
        assert {h.anchor.run_loop_id for h in results.hits if "heist" in h.content} == {bank}
        assert await places(agent, SECRET) == {(bank, 1)}
        tulips = await agent.memory.long_term.search("tulips", owner="me")
        assert tulips.hits[0].anchor.ref[:2] == (garden, 0)
        with pytest.raises(NotFoundError):
            await agent.memory.long_term.expand(AnchorRef(garden, 1, 0), owner="me")
        states = [await whole(agent, each) for each in (garden, bank)]
        for state in states:
            assert await agent.memory.long_term.archive(state.run_loop()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("ended", [False, True])
async def test_memory_follows_when_the_disk_is_there_again(
    tmp_path: Path, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as agent:
        bank = await opened(agent, "What is a bank?")
        garden = await opened(agent, "How do tulips grow?")
        await sent(agent, f"Plan the {SECRET}", garden)
        if ended:
            await agent.complete(garden)
        await archived(agent.memory)
        long_term = agent.memory.long_term

        async def refuse(*_: object) -> int:
            raise StorageError("disk full")

        with monkeypatch.context() as patch:
            for name in ("archive", "archive_many"):
                patch.setattr(long_term, name, refuse)
            await agent.reroute(garden, to=bank)
        # Some other loop wakes the archivist before its pause is over.
        await agent.complete(await opened(agent, "And crocuses?"))
        await archived(agent.memory)
        results = await long_term.search(SECRET, owner="me", limit=20, fold=False)
        assert {h.anchor.run_loop_id for h in results.hits if "heist" in h.content} == {bank}


async def test_what_was_said_when_is_found_at_its_time_in_its_new_loop(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        source, target = await whole(agent, garden), await whole(agent, bank)
        assert target.iterations[1].timestamp == source.iterations[1].timestamp
        assert target.updated_at - source.updated_at < timedelta(seconds=5)


@pytest.mark.slow
async def test_forgetting_the_loop_that_has_the_words_clears_where_they_came_from(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        assert traces(tmp_path, SECRET)
        await agent.complete(bank)
        await archived(agent.memory)
        request = ForgetRequest(run_loop_ids=(bank,))
        preview = await agent.preview_forgetting(request)
        assert [(c.run_loop_id, c.kinds) for c in preview.copies] == [(garden, ("moved",))]
        await forget(agent, request)
        assert traces(tmp_path, *SECRETS) == []
        source = await whole(agent, garden)
        assert heard(source) == ["How do tulips grow?", None, None]
        assert source.iterations[1].forgotten
        await sent(agent, "Thanks", garden)


@pytest.mark.slow
async def test_forgetting_what_a_search_finds_clears_where_it_came_from(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        for each in (garden, bank):
            await agent.complete(each)
        await archived(agent.memory)
        for query in ("Quixotic", RESULT):
            await forget(agent, ForgetRequest(query=query, exact=True))
        assert traces(tmp_path, *SECRETS) == []
        assert heard(await whole(agent, bank))[:2] == ["What is a bank?", FORGOTTEN]


@pytest.mark.slow
async def test_forgetting_follows_a_message_that_was_moved_twice_and_its_forks(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        first = await opened(agent, f"Plan the {SECRET}")
        early = await agent.fork(first)
        second = (await agent.reroute(first)).to_run_loop_id
        late = await agent.fork(second)
        third = (await agent.reroute(second)).to_run_loop_id
        for each in (early.id, late.id, third):
            await agent.complete(each)
        await archived(agent.memory)
        assert (await agent.run_loop(late.id)).goal.endswith(SECRET)
        await forget(agent, ForgetRequest(run_loop_ids=(third,)))
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_forgetting_follows_what_was_answered_only_after_another_message_was_moved_away(
    tmp_path: Path,
) -> None:
    ready = anyio.Event()

    def waiting(messages: Sequence[Message]) -> Answer:
        if messages[-1].text == f"Plan the {SECRET}":
            return [ready, call("look", '{"at": "Quixotic"}')]
        if messages[-1].role == "tool":
            return f"I found it: {messages[-1].text}"
        return "Very well."

    async with running_agent(
        tmp_path, waiting, look, embedder=WordEmbedder(), auto_classify=False
    ) as agent:
        async with sending(agent, f"Plan the {SECRET}") as events:
            await until(lambda: "iteration.started" in types(events))
            source = events[0].run_loop_id
            await agent.accept("How do tulips grow?", run_loop_id=source)
            await until(lambda: unseen(agent, source) == 1)
            ready.set()
        first, second = await message_ids(agent, source)
        tulips = (await agent.reroute(source, message_id=second)).to_run_loop_id
        await at_rest(agent, source)
        target = (await agent.reroute(source, message_id=first)).to_run_loop_id
        await agent.complete(tulips)
        await agent.complete(target)
        await archived(agent.memory)
        assert heard(await whole(agent, target)) == [f"Plan the {SECRET}", None]
        await forget(agent, ForgetRequest(anchors=(AnchorRef(target, 1, 0),)))
        left = await whole(agent, source)
        assert [each.forgotten for each in left.iterations] == [False, False, True]
        await forget(agent, ForgetRequest(run_loop_ids=(target,)))
        left = await whole(agent, source)
        assert [each.forgotten for each in left.iterations] == [True, False, True]
        assert heard(await whole(agent, tulips)) == ["How do tulips grow?"]
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_forgetting_follows_a_message_that_went_before_it_was_observed(
    tmp_path: Path,
) -> None:
    ready = anyio.Event()

    def waiting(messages: Sequence[Message]) -> Answer:
        from service.domain.conversation.stream_parts import TextDelta

        return [ready, TextDelta("Well.")] if messages[-1].text == "Wait" else respond(messages)

    async with running_agent(
        tmp_path, waiting, look, embedder=WordEmbedder(), auto_classify=False
    ) as agent:
        async with sending(agent, "Wait") as events:
            await until(lambda: "iteration.started" in types(events))
            source = events[0].run_loop_id
            receipt = await agent.accept(f"The {SECRET}", run_loop_id=source, mode="followup")
            await until(lambda: unseen(agent, source) == 1)
            there = await agent.reroute(source, message_id=receipt.message_id)
            ready.set()
        target = there.to_run_loop_id
        await until(
            lambda: (
                (state := agent.memory.short_term.state(target)) is not None
                and state.status == "idle"
            )
        )
        fork = await agent.fork(source)
        fork_of_fork = await agent.fork(fork.id)
        for each in (target, source, fork.id, fork_of_fork.id):
            await agent.complete(each)
        await archived(agent.memory)
        await forget(agent, ForgetRequest(run_loop_ids=(target,)))
        assert traces(tmp_path, *SECRETS) == []
        assert heard(await whole(agent, source)) == ["Wait"]


@pytest.mark.slow
async def test_forgetting_follows_what_opened_a_loop_and_went_unobserved_to_its_forks(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        journal = agent.memory.journal
        first, second = (
            MessageReceived(message_id=name, message=Message.user(words))
            for name, words in (("first", f"The {SECRET}"), ("second", "How do tulips grow?"))
        )
        opening = await journal.append(
            "garden", RunLoopStarted(goal=f"The {SECRET}"), first, second, owner="me"
        )
        moved = await agent.reroute("garden", message_id="first")
        await at_rest(agent, moved.to_run_loop_id)
        after = await agent.fork("garden")
        before = await agent.fork("garden", at=opening.state.last_seq)
        for each in (after.id, before.id):
            await at_rest(agent, each)
            await agent.complete(each)
        await agent.complete(moved.to_run_loop_id)
        await agent.cancel("garden")
        await archived(agent.memory)
        await forget(agent, ForgetRequest(run_loop_ids=(moved.to_run_loop_id,)))
        assert traces(tmp_path, *SECRETS) == []
        assert heard(await whole(agent, after.id)) == ["How do tulips grow?"]
        assert (await whole(agent, before.id)).iterations[0].forgotten  # its answer was to both


async def test_a_loop_that_has_nothing_left_is_not_forked(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        source = await opened(agent, "How do tulips grow?")
        before = (await agent.replay(source)).last_seq
        target = (await agent.reroute(source)).to_run_loop_id
        with pytest.raises(ConflictError) as refused:
            await agent.fork(source)
        assert target in str(refused.value)
        fork = await agent.fork(source, at=before)
        assert heard(await whole(agent, fork.id)) == ["How do tulips grow?"]


@pytest.mark.slow
async def test_forgetting_the_loop_that_the_words_left_leaves_them_where_they_are(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        await agent.complete(garden)
        await archived(agent.memory)
        await forget(agent, ForgetRequest(run_loop_ids=(garden,)))
        target = await whole(agent, bank)
        assert heard(target)[1] == f"Plan the {SECRET}"
        assert await places(agent, SECRET) == {(bank, 1)}


@pytest.mark.slow
async def test_forgetting_a_fork_leaves_what_was_moved_out_of_it_before(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        fork = await agent.fork(bank)
        await agent.complete(fork.id)
        await archived(agent.memory)
        await forget(agent, ForgetRequest(run_loop_ids=(fork.id,)))
        assert heard(await whole(agent, bank))[1] == f"Plan the {SECRET}"
        assert not (await whole(agent, garden)).iterations[1].forgotten


async def test_an_anchor_of_what_was_moved_tells_where_it_is(tmp_path: Path) -> None:
    async with house(tmp_path) as agent:
        garden, bank = await moved(agent)
        request = ForgetRequest(anchors=(AnchorRef(garden, 1, 0),))
        with pytest.raises(NotFoundError) as refused:
            await agent.preview_forgetting(request)
        assert bank in refused.value.advice


@pytest.mark.slow
async def test_what_tells_what_a_loop_is_about_goes_with_the_words_that_tell_it(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        source = await opened(agent, "How do tulips grow?")
        await sent(agent, f"Plan the {SECRET}", source)
        await sent(agent, "And crocuses?", source)
        first = (await message_ids(agent, source))[0]
        await agent.reroute(source, message_id=first)
        assert (await agent.run_loop(source)).goal == f"Plan the {SECRET}"
        other = await opened(agent, "Another matter")
        await agent.complete(source)
        await archived(agent.memory)
        await forget(agent, ForgetRequest(query="Quixotic", exact=True))
        await forget(agent, ForgetRequest(query=RESULT, exact=True))
        assert (await agent.run_loop(source)).goal == FORGOTTEN
        assert traces(tmp_path, *SECRETS) == []
        assert (await agent.run_loop(other)).goal == "Another matter"
