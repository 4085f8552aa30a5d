"""What others said after they had seen forgotten words: known by provenance, whatever its length.

Twenty secrets of one to eight words are quoted, whole or in part, in every place that another run
loop has for the words of models and tools.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN, ForgetPreview, ForgetRequest
from service.domain.history.events import (
    IterationStarted,
    MessageReceived,
    RouteDecided,
)
from service.domain.routes import Route
from tests.support.memory.quoted_secrets import (
    QUESTION,
    SECRETS,
    everything_said,
    shown,
)
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


def sources() -> tuple[str, ...]:
    return tuple(f"source{number}" for number in range(len(SECRETS)))


def named(preview: ForgetPreview) -> set[tuple[str, int | None]]:
    return {(each.run_loop_id, each.iteration) for each in preview.answers}


@pytest.mark.slow
async def test_twenty_secrets_are_in_no_file_once_they_are_forgotten_with_the_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="service")
    async with working_memory(tmp_path) as memory:
        places = await everything_said(memory)
        for secret in SECRETS:
            assert traces(tmp_path, secret.words), "it is nowhere, so the test shows nothing"
        request = ForgetRequest(run_loop_ids=sources())
        preview = await memory.forgetting.preview(request, owner="me")
        assert set().union(*places.values()) <= named(preview)
        assert {None} == {p.iteration for p in preview.answers if "summary" in p.parts}
        assert len(preview.notes) == len(SECRETS)

        await forget(memory, request.model_copy(update={"with_answers": True}))

        secret_parts = {each for secret in SECRETS for each in secret}
        assert traces(tmp_path, *secret_parts) == []
        state = await memory.journal.replay("loop0")
        assert [each.user_message for each in state.iterations] == [QUESTION, None, "Thank you."]
        assert state.iterations[1].response == FORGOTTEN
        assert state.iterations[2].response == "You are welcome."
        assert await anyio.to_thread.run_sync(memory.long_term.notes.of, "me") == []
    assert traces(tmp_path, *secret_parts) == []
    assert not [each for each in secret_parts if not each.isdigit() and each in caplog.text]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SECRETS)))
async def test_each_secret_alone_is_told_from_what_others_say(tmp_path: Path, number: int) -> None:
    secret = SECRETS[number]
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "source", secret.words, "Noted.")
        loop = await shown(memory, "shown", "source", secret)
        await (await loop.say("And the weather?")).answer("Rain, I am afraid.")
        await loop.end()
        await record_exchange(
            memory, "other", "Tell me about tulips. 说说郁金香。", "They like sun."
        )
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("source",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert named(preview) == {("shown", 0), ("shown", 1)}
        assert {(each.run_loop_id, each.iteration) for each in preview.saw} == {("shown", 2)}
        kept = await forget(memory, request)
        assert "shown" in kept.copies  # the piece of memory
        assert traces(tmp_path, secret.part)
        left = (await memory.journal.replay("shown")).iterations
        assert secret.part in (left[1].response or "")


SECRET = SECRETS[0]


@pytest.mark.slow
async def test_all_that_saw_it_goes_where_that_is_wanted_and_what_a_person_said_stays(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "source", SECRET.words, "Noted.")
        loop = Loop(memory, "shown")
        await loop.say(QUESTION, recalled=[piece("source", 0, SECRET.words)])
        await loop.answer("Forty-seven, and then a prime below twelve.")
        heard = piece("shown", 0, "Forty-seven, and then a prime below twelve.", "response")
        later = Loop(memory, "later")
        await later.say("Which prime?", recalled=[heard])
        await (await later.answer("Eleven.")).end()
        again = Loop(memory, "again")
        await again.say("Did I say so?", recalled=[piece("shown", 0, QUESTION)])
        await (await again.answer("You did ask.")).end()
        await loop.end()
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("source",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert preview.answers == ()
        assert {(each.run_loop_id, each.iteration) for each in preview.saw} == {
            ("shown", 0),
            ("later", 0),
        }
        await forget(memory, request.model_copy(update={"with_all_that_saw": True}))
        assert traces(tmp_path, "Forty-seven", "Eleven.") == []
        shown_now = (await memory.journal.replay("shown")).iterations[0]
        assert (shown_now.user_message, shown_now.response) == (QUESTION, FORGOTTEN)
        assert (await memory.journal.replay("again")).iterations[0].response == "You did ask."


async def test_what_one_wish_confirms_the_other_does_not(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "source", SECRET.words, "Noted.")
        loop = await shown(memory, "shown", "source", SECRET)
        await loop.end()
        codes = set()
        for wish in ({}, {"with_answers": True}, {"with_all_that_saw": True}):
            request = ForgetRequest(run_loop_ids=("source",)).model_copy(update=wish)
            codes.add((await memory.forgetting.preview(request, owner="me")).confirm)
        assert len(codes) == 3


@pytest.mark.slow
async def test_later_answers_of_the_same_run_loop_have_seen_it(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "one")
        await (await loop.say("Hello.")).answer("Hello. Four eggs make a cake.")
        await (await loop.say(SECRET.words)).answer("Noted.")
        await (await loop.say("Which one was it?")).answer("4711")
        await (await loop.say("And the weather?")).answer("Rain.")
        await archived(memory)
        request = ForgetRequest(anchors=(AnchorRef("one", 1, 0),))
        preview = await memory.forgetting.preview(request, owner="me")
        assert named(preview) == {("one", 2)}
        assert {(each.run_loop_id, each.iteration) for each in preview.saw} == {("one", 3)}
        await forget(memory, request.model_copy(update={"with_answers": True}))
        assert traces(tmp_path, "4711", "padlock") == []
        left = (await memory.journal.replay("one")).iterations
        assert [each.response for each in left] == [
            "Hello. Four eggs make a cake.",
            FORGOTTEN,
            FORGOTTEN,
            "Rain.",
        ]
        response = await memory.long_term.search("forgotten", owner="me")
        assert all(FORGOTTEN not in hit.content for hit in response.hits)


async def test_what_everybody_says_tells_nothing(tmp_path: Path) -> None:
    """A word that is said elsewhere by who has not seen it is no evidence; a number is."""
    async with working_memory(tmp_path) as memory:
        await record_exchange(
            memory, "bike", "My bike needs a new padlock.", "There are good ones."
        )
        await record_exchange(memory, "source", SECRET.words, "Noted.")
        for name, answer in (("vague", "Buy a padlock."), ("exact", "Try 4711 on it.")):
            loop = Loop(memory, name)
            await loop.say("What now?", recalled=[piece("source", 0, SECRET.words)])
            await (await loop.answer(answer)).end()
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("source",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert named(preview) == {("exact", 0)}
        assert {each.run_loop_id for each in preview.saw} == {"vague"}


@pytest.mark.slow
async def test_an_answer_that_was_moved_has_seen_what_was_seen_where_it_came_from(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "source", SECRET.words, "Noted.")
        first = Loop(memory, "first")
        await first.say(QUESTION, recalled=[piece("source", 0, SECRET.words)])
        await first.answer("Something about a shed.")
        target = Loop(memory, "target")
        await (await target.say("How do tulips grow?")).answer("They like sun.")
        route = Route(
            decision="join",
            run_loop_id="target",
            confidence=1,
            method="person",
            reason="a person moved it here",
            moved_from="first",
        )
        await target.add(
            MessageReceived(message_id="m", message=Message.user("Which number?")),
            RouteDecided(message_id="m", route=route),
            IterationStarted(index=1, message_ids=("m",)),
        )
        await (await target.answer("4711")).end()
        await first.end()
        await archived(memory)
        request = ForgetRequest(run_loop_ids=("source",), with_answers=True)
        preview = await memory.forgetting.preview(request, owner="me")
        assert named(preview) == {("first", 0), ("target", 1)}
        await forget(memory, request)
        assert traces(tmp_path, "4711") == []


@pytest.mark.slow
async def test_reading_on_in_memory_does_not_keep_with_which_words_a_run_loop_began(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        source = Loop(memory, "source")
        await (await source.say(SECRET.words)).answer("Noted.")
        await (await source.say("And tulips?")).answer("They like sun.")
        await source.end()
        reader = Loop(memory, "reader")
        await reader.say("What of tulips?")
        head = f"From the conversation of 2026 that began with:\n> {SECRET.words}"
        window = f"{head}\n\n[source:1.0] user_message, asked for\n> And tulips?"
        await reader.use("memory_expand", '{"anchor": "source:1.0"}', window)
        await (await reader.answer("They like sun.")).end()
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("source", 0, 0),)))
        assert traces(tmp_path, "4711") == []


@pytest.mark.slow
async def test_an_answer_that_was_recalled_just_before_does_not_come_back_just_after(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "source", SECRET.words, "Noted.")
        loop = Loop(memory, "shown")
        await loop.say(QUESTION, recalled=[piece("source", 0, SECRET.words)])
        await (await loop.answer("It is 4711.")).end()
        await archived(memory)
        await forget(memory, ForgetRequest(run_loop_ids=("source",), with_answers=True))
        answer = piece("shown", 0, "It is 4711.", "response")
        question = piece("shown", 0, QUESTION)
        late = Loop(memory, "late")
        await late.say("What was it?", recalled=[question, answer])
        tool_output = f"Found.\n\n[shown:0.0] 2026, user_message\n> {QUESTION}"
        await late.use("memory_search", "{}", tool_output)
        stale = "Found.\n\n[shown:0.1] 2026, response\n> It is 4711."
        await late.use("memory_search", '{"query": "which?"}', stale)
        await (await late.answer("I do not know.")).end()
        assert traces(tmp_path, "4711") == []
        state = await memory.journal.replay("late")
        assert state.recollections == (question,)
        results = [each.tool_results[0].content for each in state.iterations[:2]]
        assert results == [tool_output, FORGOTTEN]
