"""A fork of a loop that messages were moved out of: forgetting leaves its words nowhere."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from service.agent.loop_control import history_to_copy
from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import MessageReceived, RunLoopImported, RunLoopStarted
from service.memory.journal.appends import copies_of
from service.memory.journal.imported_loops import Import
from tests.support.agent.agents import sent
from tests.support.agent.heist import SECRET, SECRETS, forget, house
from tests.support.agent.moves import heard, whole
from tests.support.agent.moving import at_rest, message_ids, opened
from tests.support.memory.secrets import archived, traces

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_what_a_fork_is_about_is_forgotten_with_the_words_that_told_it_where_it_was_forked(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        source = await opened(agent, "How do tulips grow?")
        await sent(agent, f"Plan the {SECRET}", source)
        await agent.reroute(source, message_id=(await message_ids(agent, source))[0])
        fork = await agent.fork(source)
        assert fork.goal == f"Plan the {SECRET}"
        await sent(agent, "And crocuses?", fork.id)
        for each in (source, fork.id):
            await agent.complete(each)
        await archived(agent.memory)
        anchors = tuple(AnchorRef(each, n, 0) for each in (source, fork.id) for n in (1, 2))
        await forget(agent, ForgetRequest(anchors=anchors))
        assert (await agent.run_loop(fork.id)).goal == FORGOTTEN
        assert traces(tmp_path, *SECRETS) == []
        assert heard(await whole(agent, fork.id))[-1] == "And crocuses?"


@pytest.mark.slow
async def test_what_a_fork_is_about_goes_with_an_unobserved_message_that_told_it(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as agent:
        journal = agent.memory.journal
        said = [
            MessageReceived(message_id=name, message=Message.user(words))
            for name, words in (
                ("first", "How do tulips grow?"),
                ("second", f"The {SECRET}"),
                ("third", "And crocuses?"),
            )
        ]
        await journal.append(
            "garden", RunLoopStarted(goal="How do tulips grow?"), *said, owner="me"
        )
        await agent.reroute("garden", message_id="first")
        # As an agent forks; but nothing goes on in it before its words are moved out of it, too.
        copies = await anyio.to_thread.run_sync(history_to_copy, journal, "garden", None)
        [commit] = await journal.append_together(
            copies_of("fork", copies, owner="me", read_at=journal.lost_words_at)
        )
        fork = commit.state
        assert (fork.goal, len(fork.unseen)) == (f"The {SECRET}", 2)
        gone = [await agent.reroute(each, message_id="second") for each in ("garden", "fork")]
        for each in ("garden", "fork"):
            await sent(agent, "Thanks", each)
        for moved in gone:
            await at_rest(agent, moved.to_run_loop_id)
            await agent.complete(moved.to_run_loop_id)
        await archived(agent.memory)
        await forget(agent, ForgetRequest(run_loop_ids=tuple(each.to_run_loop_id for each in gone)))
        assert traces(tmp_path, *SECRETS) == []
        for each in ("garden", "fork"):
            assert heard(await whole(agent, each)) == ["And crocuses?\n\nThanks"]
            assert (await agent.run_loop(each)).goal == "And crocuses?"


@pytest.mark.slow
@pytest.mark.parametrize("goal", [f"Plan the {SECRET}", f"All about {SECRET}"])
async def test_what_an_imported_loop_is_about_is_forgotten_in_its_fork_as_well(
    tmp_path: Path, goal: str
) -> None:
    async with house(tmp_path) as agent:
        first = await opened(agent, f"Plan the {SECRET}")
        await agent.complete(first)
        loop = (await agent.run_loop(first)).model_copy(update={"id": "imported", "goal": goal})
        body = RunLoopImported(run_loop=loop)
        await agent.memory.append_imports(
            [Import("imported", body, body.model_dump_json())], owner="me"
        )
        fork = await agent.fork("imported")
        await sent(agent, "How do tulips grow?", fork.id)
        await agent.complete(fork.id)
        await archived(agent.memory)
        request = ForgetRequest(run_loop_ids=(first,), anchors=(AnchorRef(fork.id, 0, 0),))
        await forget(agent, request)
        events = await agent.memory.journal.read(run_loop_id=fork.id)
        assert all("Quixotic" not in event.body.model_dump_json() for event in events)
