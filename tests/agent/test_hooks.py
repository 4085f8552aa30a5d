"""Hooks: when they are called, and what they may change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.messages import Message, TextPart, ToolCall, ToolResult
from service.domain.conversation.stream_parts import TextDelta
from service.domain.conversation.tool_definitions import ToolEffect
from service.domain.history.events import MessageReceived
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.loop.execution import Loop
from service.loop.hooks.hooks import Hooks
from service.memory.journal.inbox import InboxEntry
from service.routing.routing_options import RouterOptions
from service.tools.decorator import tool
from tests.support.agent.agents import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sent,
    until,
)
from tests.support.agent.hooking import (
    Looks,
    calls_then_tells,
    failures,
    results,
)

pytestmark = pytest.mark.anyio


# --- what they may change


async def test_each_point_is_passed_once_and_in_order(tmp_path: Path) -> None:
    passed: list[str] = []

    class Notes(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            passed.append(f"before model: {messages[-1].role}")
            return messages

        async def after_model_call(self, loop: Loop, message: Message) -> Message:
            passed.append(f"after model: {len(message.tool_calls)} calls")
            return message

        async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
            passed.append(f"before {call.name}")
            return None

        async def after_tool_call(
            self, loop: Loop, call: ToolCall, result: ToolResult
        ) -> ToolResult:
            passed.append(f"after {call.name}: {result.content}")
            return result

        async def before_routing(self, entry: InboxEntry, words: str) -> str:
            passed.append(f"before routing: {words}")
            return words

        async def after_routing(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
            passed.append(f"after routing: {route.decision}")

        async def before_archiving(self, run_loop: RunLoop) -> None:
            passed.append(f"before archiving: {run_loop.status}")

        async def after_archiving(self, run_loop: RunLoop) -> None:
            passed.append(f"after archiving: {run_loop.id}")

    async with running_agent(tmp_path, calls_then_tells, Looks().tool, hooks=[Notes()]) as agent:
        events = await sent(agent, "Look!")
        run_loop_id = events[0].run_loop_id
        await agent.complete(run_loop_id)
        await until(lambda: passed[-1].startswith("after archiving"))
    routing = [each for each in passed if "routing" in each]
    assert routing == ["before routing: Look!", "after routing: new"]
    assert [each for each in passed if each not in routing] == [
        "before model: user",
        "after model: 1 calls",
        "before look",
        "after look: a cat",
        "before model: tool",
        "after model: 0 calls",
        "before archiving: completed",
        f"after archiving: {run_loop_id}",
    ]
    assert failures(events) == []


async def test_what_the_model_is_shown_can_be_changed_and_the_history_stays(tmp_path: Path) -> None:
    class Redacts(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            return [
                message.model_copy(
                    update={"content": (TextPart(text=message.text.replace("4711", "****")),)}
                )
                for message in messages
            ]

    async with running_agent(tmp_path, hooks=[Redacts()]) as agent:
        events = await sent(agent, "My PIN is 4711.")
        assert answer_of(events) == "You said: My PIN is ****."
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.iterations[0].user_message == "My PIN is 4711."


async def test_what_the_model_said_is_changed_before_it_is_acted_upon(tmp_path: Path) -> None:
    @tool()
    async def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid"

    class Halves(Hooks):
        async def after_model_call(self, loop: Loop, message: Message) -> Message:
            halved = tuple(
                each.model_copy(update={"arguments": '{"amount": 50}'})
                for each in message.tool_calls
            )
            return message.model_copy(update={"tool_calls": halved})

    def respond(messages: Sequence[Message]) -> Answer:
        return messages[-1].text if messages[-1].role == "tool" else [call("pay", '{"amount": 99}')]

    async with running_agent(tmp_path, respond, pay, hooks=[Halves()]) as agent:
        events = await sent(agent, "Pay!")
        assert answer_of(events) == "50 paid"
        loop = await agent.run_loop(events[0].run_loop_id)
        assert loop.iterations[0].tool_calls[0].arguments == '{"amount": 50}'


@pytest.mark.parametrize("effect", ["side_effects", "read_only"])
async def test_words_block_a_call_and_are_what_the_model_is_told(
    tmp_path: Path, effect: ToolEffect
) -> None:
    class Guards(Hooks):
        async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
            return "Not on a Sunday." if call.name == "look" else None

    looks = Looks(effect)  # what is read_only begins while the answer still arrives
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=[Guards()]) as agent:
        events = await sent(agent, "Look!")
    assert looks.ran == 0
    assert answer_of(events) == "The tool said: Not on a Sunday."
    assert [result.is_error for result in results(events)] == [True]
    assert failures(events) == []


async def test_a_call_that_a_person_has_allowed_can_still_be_blocked(tmp_path: Path) -> None:
    class Guards(Hooks):
        async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
            return ""  # a refusal without a reason is one too

    ran = 0

    @tool(needs_approval=True)
    async def look() -> str:
        """Look."""
        nonlocal ran
        ran += 1
        return "a cat"

    async with running_agent(tmp_path, calls_then_tells, look, hooks=[Guards()]) as agent:
        asked = await sent(agent, "Look!")
        run_loop_id = asked[0].run_loop_id
        await agent.answer(run_loop_id, approved=True)
        await until(lambda: agent.memory.short_term.states()[0].status == "idle")
        loop = await agent.run_loop(run_loop_id)
    assert ran == 0
    assert "does not allow it" in loop.iterations[0].tool_results[0].content


async def test_a_result_can_be_changed_before_it_is_journaled(tmp_path: Path) -> None:
    class Translates(Hooks):
        async def after_tool_call(
            self, loop: Loop, call: ToolCall, result: ToolResult
        ) -> ToolResult:
            return result.model_copy(update={"content": "一只猫"})

    looks = Looks("read_only")
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=[Translates()]) as agent:
        events = await sent(agent, "Look!")
    assert [result.content for result in results(events)] == ["一只猫"]
    assert answer_of(events) == "The tool said: 一只猫"


async def test_several_hooks_run_in_order_each_on_what_the_one_before_gave(tmp_path: Path) -> None:
    class Adds(Hooks):
        def __init__(self, words: str | None) -> None:
            self.words = words

        async def after_model_call(self, loop: Loop, message: Message) -> Message:
            if self.words is None:
                raise RuntimeError("no words")
            return Message.assistant(message.text + self.words)

    hooks = [Adds(" one"), Adds(None), Adds(" two")]
    async with running_agent(tmp_path, lambda _: "zero", hooks=hooks) as agent:
        events = await sent(agent, "Count!")
    assert answer_of(events) == "zero one two"
    assert failures(events) == [
        "the hook Adds.after_model_call of yours failed: RuntimeError: no words"
    ]


async def test_a_list_that_a_failing_hook_has_spoilt_is_not_what_the_model_is_shown(
    tmp_path: Path,
) -> None:
    class Spoils(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            messages.clear()
            raise RuntimeError("half done")

    async with running_agent(tmp_path, hooks=[Spoils()]) as agent:
        assert answer_of(await sent(agent, "hello")) == "You said: hello"


# --- routing


class Judge(FunctionLLM):
    """Says that every message belongs to the first topic, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(lambda messages: "An answer.")
        self.asked: list[str] = []

    async def stream(
        self, messages: Sequence[Message], *, response_schema: Any = None, **options: Any
    ) -> Any:
        if response_schema is None:
            async for part in super().stream(messages, **options):
                yield part
            return
        self.asked.append(messages[-1].text)
        first = response_schema["properties"]["continues"]["enum"][0]
        self.calls.append(tuple(messages))
        yield TextDelta(f'{{"continues": "{first}"}}')


async def test_the_words_to_route_by_can_be_changed_and_those_that_are_stored_not(
    tmp_path: Path,
) -> None:
    decisions: list[tuple[str, str]] = []

    class Strips(Hooks):
        async def before_routing(self, entry: InboxEntry, words: str) -> str:
            entry.metadata["channel"] = "spoilt"
            return words.removeprefix("[from my phone] ")

        async def after_routing(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
            decisions.append((route.method, run_loop_id))

    judge = Judge()
    async with running_agent(
        tmp_path, judge, hooks=[Strips()], router=RouterOptions(sure_above=1)
    ) as agent:
        first = await sent(agent, "Plan a trip")
        second = await sent(agent, "[from my phone] and a hotel", metadata={"channel": "sms"})
        received = [e.body for e in second if isinstance(e.body, MessageReceived)]
        await until(lambda: len(decisions) == 2)
    assert "Newest message: and a hotel" in judge.asked[-1]
    assert received[0].message.text == "[from my phone] and a hotel"
    assert received[0].metadata == {"channel": "sms"}
    assert decisions == [("fallback", first[0].run_loop_id), ("llm", first[0].run_loop_id)]
