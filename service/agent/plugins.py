"""Loading custom code by its name in the settings, such as ``my_house.hooks:Audit``.

Modules are looked up as Python does, and then in the folder that the daemon was started in.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, cast

from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConfigurationError
from service.loop.brain import Brain
from service.loop.custom_brain import check_brain
from service.loop.execution import Executor
from service.loop.executors.custom_executors import why_no_executor
from service.loop.hooks.hooks import Hooks
from service.tools.decorator import FunctionTool
from service.tools.protocol import Tool

ENTRY_POINTS = "rondo.tools"
"""The group of entry points by which an installed package adds tools."""
_ADVICE = (
    "Write package.module:name. The module must be installed, or lie in the folder that the daemon"
    " is started in."
)


def load_hooks(references: Sequence[str]) -> tuple[Hooks, ...]:
    """The hooks of ``agent.hooks``. A class is called without arguments.

    Raises:
        ConfigurationError: one cannot be loaded, or is no `Hooks`.
    """
    return tuple(_hooks(each) for each in references)


def load_executors(references: Mapping[InstructionKind, str]) -> dict[InstructionKind, Executor]:
    """The executors of ``agent.executors``.

    Raises:
        ConfigurationError: one cannot be loaded, or cannot be called as an executor is.
    """
    return {kind: _executor(kind, reference) for kind, reference in references.items()}


def load_brain(reference: str) -> Brain | None:
    """The brain of ``agent.brain``; None where there is none. A class is called without arguments.

    Raises:
        ConfigurationError: it cannot be loaded, or is no brain.
    """
    if not reference:
        return None
    setting = "agent.brain"
    brain = load(reference, setting=setting)
    if isinstance(brain, type):
        brain = _made(setting, reference, brain)
    try:
        check_brain(brain)
    except ConfigurationError as error:
        raise ConfigurationError(f"{setting}: {error.detail}", advice=error.advice) from error
    return cast(Brain, brain)


def load(reference: str, *, setting: str) -> object:
    """What a name in the settings stands for.

    Raises:
        ConfigurationError: there is no such thing, or its module fails.
    """
    module_name, colon, name = reference.partition(":")
    if not (module_name.strip() and colon and name.strip()):
        raise ConfigurationError(f"{setting}: {reference!r} is not a name of code", advice=_ADVICE)
    return _named(_imported(module_name, reference, setting), name, reference, setting)


class OwnTools(NamedTuple):
    """Tools of one's own, and those that cannot be had."""

    tools: tuple[tuple[str, Tool | Callable[..., object]], ...]
    """Each with the setting that names it."""
    unavailable: Mapping[str, str]
    """By what names them: why their module cannot be loaded, and what to do."""


def load_tools(references: Sequence[str], *, entry_points: bool = True) -> OwnTools:
    """The tools of ``tools.modules``, and of installed packages.

    A module that cannot be imported does not end the start: its tools are not there. What it
    defines wrongly does.

    Args:
        references: ``package.module:name`` of a tool, a typed function, or a list of such; or
            ``package.module`` for all that are made with `tool` there.
        entry_points: whether installed packages add to them by the group `ENTRY_POINTS`.

    Raises:
        ConfigurationError: there is nothing of that name, or it is no tool and cannot become one.
    """
    named = [("tools.modules", reference) for reference in references]
    if entry_points:
        named += [
            (f"the entry point {each.name}", each.value)
            for each in sorted(
                metadata.entry_points(group=ENTRY_POINTS), key=lambda each: each.name
            )
        ]
    tools: list[tuple[str, Tool | Callable[..., object]]] = []
    unavailable: dict[str, str] = {}
    for setting, reference in named:
        module_name, _, name = reference.replace(" ", "").partition(":")
        if not module_name:
            raise ConfigurationError(f"{setting}: {reference!r} is no name of code", advice=_ADVICE)
        try:
            module = _imported(module_name, reference, setting)
        except ConfigurationError as error:
            if isinstance(error.__cause__, ConfigurationError):
                raise  # a tool there is not right, and says what is wrong
            unavailable[reference] = f"{error.detail}. {error.advice}"
            continue
        given = _named(module, name, reference, setting) if name else _made_there(module)
        several = given if isinstance(given, list | tuple) else [given]
        if not several:
            raise ConfigurationError(
                f"{setting}: {reference!r} holds no tool",
                advice="Put `@tool()` over a function there, or name one: package.module:name.",
            )
        tools += [(f"{setting}: {reference!r}", cast(Tool, each)) for each in several]
    return OwnTools(tuple(tools), unavailable)


def _made_there(module: object) -> list[FunctionTool]:
    return [each for each in vars(module).values() if isinstance(each, FunctionTool)]


def _imported(module_name: str, reference: str, setting: str) -> object:
    _look_in_the_working_folder()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting}: {reference!r} needs the module {error.name}, which is not there",
            advice=_ADVICE,
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(setting, reference, error) from error


def _named(target: object, name: str, reference: str, setting: str) -> object:
    try:
        for part in name.split("."):
            target = getattr(target, part)
    except Exception as error:
        raise ConfigurationError(f"{setting}: {reference!r}: {error}", advice=_ADVICE) from error
    return target


def _hooks(reference: str) -> Hooks:
    setting = "agent.hooks"
    hooks = load(reference, setting=setting)
    if isinstance(hooks, type) and issubclass(hooks, Hooks):
        hooks = _made(setting, reference, hooks)
    if not isinstance(hooks, Hooks):
        raise ConfigurationError(
            f"{setting}: {reference!r} is {_kind(hooks)}",
            advice="Name a class derived from service.Hooks, or an instance of one.",
        )
    return hooks


def _made(setting: str, reference: str, cls: type[object]) -> object:
    try:
        return cls()
    except (Exception, SystemExit) as error:
        raise _failed(setting, reference, error) from error


def _executor(kind: InstructionKind, reference: str) -> Executor:
    setting = f"agent.executors.{kind}"
    executor = load(reference, setting=setting)
    if (wrong := why_no_executor(executor)) is not None:
        raise ConfigurationError(
            f"{setting}: {reference!r} {wrong}",
            advice="Name an `async def executor(instruction, loop)`.",
        )
    return cast(Executor, executor)


def _look_in_the_working_folder() -> None:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: nothing there can stand in for what is installed
    importlib.invalidate_caches()


def _failed(setting: str, reference: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"{setting}: {reference!r} cannot be loaded: {type(error).__name__}: {error}",
        advice="Correct the module, or take it out of the setting.",
    )


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"of the type {type(value).__name__}"
