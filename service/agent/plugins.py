"""Loading custom code by its name in the settings, such as ``my_house.hooks:Audit``.

Modules are looked up as Python does, and then in the folder that the daemon was started in.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConfigurationError
from service.loop.brain import Brain
from service.loop.custom_brain import check_brain
from service.loop.execution import Executor
from service.loop.executors.custom_executors import why_no_executor
from service.loop.hooks.hooks import Hooks

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
    _look_in_the_working_folder()
    try:
        target: object = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{setting}: {reference!r} needs the module {error.name}, which is not there",
            advice=_ADVICE,
        ) from error
    except AttributeError as error:
        raise ConfigurationError(f"{setting}: {reference!r}: {error}", advice=_ADVICE) from error
    except (Exception, SystemExit) as error:
        raise _failed(setting, reference, error) from error
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
