from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading

import anyio
import pytest

from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConfigurationError, NotFoundError
from service.domain.run_loops import RunLoop
from service.tools.builtins.read_result import read_result_tool
from service.tools.decorator import tool
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry
from tests.support.tools.tool_calls import CONTEXT, call_of, execute_all, registry_of, result_of

pytestmark = pytest.mark.anyio


@tool(effect="read_only")
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(timeout_seconds=0.05)
async def hang() -> None:
    """Never end."""
    await anyio.sleep_forever()


class OddError(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def context_of(call: ToolCall) -> ToolContext:
    return ToolContext(owner="me", run_loop_id="loop", idempotency_key=call.id)


async def no_run_loops(run_loop_id: str) -> RunLoop | None:
    return None


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="`echo`"):
        registry_of(echo, echo)


async def test_a_plain_typed_function_is_registered_and_given_back_as_a_tool() -> None:
    registry = ToolRegistry()

    @registry.register
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    async def say(words: str, context: ToolContext) -> str:
        """Say words."""
        return f"{context.owner}: {words}"

    assert registry.get("double") is double
    assert registry.register(say) is registry.get("say")
    assert registry.register(echo) is echo
    assert double.definition.parameters["properties"] == {"number": {"type": "integer"}}
    assert double.effect == "side_effects"  # as with `@tool()`: nothing is run twice unasked
    result = await registry.execute(call_of("double", number=21), CONTEXT)
    assert (result.content, result.is_error) == ("42", False)
    said = await registry.execute(call_of("say", words="你好"), CONTEXT)
    assert said.content == "me: 你好"


def test_what_cannot_become_a_tool_is_refused_with_what_to_do() -> None:
    def no_types(number) -> None:  # type: ignore[no-untyped-def]
        """Has no type."""

    def no_docstring(number: int) -> None: ...

    class NotQuite:
        definition = echo.definition

    registry = ToolRegistry()
    for refused, words in (
        (no_types, "`number` has no annotation"),
        (no_docstring, "does not say what it is for"),
        (lambda number: number, "cannot be the name of a tool"),
        (NotQuite(), "lacks `effect`, `needs_approval`, `timeout_seconds` and `run`"),
        ("echo", "'echo' is neither a tool nor a function"),
        (tool, "cannot become a tool"),
    ):
        with pytest.raises(ConfigurationError) as error:
            registry.register(refused)  # type: ignore[arg-type]
        assert words in error.value.detail
        assert error.value.advice
    assert registry.names == ()


def test_an_unknown_effect_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'readonly'.*`effect`") as error:
        tool(effect="readonly")(len)  # type: ignore[call-overload]
    assert "Did you mean `read_only`?" in error.value.advice
    odd = dataclasses.replace(echo, effect="harmless")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'harmless'") as error:
        registry_of(odd)
    for effect in ("read_only", "idempotent", "side_effects"):
        assert effect in error.value.advice


def test_tools_are_found_and_listed_in_the_order_of_registration() -> None:
    registry = registry_of(hang, echo)
    assert registry.names == ("hang", "echo")
    assert [definition.name for definition in registry.definitions()] == ["hang", "echo"]
    assert registry.get("echo") is echo
    assert registry.get("other") is None


async def test_a_result_bears_the_id_of_its_call() -> None:
    result = await registry_of(echo).execute(call_of("echo", "c7", text="你好"), CONTEXT)
    assert (result.id, result.content, result.is_error) == ("c7", "你好", False)


async def test_an_unknown_tool_is_answered_with_those_that_are_known() -> None:
    result = await registry_of(echo, hang).execute(call_of("ecko"), CONTEXT)
    assert result.is_error
    assert "Did you mean `echo`?" in result.content
    assert "echo, hang" in result.content


async def test_without_any_tool_an_unknown_one_is_still_answered() -> None:
    assert (await ToolRegistry().execute(call_of("\ud800"), CONTEXT)).is_error


async def test_a_tool_that_hangs_is_given_up_with_words_on_what_may_have_happened() -> None:
    result = await result_of(hang)
    assert result.is_error
    assert "0.05 seconds" in result.content
    assert "may have done part of its work" in result.content


async def test_a_tool_that_blocks_its_thread_is_given_up_too() -> None:
    released = threading.Event()

    @tool(effect="read_only", timeout_seconds=0.05)
    def block() -> None:
        """Block."""
        released.wait()

    try:
        result = await result_of(block)
    finally:
        released.set()
    assert result.is_error
    assert "0.05 seconds" in result.content


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ToolFailure("Use another word."), "Use another word."),
        (ToolFailure(), "without saying why"),
        (ValueError("坏了"), "`fail` failed with ValueError: 坏了"),
        (ValueError(), "`fail` failed with ValueError."),
        (NotFoundError("No such anchor.", advice="Search first."), "Search first."),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "`fail` failed with GeneratorExit."),
        (StopIteration(), "`fail` failed"),
        (StopAsyncIteration(), "`fail` failed"),
        (OddError(), "message cannot be read"),
        (ValueError("\ud800"), "\ufffd"),
        (BaseExceptionGroup("two", [SystemExit(1), ValueError("x")]), "BaseExceptionGroup"),
        (asyncio.CancelledError(), "broke off"),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_a_tool_raises_becomes_a_result(
    error: BaseException, words: str, threaded: bool
) -> None:
    @tool(name="fail")
    def in_thread() -> None:
        """Fail."""
        raise error

    @tool(name="fail")
    async def in_loop() -> None:
        """Fail."""
        raise error

    result = await result_of(in_thread if threaded else in_loop)
    assert result.is_error
    assert words in result.content


