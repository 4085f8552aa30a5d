"""Code of the owner's own: executors in the place of built-in ones, and how both are loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.agent.agent_settings import options_from_settings
from service.agent.plugins import load_executors, load_hooks
from service.config import Settings
from service.domain.conversation.instructions import CallLLM
from service.domain.conversation.messages import Message
from service.domain.errors import ConfigurationError
from service.domain.history.events import IterationStarted, MessageCompleted, RunLoopFailed
from service.loop.execution import Executor, Loop
from service.loop.hooks.hooks import Hooks
from service.memory.memory import Memory
from service.tools.registry import ToolRegistry
from tests.support.agent.agents import FunctionLLM, answer_of, echo, running_agent, sent

HOUSE = """
from service.loop.hooks.hooks import Hooks
from service.domain.history.events import IterationStarted, MessageCompleted
from service.domain.conversation.messages import Message

class Shouts(Hooks):
    async def after_model_call(self, loop, message):
        return Message.assistant(message.text.upper())

class Demands(Hooks):
    def __init__(self, something):
        pass

class Desk:
    async def __call__(self, instruction, loop):
        await answers(instruction, loop)

async def answers(instruction, loop):
    started = IterationStarted(
        index=loop.state.iteration_count, message_ids=instruction.message_ids
    )
    await loop.emit(started)
    await loop.emit(MessageCompleted(message=Message.assistant("No model needed.")))

def in_no_hurry(instruction, loop):
    pass

async def wants_more(instruction, loop, patience):
    pass

shouts, desk, number = Shouts(), Desk(), 4
"""


@pytest.fixture(autouse=True)
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with modules of the owner's own in it."""
    (tmp_path / "my_house.py").write_text(HOUSE)
    (tmp_path / "broken_house.py").write_text("import nothing_of_that_name")
    (tmp_path / "burning_house.py").write_text("raise SystemExit('fire')")
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.endswith("_house"):
            del sys.modules[name]


def says(words: str) -> Executor:
    async def call_llm(instruction: CallLLM, loop: Loop) -> None:
        index = loop.state.iteration_count
        await loop.emit(IterationStarted(index=index, message_ids=instruction.message_ids))
        await loop.emit(MessageCompleted(message=Message.assistant(words)))

    return call_llm


# --- executors


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("own", "configured", "said"),
    [
        ("agent", "configuration", "agent"),
        (None, "configuration", "configuration"),
        ("agent", None, "agent"),
        (None, None, "You said: hello"),
    ],
)
async def test_the_agents_own_executor_goes_before_the_configurations_before_the_built_in(
    tmp_path: Path, own: str | None, configured: str | None, said: str
) -> None:
    agent = create_agent(
        FunctionLLM(echo),
        ToolRegistry(),
        Memory(tmp_path / "data", None),
        AgentOptions(executors={"call_llm": says(configured)} if configured else {}),
        executors={"call_llm": says(own)} if own else None,
    )
    async with agent:
        assert answer_of(await sent(agent, "hello")) == said


@pytest.mark.anyio
async def test_an_executor_that_does_nothing_ends_its_loop_in_words_and_stops_no_other(
    tmp_path: Path,
) -> None:
    async def nothing(instruction: Any, loop: Loop) -> None:
        pass

    async with running_agent(tmp_path / "data", executors={"call_llm": nothing}) as agent:
        for _ in range(2):
            failed = (await sent(agent, "hello"))[-1].body
            assert isinstance(failed, RunLoopFailed)
            assert failed.problem.kind == "own-code"
            assert "for call_llm, came back without an event" in failed.problem.detail


# --- loading


@pytest.mark.anyio
async def test_settings_name_hooks_and_executors_in_the_working_folder(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "agent": {
                "hooks": ["my_house:Shouts"],
                "executors": {"call_llm": "my_house:answers"},
                "hook_timeout_seconds": 7,
            }
        }
    )
    options = options_from_settings(settings)
    assert options.hook_timeout_seconds == 7
    assert [type(each).__name__ for each in options.hooks] == ["Shouts"]
    memory = Memory(tmp_path / "data", None)
    agent: Agent
    async with create_agent(FunctionLLM(echo), ToolRegistry(), memory, options) as agent:
        assert answer_of(await sent(agent, "hello")) == "No model needed."


def test_a_hook_may_be_a_class_or_an_instance() -> None:
    of_class, instance = load_hooks(["my_house:Shouts", "my_house:shouts"])
    assert isinstance(of_class, Hooks)
    assert isinstance(instance, Hooks)


def test_an_object_with_an_async_call_is_an_executor_too() -> None:
    assert set(load_executors({"call_llm": "my_house:desk"})) == {"call_llm"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("my_house", "is not a name of code"),
        ("my_house:", "is not a name of code"),
        (":shouts", "is not a name of code"),
        ("no_house:shouts", "needs the module no_house, which is not there"),
        ("broken_house:x", "needs the module nothing_of_that_name, which is not there"),
        ("burning_house:x", "SystemExit: fire"),
        ("my_house:whispers", "has no attribute 'whispers'"),
        ("my_house:Demands", "missing 1 required positional argument"),
        ("my_house:number", "is of the type int"),
        ("my_house:Desk", "is the class Desk"),
        ("..:x", "cannot be loaded"),
    ],
)
def test_hooks_that_cannot_be_loaded_are_told_in_words(reference: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_hooks([reference])
    assert "agent.hooks" in raised.value.detail
    assert words in raised.value.detail
    assert raised.value.advice


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("my_house:nobody", "has no attribute 'nobody'"),
        ("my_house:in_no_hurry", "not an async function"),
        ("my_house:Desk", "is the class Desk, not an async function"),
        ("my_house:number", "not an async function"),
        ("my_house:wants_more", "missing a required argument: 'patience'"),
    ],
)
def test_executors_that_cannot_be_loaded_are_told_in_words(reference: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_executors({"call_llm": reference})
    assert "agent.executors.call_llm" in raised.value.detail
    assert words in raised.value.detail


def test_a_budget_in_money_without_prices_is_refused_in_words() -> None:
    settings = Settings.model_validate({"agent": {"budget_cost": 1}})
    with pytest.raises(ConfigurationError, match=r"llm\.prices are not"):
        options_from_settings(settings)
