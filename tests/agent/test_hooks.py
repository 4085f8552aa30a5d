"""Hooks: what they may change, and that none of them can break a run loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.agent.hooks import Hooks
from service.agent.loop import Loop
from service.domain.errors import ConfigurationError, StorageError
from service.domain.events import ErrorOccurred, Event, EventBody, MessageReceived, ToolFinished
from service.domain.messages import Message, TextPart, ToolCall, ToolResult
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.domain.stream import TextDelta
from service.memory.inbox import InboxEntry
from service.memory.journal import Commit
from service.tools.decorator import FunctionTool, tool
from tests.agent.support import (
    Answer,
    FunctionLLM,
    answer_of,
    call,
    running_agent,
    sent,
    types,
    until,
)

pytestmark = pytest.mark.anyio

NOTHING: Any = None


def calls_then_tells(messages: Sequence[Message]) -> Answer:
    if messages[-1].role == "tool":
        return f"The tool said: {messages[-1].text}"
    return [call("look")]


class Looks:
    """A tool that notes how often it ran."""

    def __init__(self, effect: str = "side_effects") -> None:
        self.ran = 0

        @tool(effect=effect)  # type: ignore[arg-type]
        async def look() -> str:
            """Look."""
            self.ran += 1
            return "a cat"

        self.tool: FunctionTool = look


def failures(events: Sequence[Event]) -> list[str]:
    """What went wrong with hooks, as the run loop tells it."""
    told = [e.body.problem for e in events if isinstance(e.body, ErrorOccurred)]
    assert all(problem.kind == "hook" for problem in told)
    return [problem.detail for problem in told]


def results(events: Sequence[Event]) -> list[ToolFinished]:
    return [event.body for event in events if isinstance(event.body, ToolFinished)]


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
    tmp_path: Path, effect: str
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
    assert failures(events) == ["Adds.after_model_call: RuntimeError: no words"]


async def test_a_list_that_a_failing_hook_has_spoilt_is_not_what_the_model_is_shown(
    tmp_path: Path,
) -> None:
    class Spoils(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            messages.clear()
            raise RuntimeError("half done")

    async with running_agent(tmp_path, hooks=[Spoils()]) as agent:
        assert answer_of(await sent(agent, "hello")) == "You said: hello"


# --- what goes wrong in them


async def _raises() -> None:
    raise ValueError("太糟糕了")


async def _leaves() -> None:
    raise SystemExit(3)


async def _hangs() -> None:
    await anyio.sleep_forever()


async def _waits_for_something_that_was_cancelled() -> None:
    task = asyncio.ensure_future(asyncio.sleep(30))
    task.cancel()
    await task


async def _gives_nothing() -> None:
    return None


MISHAPS: dict[str, Callable[[], Any]] = {
    "raises": _raises,
    "leaves": _leaves,
    "hangs": _hangs,
    "is cancelled": _waits_for_something_that_was_cancelled,
    "gives the wrong thing": _gives_nothing,
    "is not async": lambda: None,
}


def broken(point: str, mishap: Callable[..., Any]) -> Hooks:
    """Hooks of which one does not work."""

    class Broken(Hooks):
        pass

    async_or_not = lambda self, *arguments: mishap()  # noqa: E731
    async_or_not.__name__ = point
    setattr(Broken, point, async_or_not)
    return Broken()


def impatient(hooks: Hooks) -> dict[str, Any]:
    """Options of an agent that does not wait long for its hooks."""
    return {"hooks": [hooks], "hook_timeout_seconds": 0.05}


@pytest.mark.parametrize("point", ["before_model_call", "after_model_call", "after_tool_call"])
@pytest.mark.parametrize("mishap", MISHAPS)
async def test_a_hook_that_does_not_work_is_reported_once_a_time_and_the_loop_goes_on(
    tmp_path: Path, point: str, mishap: str
) -> None:
    looks = Looks("read_only")
    options = impatient(broken(point, MISHAPS[mishap]))
    async with running_agent(tmp_path, calls_then_tells, looks.tool, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "Look!")
        assert answer_of(events) == "The tool said: a cat"
        assert types(events)[-1] == "run_loop.idle"
        assert len(failures(events)) == (1 if point == "after_tool_call" else 2)
        # It is journaled, for those who look later.
        journaled = await agent.memory.journal.read(run_loop_id=events[0].run_loop_id)
        assert failures(journaled) == failures(events)


@pytest.mark.parametrize("effect", ["side_effects", "read_only"])
@pytest.mark.parametrize("mishap", MISHAPS)
async def test_a_check_that_does_not_work_has_not_allowed_anything(
    tmp_path: Path, mishap: str, effect: str
) -> None:
    async def wrong() -> bool:
        return True  # whatever was meant by it: words or None are asked for

    does = wrong if mishap == "gives the wrong thing" else MISHAPS[mishap]
    looks = Looks(effect)
    options = impatient(broken("before_tool_call", does))
    async with running_agent(tmp_path, calls_then_tells, looks.tool, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "Look!")
    assert looks.ran == 0
    assert [result.is_error for result in results(events)] == [True]
    assert "a check that comes before each tool call failed" in answer_of(events)
    assert len(failures(events)) == 1
    assert types(events)[-1] == "run_loop.idle"


CALL = ToolCall(id="c", name="look")
LONELY = ToolResult(id="nobody", content="?")


@pytest.mark.parametrize(
    ("point", "given"),
    [
        ("before_model_call", []),
        ("before_model_call", [Message.user("hi"), "words"]),
        ("before_model_call", [Message.user("hi"), Message.assistant("", (CALL,))]),
        ("before_model_call", [Message.user("hi"), Message.tool(LONELY)]),
        ("before_model_call", [Message.user("\ud800")]),
        ("after_model_call", Message.user("I am you")),
        ("after_model_call", Message.assistant("")),
        ("after_model_call", Message.assistant("", (CALL, CALL))),
        ("after_model_call", Message.assistant("\ud800")),
        ("after_tool_call", LONELY),
        ("after_tool_call", ToolResult.model_construct(id="c0", content=NOTHING)),
    ],
    ids=str,
)
async def test_what_would_spoil_the_conversation_is_not_taken(
    tmp_path: Path, point: str, given: object
) -> None:
    async def gives() -> object:
        return given

    looks = Looks()
    hooks = [broken(point, gives)]
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=hooks) as agent:
        events = await sent(agent, "Look!")
    assert answer_of(events) == "The tool said: a cat"
    assert failures(events)


async def test_an_over_long_result_of_a_hook_is_kept_to_what_can_be_stored(tmp_path: Path) -> None:
    class Floods(Hooks):
        async def after_tool_call(
            self, loop: Loop, call: ToolCall, result: ToolResult
        ) -> ToolResult:
            return result.model_copy(update={"content": "词" * 3_000_000})

    async with running_agent(tmp_path, calls_then_tells, Looks().tool, hooks=[Floods()]) as agent:
        (result,) = results(await sent(agent, "Look!"))
    assert result.whole is not None
    assert len(result.content) < 30_000 < len(result.whole) < 1_001_000


async def test_cancelling_does_not_wait_for_a_hook(tmp_path: Path) -> None:
    entered = anyio.Event()

    class Sleeps(Hooks):
        async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
            entered.set()
            await anyio.sleep_forever()
            return messages

    async with (
        running_agent(tmp_path, hooks=[Sleeps()]) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(sent, agent, "hello")
        with anyio.fail_after(10):
            await entered.wait()
            loop = await agent.cancel(agent.memory.short_term.states()[0].id)
        assert loop.status == "cancelled"
        assert failures(await agent.memory.journal.read(run_loop_id=loop.id)) == []


async def test_a_failure_that_cannot_be_journaled_breaks_nothing_either(tmp_path: Path) -> None:
    def refuse_errors(agent: Agent) -> None:
        append = agent.memory.journal.append

        async def refusing(run_loop_id: str, *bodies: EventBody, **options: Any) -> Commit:
            if any(isinstance(body, ErrorOccurred) for body in bodies):
                raise StorageError("database or disk is full")
            return await append(run_loop_id, *bodies, **options)

        agent.memory.journal.append = refusing  # type: ignore[method-assign]

    looks = Looks("read_only")
    hooks = [broken("before_tool_call", _raises)]
    async with running_agent(tmp_path, calls_then_tells, looks.tool, hooks=hooks) as agent:
        refuse_errors(agent)
        events = await sent(agent, "Look!")
        assert types(events)[-1] == "run_loop.idle"
        assert (looks.ran, failures(events)) == (0, [])


async def test_a_class_in_the_place_of_its_instance_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not an instance of"):
        async with running_agent(tmp_path, hooks=[Hooks]):
            pass


# --- routing


class Judge(FunctionLLM):
    """Says that every message belongs to the first matter, and keeps what it was asked."""

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
    told: list[tuple[str, str]] = []

    class Strips(Hooks):
        async def before_routing(self, entry: InboxEntry, words: str) -> str:
            entry.metadata["channel"] = "spoilt"
            return words.removeprefix("[from my phone] ")

        async def after_routing(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
            told.append((route.method, run_loop_id))

    judge = Judge()
    async with running_agent(tmp_path, judge, hooks=[Strips()]) as agent:
        first = await sent(agent, "Plan a trip")
        second = await sent(agent, "[from my phone] and a hotel", metadata={"channel": "sms"})
        received = [e.body for e in second if isinstance(e.body, MessageReceived)]
        await until(lambda: len(told) == 2)
    assert "Newest message: and a hotel" in judge.asked[-1]
    assert received[0].message.text == "[from my phone] and a hotel"
    assert received[0].metadata == {"channel": "sms"}
    assert told == [("fallback", first[0].run_loop_id), ("llm", first[0].run_loop_id)]


@pytest.mark.parametrize("mishap", ["raises", "hangs", "gives the wrong thing"])
async def test_a_routing_hook_that_does_not_work_keeps_no_message_from_its_loop(
    tmp_path: Path, mishap: str
) -> None:
    options = impatient(broken("before_routing", MISHAPS[mishap]))
    async with running_agent(tmp_path, **options) as agent:
        with anyio.fail_after(20):
            events = await sent(agent, "hello")
            await sent(agent, "hello again", events[0].run_loop_id)
    assert answer_of(events) == "You said: hello"
    assert len(failures(events)) == 1


async def test_a_hook_that_fails_after_routing_is_told_in_the_loop(tmp_path: Path) -> None:
    async with running_agent(tmp_path, hooks=[broken("after_routing", _raises)]) as agent:
        events = await sent(agent, "hello")
        assert answer_of(events) == "You said: hello"
        run_loop_id = events[0].run_loop_id

        async def told() -> list[str]:
            return failures(await agent.memory.journal.read(run_loop_id=run_loop_id))

        with anyio.fail_after(10):
            while not await told():
                await anyio.sleep(0.01)
        assert await told() == ["Broken.after_routing: ValueError: 太糟糕了"]


# --- archiving


@pytest.mark.parametrize("point", ["before_archiving", "after_archiving"])
@pytest.mark.parametrize("mishap", ["raises", "hangs"])
async def test_an_archiving_hook_that_does_not_work_keeps_nothing_out_of_memory(
    tmp_path: Path, point: str, mishap: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = impatient(broken(point, MISHAPS[mishap]))
    async with running_agent(tmp_path, **options) as agent:
        events = await sent(agent, "The blue bicycle is in the cellar.")
        await agent.complete(events[0].run_loop_id)
        with anyio.fail_after(20):
            await agent.memory.archivist.drain()
        found = await agent.memory.long_term.search("blue bicycle", owner="me", limit=5)
    assert found.hits
    assert f"Broken.{point}" in caplog.text
