"""A loop that waits for a person hears what they say: no message stays unanswered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import ImageUrlPart, Message, TextPart
from service.domain.conversation.stream_parts import StreamPart, ToolCallDelta
from service.domain.errors import ConflictError
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import Event, MessageCompleted
from service.domain.history.fold import fold
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.run_loops import SendMode
from service.tools.builtins.ask_user import ask_user, choose
from tests.support.agent.agents import (
    Answer,
    Respond,
    answer_of,
    request_of,
    running_agent,
    sent,
    types,
    until,
)
from tests.support.agent.heist import forget
from tests.support.agent.waiting import (
    Launches,
    asked,
    launch_call,
    request_id,
    rested,
    results_of,
    tool_call,
    wanting,
)
from tests.support.memory.secrets import traces

pytestmark = pytest.mark.anyio

NAME = wanting(tool_call("ask_user", question="What is your name?"))
TEA = wanting(tool_call("choose", question="What to drink?", options=["tea", "coffee", "milk"]))
SEVERAL = wanting(tool_call("choose", question="喝什么？", options=["茶", "咖啡"], multiple=True))
MODES: tuple[SendMode, ...] = ("steer", "followup", "interrupt")


def telling(*calls: StreamPart) -> Respond:
    """Wants these calls when it is asked first; then tells results, and what was said since."""
    first = wanting(*calls)

    def respond(messages: Sequence[Message]) -> Answer:
        said = [message.text for message in messages if message.role == "user"]
        if messages[-1].role == "user" and len(said) > 1:
            return f"Heard: {said[-1]}"
        return first(messages)

    return respond


async def well_formed(agent: Agent, run_loop_id: str) -> list[Event]:
    """The history of a loop, in which each call has one result, and no message lies unheard."""
    history = await agent.memory.journal.read(run_loop_id=run_loop_id)
    called = [
        call.id
        for event in history
        if isinstance(event.body, MessageCompleted)
        for call in event.body.message.tool_calls
    ]
    finished = [event.body.call_id for event in history if event.body.type == "tool.finished"]
    assert sorted(called) == sorted(finished)
    state = await agent.replay(run_loop_id)
    assert fold(history) == state
    assert state.unseen == ()
    return history


async def test_the_reply_to_a_question_is_its_answer(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        events = await sent(agent, "Ada", loop_id)
        assert answer_of(events) == "Results: Ada"
        assert types(events)[:3] == ["message.received", "route.decided", "input.received"]
        assert events[-1].type == "run_loop.idle"
        assert results_of(await rested(agent, loop_id)) == ["Ada"]
        await well_formed(agent, loop_id)


async def test_the_library_gives_the_answer_that_the_reply_leads_to(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        assert await agent.ask("我叫小明", loop_id) == "Results: 我叫小明"


@pytest.mark.parametrize(
    ("words", "choice"), [("coffee", "coffee"), ("2", "coffee"), ("the third one", "milk")]
)
async def test_the_reply_to_a_choice_is_the_option_that_it_names(
    tmp_path: Path, words: str, choice: str
) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        assert answer_of(await sent(agent, words, loop_id)) == f"Results: {choice}"
        await well_formed(agent, loop_id)


async def test_several_options_are_named_in_one_reply(tmp_path: Path) -> None:
    async with running_agent(tmp_path, SEVERAL, choose) as agent:
        loop_id = await asked(agent)
        assert answer_of(await sent(agent, "第一个和第二个", loop_id)) == "Results: 茶\n咖啡"


async def test_a_reply_that_names_no_option_is_told_what_the_options_are(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        first = request_id(agent, loop_id)
        again = request_of(await sent(agent, "lemonade", loop_id))
        assert "1. tea; 2. coffee; 3. milk" in again.prompt
        assert again.request_id != first
        with pytest.raises(ConflictError, match="asked again"):
            await agent.answer(loop_id, choices=["tea"], request_id=first)
        # What was said first is not lost: the model sees it, and so will memory.
        assert answer_of(await sent(agent, "milk then", loop_id)) == "Results: > lemonade\nmilk"
        await well_formed(agent, loop_id)


@pytest.mark.parametrize("end", ["interrupt", "cancel"])
async def test_what_was_asked_back_about_is_the_answer_where_no_other_comes(
    tmp_path: Path, end: str
) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        await sent(agent, "lemonade", loop_id)
        if end == "cancel":
            await agent.cancel(loop_id)
        else:
            await sent(agent, "Something else altogether", loop_id, mode="interrupt")
        (result,) = (await agent.run_loop(loop_id)).iterations[0].tool_results
        assert (result.content, result.is_error, result.notice) == ("lemonade", False, False)


async def test_nobody_is_asked_the_same_for_ever(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        await sent(agent, "lemonade", loop_id)
        assert answer_of(await sent(agent, "I said lemonade", loop_id)).endswith("I said lemonade")
        await well_formed(agent, loop_id)


async def test_a_question_about_the_choice_reaches_the_model(tmp_path: Path) -> None:
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        events = await sent(agent, "What is the difference?", loop_id)
        assert answer_of(events) == "Results: What is the difference?"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", ["Use the other file instead", "yes", "好的，运行吧"])
async def test_a_message_withdraws_what_was_to_be_allowed_and_is_answered(
    tmp_path: Path, mode: SendMode, words: str
) -> None:
    launches = Launches()
    respond = telling(launch_call("rocket"))
    async with running_agent(tmp_path, respond, launches.tool()) as agent:
        loop_id = await asked(agent)
        withdrawn = request_id(agent, loop_id)
        events = await sent(agent, words, loop_id, mode=mode)
        assert answer_of(events) == f"Heard: {words}"
        with pytest.raises(ConflictError, match="something else was said"):
            await agent.answer(loop_id, approved=True, request_id=withdrawn)
        with pytest.raises(ConflictError, match="asks nothing now"):
            await agent.answer(loop_id, approved=True)
        assert launches.launched == []
        assert "a message is never a yes" in results_of(await rested(agent, loop_id))[0].lower()
        await well_formed(agent, loop_id)


async def test_a_follow_up_is_an_answer_too(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        assert answer_of(await sent(agent, "Ada", loop_id, mode="followup")) == "Results: Ada"


async def test_an_interrupting_message_is_taken_instead_of_an_answer(tmp_path: Path) -> None:
    respond = telling(tool_call("ask_user", question="What is your name?"))
    async with running_agent(tmp_path, respond, ask_user) as agent:
        loop_id = await asked(agent)
        events = await sent(agent, "Leave it.", loop_id, mode="interrupt")
        assert answer_of(events) == "Heard: Leave it."
        await well_formed(agent, loop_id)


async def test_a_picture_is_seen_where_words_were_asked_for(tmp_path: Path) -> None:
    respond = telling(tool_call("ask_user", question="What is your name?"))
    picture = ImageUrlPart(url="data:image/png;base64,iVBORw0KGgo=")
    message = Message(role="user", content=(TextPart(text="this"), picture))
    async with running_agent(tmp_path, respond, ask_user) as agent:
        loop_id = await asked(agent)
        assert answer_of([e async for e in agent.send(message, loop_id)]) == "Heard: this"
        state = await agent.replay(loop_id)
        assert any(each.images for each in state.history)


async def test_of_two_messages_at_once_one_is_the_answer_and_the_other_is_heard_too(
    tmp_path: Path,
) -> None:
    async with running_agent(
        tmp_path, telling(tool_call("ask_user", question="Name?")), ask_user
    ) as agent:
        loop_id = await asked(agent)
        ended: list[list[Event]] = []

        async def send(words: str) -> None:
            ended.append(await sent(agent, words, loop_id))

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(send, f"word {number}")
        assert len(ended) == 12
        assert all(each[-1].type == "run_loop.idle" for each in ended)
        history = await well_formed(agent, loop_id)
        answers = [event for event in history if isinstance(event.body, InputReceived)]
        assert len(answers) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "wants",
    [
        tool_call("launch", what="a rocket"),
        tool_call("ask_user", question="Name?"),
        tool_call("choose", question="What?", options=["tea", "coffee"]),
    ],
    ids=["approve", "prompt", "select"],
)
async def test_in_a_storm_of_messages_to_a_loop_that_waits_each_is_heard_and_nothing_runs(
    tmp_path: Path, wants: ToolCallDelta
) -> None:
    launches = Launches()
    tools = (launches.tool(), ask_user, choose)
    async with running_agent(tmp_path, telling(wants), *tools) as agent:
        loop_id = await asked(agent)
        ended: dict[str, list[Event]] = {}

        async def send(number: int) -> None:
            words = f"{'风暴' if number % 2 else 'storm'} {number}"
            ended[words] = await sent(agent, words, loop_id, mode=MODES[number % 3])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(60):
                    group.start_soon(send, number)
        assert len(ended) == 60
        # Of a choice one message may be asked back about, where it comes before the others.
        endings = [each[-1].type for each in ended.values() if each[-1].type != "run_loop.idle"]
        assert endings in ([], ["input.required"] if wants.name == "choose" else [])
        assert (await rested(agent, loop_id)).status == "idle"
        await well_formed(agent, loop_id)
        heard = "\n".join(
            each.user_message or "" for each in (await agent.run_loop(loop_id)).iterations
        )
        heard_anywhere = heard + "\n".join(results_of(await agent.run_loop(loop_id)))
        assert [words for words in ended if words not in heard_anywhere] == []
        assert launches.launched == []


async def test_what_is_said_while_it_works_is_heard_before_it_asks(tmp_path: Path) -> None:
    gate = anyio.Event()

    def respond(messages: Sequence[Message]) -> Answer:
        if messages[-1].role == "user" and len(messages) == 2:
            return [gate, tool_call("ask_user", question="Name?")]
        return f"Heard: {messages[-1].text}"

    async with running_agent(tmp_path, respond, ask_user) as agent:
        ended: dict[str, list[Event]] = {}

        async def send(words: str, loop_id: str | None = None) -> None:
            ended[words] = await sent(agent, words, loop_id)

        async with anyio.create_task_group() as group:
            group.start_soon(send, "begin")
            await until(lambda: agent.memory.short_term.states())
            loop_id = agent.memory.short_term.states()[0].id
            await until(lambda: not agent.memory.short_term.states()[0].unseen)
            group.start_soon(send, "my name is Ada", loop_id)
            await until(lambda: agent.memory.short_term.states()[0].unseen)
            gate.set()
        assert answer_of(ended["my name is Ada"]) == "Heard: my name is Ada"
        history = await well_formed(agent, loop_id)
        assert not any(isinstance(event.body, InputRequired) for event in history)


async def test_a_question_that_was_open_over_a_restart_is_answered_by_a_message(
    tmp_path: Path,
) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        assert answer_of(await sent(agent, "Ada", loop_id)) == "Results: Ada"


async def test_the_same_answer_again_by_another_door_changes_nothing(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent)
        request = request_id(agent, loop_id)
        await sent(agent, "Ada", loop_id)
        before = await agent.replay(loop_id)
        await agent.answer(loop_id, text="Ada", request_id=request)
        assert await agent.replay(loop_id) == before
        with pytest.raises(ConflictError, match="something else"):
            await agent.answer(loop_id, text="Eve", request_id=request)


@pytest.mark.slow
async def test_an_answer_that_came_as_a_message_is_forgotten_in_every_byte(tmp_path: Path) -> None:
    secret = "Zanzibarquine"
    respond = telling(tool_call("ask_user", question="What is your name?"))
    async with running_agent(tmp_path, respond, ask_user) as agent:
        loop_id = await asked(agent)
        await sent(agent, secret, loop_id, metadata={"seen": f"{secret} too"})
        await sent(agent, "bye", loop_id)
        await agent.complete(loop_id)
        await forget(agent, ForgetRequest(query=secret, exact=True))
        await well_formed(agent, loop_id)
    assert traces(tmp_path, secret) == []


@pytest.mark.slow
async def test_a_reply_that_named_no_option_is_forgotten_in_every_byte(tmp_path: Path) -> None:
    secret = "Zanzibarquine"
    async with running_agent(tmp_path, TEA, choose) as agent:
        loop_id = await asked(agent)
        await sent(agent, secret, loop_id)
        await sent(agent, "milk", loop_id)
        await rested(agent, loop_id)
        await agent.complete(loop_id)
        await forget(agent, ForgetRequest(run_loop_ids=(loop_id,)))
    assert traces(tmp_path, secret) == []


async def test_an_answer_goes_with_what_it_answered(tmp_path: Path) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent, "Write me a letter")
        events = await sent(agent, "Ada", loop_id)
        (message_id,) = (e.body.message_id for e in events if e.body.type == "message.received")
        moved = await agent.reroute(loop_id)
        there = moved.run_loop
        assert [each.user_message for each in there.iterations] == ["Write me a letter", None]
        assert results_of(there) == ["Ada"]
        assert there.iterations[-1].response == "Results: Ada"
        await well_formed(agent, there.id)
        delivery = await agent.delivery(message_id)
        assert delivery.run_loop_id == there.id  # type: ignore[union-attr]
