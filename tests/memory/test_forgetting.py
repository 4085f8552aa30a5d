"""Forgetting, proven by reading the raw files of the data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.forgetting_terms import FORGOTTEN, ForgetConflictError, ForgetRequest
from service.domain.routes import RouteCandidate
from service.memory.memory import Memory
from tests.support.memory.indexing import NoisyEmbedder, beginning_as_kept
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

QUESTION = "Where did Zwibbelquast hide the vermilion sextant? 朱砂六分仪藏在哪座灯塔里？"
SECRETS = (
    "Zwibbelquast",
    "vermilion",
    "sextant",
    "朱砂六分仪",
    "Plinkhorst",
    "青瓷密匣",
    "Ombrelune",
    "Krasvingel",
    "Dorvaal",
    "Vuldrak",
)


async def secret_loop(memory: Memory, run_loop_id: str = "secret") -> Loop:
    """Rare words in every place that a run loop has for words."""
    loop = Loop(memory, run_loop_id)
    await loop.say(QUESTION, note="from Dorvaal")
    await loop.use(
        "look_up",
        '{"who": "Plinkhorst", "what": "\\u9752\\u74f7\\u5bc6\\u5323"}',
        "Ombrelune keeps it behind the third lamp. " * 80,
        thought="I should ask Krasvingel about it.",
    )
    await loop.answer(
        "Zwibbelquast hid it in 青瓷密匣, says Ombrelune.",
        thought="Krasvingel knew.",
        response_id="resp_Vuldrak",  # the provider would give the words by it
    )
    return await loop.end()


@pytest.mark.slow
async def test_a_forgotten_run_loop_is_in_no_file_any_more(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await record_exchange(
            memory, "other", "How do I bake rye bread?", "With sourdough. 用酸面团。"
        )
        await archived(memory)
        for word in SECRETS:
            assert traces(tmp_path, word), f"{word} is nowhere, so the test shows nothing"

        receipt = await forget(memory, ForgetRequest(run_loop_ids=("secret",)))

        assert traces(tmp_path, *SECRETS) == []  # the daemon goes on, and nothing is left
        assert receipt.run_loops == ("secret",)
        assert receipt.removed.events > 10
        assert receipt.removed.messages == 1
        assert receipt.removed.usage == 1
        assert receipt.removed.approvals == 1
        assert receipt.removed.segments > 5
        assert receipt.finished_at is not None
        response = await memory.long_term.search("rye bread", owner="me")
        assert [hit.anchor.run_loop_id for hit in response.hits][:1] == ["other"]
        response = await memory.long_term.search("vermilion sextant", owner="me")
        assert {hit.anchor.run_loop_id for hit in response.hits} <= {"other"}
        with pytest.raises(NotFoundError):
            await memory.journal.replay("secret")
    assert traces(tmp_path, *SECRETS) == []
    assert traces(tmp_path, "sourdough", "用酸面团")


@pytest.mark.slow
async def test_a_forgotten_iteration_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "mixed")
        await (await loop.say("What is the tallest tower in Pisa?")).answer("It leans.")
        await loop.say(QUESTION)
        await loop.use("look_up", '{"who": "Plinkhorst"}', "Ombrelune keeps it.")
        await loop.answer("Nobody knows.")
        await (await loop.say("And which river flows there?")).answer("The Arno.")
        await loop.end()
        await archived(memory)
        before = (await memory.journal.replay("mixed")).run_loop()

        preview = await memory.forgetting.preview(
            ForgetRequest(anchors=(AnchorRef("mixed", 1, 0),)), owner="me"
        )
        assert [each.iteration for each in preview.iterations] == [1]
        receipt = await forget(memory, ForgetRequest(anchors=(AnchorRef("mixed", 1, 0),)))

        assert receipt.iterations == {"mixed": (1,)}
        assert traces(tmp_path, "Zwibbelquast", "朱砂六分仪", "Plinkhorst", "Ombrelune") == []
        state = await memory.journal.replay("mixed")
        after = state.run_loop()
        assert after.iterations[0] == before.iterations[0]
        assert after.iterations[2:] == before.iterations[2:]
        assert after.iterations[1].user_message == FORGOTTEN
        assert after.iterations[1].forgotten
        calls = {call.id for message in state.history for call in message.tool_calls}
        assert calls == {m.tool_call_id for m in state.history if m.role == "tool"}
        remembered = await memory.long_term.run_loop("mixed", owner="me")
        assert remembered == after
        hits = (await memory.long_term.search("river Arno tower forgotten", owner="me")).hits
        assert hits
        assert all(hit.anchor.iteration_index != 1 for hit in hits)


@pytest.mark.slow
async def test_the_first_iteration_takes_the_goal_with_it(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "mixed")
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        await (await loop.say("And which river flows there?")).answer("The Arno.")
        await loop.end()
        await archived(memory)
        await forget(memory, ForgetRequest(anchors=(AnchorRef("mixed", 0, 0),)))
        assert traces(tmp_path, "Zwibbelquast") == []
        summaries = await memory.journal.run_loops.summaries(owner="me")
        assert [each.goal for each in summaries] == [FORGOTTEN]


@pytest.mark.slow
async def test_copies_in_other_run_loops_go_too_and_their_own_words_stay(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        shown = Loop(memory, "shown")
        await shown.say(
            "What was that about the lighthouse?", recalled=[piece("secret", 0, QUESTION)]
        )
        await shown.answer(f"You asked: '{QUESTION}' I wonder about the weather.")
        await shown.end()
        searching = Loop(memory, "searching")
        await searching.say("Look it up in your memory, please.")
        result = f"Found in memory, best first.\n\n[secret:0.0] 2026, user_message\n{QUESTION}"
        await searching.use("memory_search", '{"query": "lamp"}', result)
        await (await searching.answer("I found something about lamps.")).end()
        chosen = Loop(memory, "chosen")
        candidate = RouteCandidate(run_loop_id="secret", goal=QUESTION, probability=0.4)
        await chosen.say("Plant tulips on Friday.", candidates=[candidate])
        await (await chosen.answer("Noted: tulips.")).end()
        mentions = await record_exchange(
            memory, "mentions", "My Zwibbelquast clock is slow.", "Wind it every day."
        )
        await archived(memory)

        request = ForgetRequest(run_loop_ids=("secret",))
        preview = await memory.forgetting.preview(request, owner="me")
        kinds = {each.run_loop_id: each.kinds for each in preview.copies}
        assert kinds == {
            "shown": ("recalled",),
            "searching": ("recalled",),
            "chosen": ("quoted",),
        }
        assert [(p.run_loop_id, p.iteration, p.parts) for p in preview.answers] == [
            ("shown", 0, ("answer",))
        ]
        assert {each.run_loop_id for each in preview.saw} == {"searching"}
        assert [(each.run_loop_id, each.by) for each in preview.repeated] == []
        await forget(memory, request.model_copy(update={"with_answers": True}))

        assert traces(tmp_path, "朱砂六分仪", "sextant", "Ombrelune") == []
        answer = (await memory.journal.replay("shown")).run_loop().iterations[0].response
        assert answer == FORGOTTEN
        answer = (await memory.journal.replay("searching")).run_loop().iterations[-1].response
        assert answer == "I found something about lamps."
        # What a person said of the same topic by themselves is theirs.
        words = (await memory.journal.replay(mentions.id)).run_loop().iterations[0]
        assert words.user_message == "My Zwibbelquast clock is slow."


@pytest.mark.slow
async def test_other_owners_words_are_not_touched(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await record_exchange(
            memory, "theirs", QUESTION * 4, "Also known to Ombrelune.", owner="you"
        )
        await archived(memory)
        with pytest.raises(NotFoundError):
            await memory.forgetting.preview(ForgetRequest(run_loop_ids=("theirs",)), owner="me")
        before = (await memory.journal.replay("theirs")).run_loop()
        await forget(memory, ForgetRequest(everything=True))
        assert (await memory.journal.replay("theirs")).run_loop() == before
        assert traces(tmp_path, "Krasvingel", "Plinkhorst") == []
        response = await memory.long_term.search("vermilion sextant", owner="you")
        assert response.hits[0].anchor.run_loop_id == "theirs"
        assert await memory.forgetting.receipts(owner="you") == []


@pytest.mark.slow
async def test_vectors_of_forgotten_words_are_in_no_file(tmp_path: Path) -> None:
    embedder = NoisyEmbedder()
    async with working_memory(tmp_path, embedder) as memory:
        await record_exchange(memory, "other", "How do I bake rye bread?", "With sourdough.")
        await record_exchange(memory, "secret", QUESTION, "Nobody knows.")
        await archived(memory)
        written = beginning_as_kept(embedder, QUESTION)
        for each in written:
            assert traces(tmp_path, each), "the vector is nowhere, so the test shows nothing"
        await forget(memory, ForgetRequest(run_loop_ids=("secret",)))
        assert traces(tmp_path, *written) == []
        response = await memory.long_term.search("rye bread", owner="me")
        assert response.mode == "hybrid"


async def test_what_was_previewed_is_forgotten_or_nothing(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        request = ForgetRequest(query="Zwibbelquast", exact=True)
        preview = await memory.forgetting.preview(request, owner="me")
        assert preview.confirm is not None
        await record_exchange(memory, "later", "Zwibbelquast again", "Yes?")

        with pytest.raises(ForgetConflictError) as refused:
            await memory.forgetting.forget(request, preview.confirm, owner="me", stop=_stop)
        now = refused.value.preview
        assert {each.id for each in now.run_loops} == {"secret", "later"}
        with pytest.raises(ForgetConflictError):
            await memory.forgetting.forget(request, "", owner="me", stop=_stop)
        assert (await memory.journal.replay("secret")).run_loop().goal == QUESTION


@pytest.mark.slow
async def test_active_run_loops_stand_in_the_way_until_they_have_ended(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "secret")
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        request = ForgetRequest(run_loop_ids=("secret",))
        preview = await memory.forgetting.preview(request, owner="me")
        assert preview.confirm is None
        assert [each.id for each in preview.active] == ["secret"]
        assert preview.notice is not None
        stopping = request.model_copy(update={"stop": True})
        preview = await memory.forgetting.preview(stopping, owner="me")
        assert preview.confirm is not None

        async def stop(run_loop_id: str) -> None:
            assert run_loop_id == "secret"
            await loop.end()

        await memory.forgetting.forget(stopping, preview.confirm, owner="me", stop=stop)
        assert memory.short_term.get("secret") is None
        await archived(memory)
        assert (await memory.long_term.stats()).run_loops == 0


@pytest.mark.slow
async def test_a_resting_run_loop_loses_an_iteration_and_goes_on(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "open")
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        await (await loop.say("And which river flows there?")).answer("The Arno.")
        await forget(memory, ForgetRequest(anchors=(AnchorRef("open", 0, 0),)))
        state = memory.short_term.state("open")
        assert state is not None
        assert QUESTION not in [message.text for message in state.history]
        await (await loop.say("Thank you.")).answer("You are welcome.")
        await loop.end()
        await archived(memory)
        assert traces(tmp_path, "Zwibbelquast", "朱砂六分仪") == []


@pytest.mark.slow
async def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "first", "Hello there", "Good day")
        await archived(memory)
        last = memory.journal.last_seq
        await forget(memory, ForgetRequest(everything=True))
    async with working_memory(tmp_path) as memory:
        assert memory.journal.last_seq == last
        await record_exchange(memory, "second", "Hello again", "Good evening")
        assert (await memory.journal.read())[0].seq == last + 1


async def test_a_time_selects_what_happened_in_it(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        loop = Loop(memory, "long")
        await (await loop.say("What is the tallest tower in Pisa?")).answer("It leans.")
        middle = (await memory.journal.read())[-1].at
        await (await loop.say(QUESTION)).answer("Nobody knows.")
        await loop.end()
        await record_exchange(memory, "short", QUESTION, "Nobody knows.")
        [first, second] = (await memory.journal.replay("long")).run_loop().iterations
        since = second.timestamp
        preview = await memory.forgetting.preview(ForgetRequest(since=since), owner="me")
        if first.timestamp < since:
            assert [(i.run_loop_id, i.iteration) for i in preview.iterations] == [("long", 1)]
        assert [each.id for each in preview.run_loops][-1:] == ["short"]
        nothing = await memory.forgetting.preview(
            ForgetRequest(run_loop_ids=("short",), until=middle), owner="me"
        )
        assert nothing.confirm is None


@pytest.mark.parametrize(
    "request_",
    [
        ForgetRequest(),
        ForgetRequest(query="  "),
        ForgetRequest(everything=True, run_loop_ids=("a",)),
        ForgetRequest(exact=True, run_loop_ids=("a",)),
    ],
)
async def test_a_request_that_says_nothing_clear_is_refused(
    tmp_path: Path, request_: ForgetRequest
) -> None:
    async with Memory(tmp_path, None) as memory:
        with pytest.raises(InvalidInputError):
            await memory.forgetting.preview(request_, owner="me")


async def _stop(run_loop_id: str) -> None:
    raise AssertionError("nothing was to be stopped")


async def test_an_anchor_at_which_nothing_stands_is_refused_and_names_nothing_else(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await record_exchange(memory, "one", "How do I bake rye bread?", "With sourdough.")
        await archived(memory)
        for segment in (2, 77):
            request = ForgetRequest(anchors=(AnchorRef("one", 0, segment),))
            with pytest.raises(NotFoundError, match=f"nothing stands at one:0.{segment}"):
                await memory.forgetting.preview(request, owner="me")
        preview = await memory.forgetting.preview(
            ForgetRequest(anchors=(AnchorRef("one", 0, 1),)), owner="me"
        )
        assert preview.confirm is not None
