"""What forgetting reaches besides: reasons of the router, other tools' results, second imports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.exchange import ImportReport
from service.domain.forgetting_terms import FORGOTTEN, ForgetRequest
from service.domain.history.events import (
    IterationStarted,
    MessageReceived,
    RouteDecided,
    RunLoopImported,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.routes import Route, RouteCandidate
from service.domain.run_loops import Iteration, RunLoop
from service.memory.exchange.importing import Importing
from service.memory.journal.imported_loops import Import
from service.memory.memory import Memory
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

GOAL = "My locker opens with 4711-quagga, and nobody else in the whole house shall ever know it."


def short(goal: str) -> str:
    """As the router writes it down."""
    return goal if len(goal) <= 60 else goal[:59] + "…"


async def join(loop: Loop, words: str, goal: str) -> None:
    """A second message joins a loop, because of what that is about."""
    message_id = f"{loop.id}-joined"
    route = Route(
        decision="join",
        run_loop_id=loop.id,
        confidence=0.9,
        method="embedding",
        reason=f"it is close in meaning to “{short(goal)}” (0.91)",
        candidates=(RouteCandidate(run_loop_id=loop.id, goal=short(goal), probability=0.91),),
    )
    await loop.add(
        MessageReceived(message_id=message_id, message=Message.user(words)),
        RouteDecided(message_id=message_id, route=route),
        IterationStarted(index=loop.iterations, message_ids=(message_id,)),
    )
    loop.iterations += 1


@pytest.mark.slow
@pytest.mark.parametrize("goal", [GOAL, "PIN “4711-quagga”"])
async def test_reasons_of_the_router_do_not_keep_a_forgotten_goal(
    tmp_path: Path, goal: str
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "first")
        await (await loop.say(goal)).answer("Noted.")
        await join(loop, "And what of tulips?", goal)
        await loop.answer("They like sun.")
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("first", 0, 0),)))
        assert traces(tmp_path, "4711-quagga") == []
        routes = await memory.journal.read(run_loop_id="first", kind="route.decided")
        last = routes[-1].body
        assert isinstance(last, RouteDecided)
        assert last.route.reason == f"it is close in meaning to “{FORGOTTEN}” (0.91)"
        assert last.route.candidates[0].goal == FORGOTTEN


@pytest.mark.slow
async def test_a_reason_in_another_run_loop_that_quotes_the_goal_loses_it(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "first", GOAL, "Noted.")
        other = Loop(memory, "other")
        await (await other.say("Tell me about tulips.")).answer("They like sun.")
        await join(other, "And crocuses?", GOAL)
        await (await other.answer("They, too.")).end()
        await archived(memory)
        await forget(memory, ForgetRequest(run_loop_ids=("first",)))
        assert traces(tmp_path, "4711-quagga") == []


@pytest.mark.slow
async def test_a_route_that_was_being_decided_meanwhile_does_not_bring_a_goal_back(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "first")
        await (await loop.say(GOAL)).answer("Noted.")
        await (await loop.say("And tulips?")).answer("They like sun.")
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("first", 0, 0),)))
        await join(loop, "And crocuses?", GOAL)
        assert (
            "4711-quagga"
            not in (await memory.journal.read(run_loop_id="first"))[-2].model_dump_json()
        )
        assert traces(tmp_path, "4711-quagga") == []


async def iterations_to_forget(memory: Memory, words: str) -> set[tuple[str, int]]:
    """What `exact` would forget: iterations, or -1 for a run loop whole."""
    request = ForgetRequest(query=words, exact=True)
    preview = await memory.forgetting.preview(request, owner="me")
    return {(i.run_loop_id, i.iteration) for i in preview.iterations} | {
        (each.id, -1) for each in preview.run_loops
    }


@pytest.mark.slow
async def test_exact_words_are_found_in_results_that_only_look_like_those_of_memory(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "log")
        await loop.say("Look it up, please.")
        await loop.use("shell", "{}", "[pool:0.53] token quagga-4711 was given")
        await (await loop.answer("Done.")).end()
        asked = Loop(memory, "asked")
        await asked.say("Look there, please.")
        await asked.use("memory_search", "{}", "[log:0.3] token quagga-4711 was given")
        await (await asked.answer("Done.")).end()
        assert await iterations_to_forget(memory, "QUAGGA-4711") == {("log", 0)}
        await archived(memory)
        await forget(memory, ForgetRequest(query="quagga-4711", exact=True))
        assert traces(tmp_path, "quagga-4711") == []


@pytest.mark.slow
async def test_exact_words_are_found_in_metadata_titles_and_questions(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        noted = Loop(memory, "noted")
        await noted.say("Hello there.", note="quagga-4711")
        await (await noted.answer("Hello.")).answer("Still here.")
        asked = Loop(memory, "asked")
        await asked.say("Hello again.")
        await asked.add(
            InputRequired(
                request_id="r", kind="select", prompt="Which one?", options=("Quagga-4711", "No")
            ),
            InputReceived(request_id="r", choices=("No",)),
        )
        await asked.answer("Hello.")
        titled = run_loop("titled", ("How?", "So."), ("And?", "Thus."))
        titled = titled.model_copy(update={"goal": "All about quagga-4711"})
        body = RunLoopImported(run_loop=titled)
        await memory.append_imports([Import("titled", body, body.model_dump_json())], owner="me")
        assert await iterations_to_forget(memory, "quagga-4711") == {
            ("noted", 0),
            ("asked", 0),
            ("titled", 0),
        }
        await archived(memory)
        await forget(memory, ForgetRequest(query="quagga-4711", exact=True))
        assert traces(tmp_path, "quagga-4711") == []


@pytest.mark.slow
async def test_what_was_given_along_with_a_question_is_found_and_forgotten(tmp_path: Path) -> None:
    form = {"name": "quagga-4711", "fields": [{"quagga-4711": "which one?"}]}
    async with working_memory(tmp_path) as memory:
        asked = Loop(memory, "asked")
        await asked.say("Hello.")
        request = InputRequired(request_id="r", kind="prompt", prompt="Name?", metadata=form)
        await asked.add(request, InputReceived(request_id="r", text="Zebra"))
        await asked.answer("Hello, Zebra.")
        assert await iterations_to_forget(memory, "quagga-4711") == {("asked", 0)}
        await archived(memory)
        await forget(memory, ForgetRequest(query="quagga-4711", exact=True))
        assert traces(tmp_path, "quagga-4711") == []


@pytest.mark.slow
@pytest.mark.parametrize("member", ["note", "name"])
async def test_words_that_another_question_was_given_along_go_with_the_words(
    tmp_path: Path, member: str
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "told", SECRET, "Noted.")
        other = Loop(memory, "other")
        await other.say("Which one was it?", recalled=[piece("told", 0, SECRET)])
        request = InputRequired(
            request_id="r", kind="prompt", prompt="Which?", metadata={member: SECRET}
        )
        await other.add(request, InputReceived(request_id="r", text="That one."))
        await other.answer("Good.")
        await archived(memory)
        await forget(memory, ForgetRequest(run_loop_ids=("told",), with_answers=True))
        assert traces(tmp_path, "quagga-4711") == []


async def bring_in(
    memory: Memory, *run_loops: RunLoop, owner: str = "me", source: str = "rondo"
) -> ImportReport:
    """Import as from a file."""

    async def lines() -> AsyncIterator[bytes]:
        for each in run_loops:
            yield each.model_dump_json().encode() + b"\n"

    return await Importing(memory, owner=owner, source=source).take(lines())


SECRET = "The quagga-4711 sleeps in the third stable beside the northern gate of the old town."
FIRST = tool_turn(SECRET, "look_up", '{"who": "quagga-4711"}', "quagga-4711 is known.", "Noted.")
QUOTING = Iteration(
    user_message="Say it again.", response=f"You said: {SECRET} Right?", timestamp=NOON
)
LAST = Iteration(user_message="And tulips?", response="They like sun.", timestamp=NOON)
NEW = Iteration(user_message="And crocuses?", response="They, too.", timestamp=NOON)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["rondo", "chatgpt"])
async def test_an_import_does_not_bring_a_forgotten_iteration_back(
    tmp_path: Path, source: str
) -> None:
    async with working_memory(tmp_path) as memory:
        whole = run_loop("zoo", FIRST, QUOTING, LAST)
        assert (await bring_in(memory, whole, source=source)).imported == 1
        await archived(memory)
        request = ForgetRequest(anchors=(AnchorRef("zoo", 0, 0),), with_answers=True)
        await forget(memory, request)
        before = (await memory.journal.replay("zoo")).run_loop()
        assert before.iterations[1].response == FORGOTTEN
        again = await bring_in(memory, whole, source=source)
        assert (again.unchanged, again.failures) == (1, 0)
        grown = run_loop("zoo", FIRST, QUOTING, LAST, NEW)
        report = await bring_in(memory, grown, source=source)
        assert (report.extended, report.failures) == (1, 0)
        assert (await bring_in(memory, grown, source=source)).unchanged == 1
        await archived(memory)
        now = (await memory.journal.replay("zoo")).run_loop()
        assert now.iterations[:-1] == before.iterations
        assert now.iterations[-1].response == NEW.response
        assert now.goal == FORGOTTEN
        assert await memory.long_term.run_loop("zoo", owner="me") == now
        assert traces(tmp_path, "quagga-4711") == []


@pytest.mark.slow
async def test_another_run_loop_of_the_id_is_a_conflict_beside_what_was_forgotten(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await bring_in(memory, run_loop("zoo", FIRST, QUOTING, LAST))
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("zoo", 0, 0),)))
        for other in (
            run_loop("zoo", FIRST, QUOTING, NEW),
            run_loop("zoo", FIRST, LAST, LAST),
            run_loop("zoo", FIRST, QUOTING.model_copy(update={"response": "No."}), LAST),
        ):
            assert (await bring_in(memory, other)).failures == 1


@pytest.mark.slow
async def test_what_an_imported_run_loop_said_later_is_named_and_its_file_is_still_known(
    tmp_path: Path,
) -> None:
    calling = tool_turn("Open it.", "unlock", '{"code": "quagga-4711"}', "open", "Done.")
    async with working_memory(tmp_path) as memory:
        whole = run_loop("zoo", FIRST, calling, QUOTING, LAST)
        await bring_in(memory, whole)
        await archived(memory)
        request = ForgetRequest(anchors=(AnchorRef("zoo", 0, 0),))
        preview = await memory.forgetting.preview(request, owner="me")
        assert {(each.run_loop_id, each.iteration) for each in preview.answers} == {
            ("zoo", 1),
            ("zoo", 2),
        }
        await forget(memory, request.model_copy(update={"with_answers": True}))
        assert traces(tmp_path, "quagga-4711") == []
        again = await bring_in(memory, whole)
        assert (again.unchanged, again.failures) == (1, 0)