async def test_a_tool_that_leaves_the_process_in_a_task_of_its_own_does_not_end_the_daemon() -> (
    None
):
    @tool()
    async def leave() -> None:
        """Leave."""
        async with anyio.create_task_group() as group:
            group.start_soon(_wait_then_never)
            raise SystemExit(1)

    assert (await result_of(leave)).is_error


async def _wait_then_never() -> None:
    await anyio.sleep_forever()


async def test_a_huge_output_is_kept_whole_and_shown_cut_with_how_to_get_the_rest() -> None:
    long = "始" + "中" * 100_000 + "末"
    registry = registry_of(echo)
    result = await registry.execute(call_of("echo", text=long), CONTEXT)
    assert result.content == long
    shown = registry.shown(result)
    assert len(shown) < 20_500
    assert shown.startswith("始中")
    assert shown.endswith("中末")
    assert "80,002 of 100,002 characters were cut out" in shown
    assert "call again" in shown


async def test_where_the_rest_can_be_read_the_notice_says_how() -> None:
    registry = registry_of(echo, read_result_tool(no_run_loops))
    result = await registry.execute(call_of("echo", "c7", text="x" * 30_000), CONTEXT)
    shown = registry.shown(result)
    assert '`read_result` with the call_id "c7"' in shown
    assert "from character 15,000 on" in shown


async def test_more_than_a_million_characters_are_not_kept() -> None:
    result = await result_of(echo, text="x" * 1_200_000)
    assert len(result.content) < 1_001_000
    assert "200,000 of 1,200,000 characters were cut out" in result.content


async def test_an_output_within_the_limit_stays_as_it_is() -> None:
    registry = registry_of(echo)
    result = await registry.execute(call_of("echo", text="x" * 20_000), CONTEXT)
    assert registry.shown(result) == "x" * 20_000


async def test_calls_run_side_by_side_and_their_results_keep_the_order_of_the_calls() -> None:
    second_ran = anyio.Event()

    @tool()
    async def first() -> str:
        """Wait for the other one."""
        await second_ran.wait()
        return "first"

    @tool()
    async def second() -> str:
        """Let the other one go on."""
        second_ran.set()
        return "second"

    registry = registry_of(first, second)
    calls = [call_of("first", "a"), call_of("second", "b"), call_of("third", "c")]
    results = await execute_all(registry, calls, context_of)
    assert [result.id for result in results] == ["a", "b", "c"]
    assert [result.is_error for result in results] == [False, False, True]


async def test_two_calls_with_one_id_have_a_result_each() -> None:
    calls = [call_of("echo", text="one"), call_of("echo", text="two")]
    results = await execute_all(registry_of(echo), calls, context_of)
    assert [result.content for result in results] == ["one", "two"]


async def test_each_call_has_its_own_context() -> None:
    @tool()
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        return context.idempotency_key

    calls = [call_of("key", "a"), call_of("key", "b")]
    results = await execute_all(registry_of(key), calls, context_of)
    assert [result.content for result in results] == ["a", "b"]


class Lingering:
    """A tool that takes a moment to stop, and notes when it has."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.stopped = False

        @tool(timeout_seconds=60)
        async def linger() -> None:
            """Linger."""
            self.started.set()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.02)
                self.stopped = True

        self.tool = linger


async def test_cancelling_passes_through_once_the_work_has_stopped() -> None:
    lingering = Lingering()
    registry = registry_of(lingering.tool)
    ended_by_itself = False
    async with anyio.create_task_group() as group:

        async def run() -> None:
            nonlocal ended_by_itself
            await execute_all(registry, [call_of("linger")], context_of)
            ended_by_itself = True

        group.start_soon(run)
        await lingering.started.wait()
        group.cancel_scope.cancel()
    assert lingering.stopped
    assert not ended_by_itself


async def test_cancelling_a_task_of_asyncio_passes_through_too() -> None:
    lingering = Lingering()
    task = asyncio.create_task(registry_of(lingering.tool).execute(call_of("linger"), CONTEXT))
    await lingering.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lingering.stopped


async def test_the_limit_of_time_around_all_calls_is_the_callers() -> None:
    lingering = Lingering()
    with anyio.move_on_after(0.05) as scope:
        await execute_all(registry_of(lingering.tool), [call_of("linger")], context_of)
    assert scope.cancelled_caught
    assert lingering.stopped


async def test_a_call_that_is_closed_from_outside_ends_without_a_result() -> None:
    stopped: list[str] = []

    @tool()
    async def wait() -> None:
        """Wait."""
        try:
            await asyncio.sleep(60)
        except GeneratorExit:
            stopped.append("closed")
            raise

    work = registry_of(wait).execute(call_of("wait"), CONTEXT)

    async def begin() -> None:
        work.send(None)

    await asyncio.create_task(begin())
    work.close()  # a coroutine that gave a result, or waited, would not be closed by this
    assert stopped == ["closed"]
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
