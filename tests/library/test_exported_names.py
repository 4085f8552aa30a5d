"""What `service` exports: lazily, the same for type checkers, and whole."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import subprocess
import sys
import typing
from pathlib import Path
from types import FunctionType

import httpx2
import pytest

import service

ROOT = Path(service.__file__).parent
HEAVY = ("chromadb", "openai", "anthropic", "torch", "numpy", "pydantic", "anyio", "fastapi")
NOT_PROMISED = {  # see docs/library.md
    "Agent.__init__",
    "Agent.engine",
    "Agent.recalibration",
    "Agent.schedules",
    "Loop.early_calls",
    "Memory.append_imports",
    "Memory.finished_run_loops",
    "Reader.__init__",
    "Script.__init__",
    "ScriptedModel.__init__",
    "ToolRegistry.asking",
}


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_after("import service")
    assert loaded.isdisjoint(HEAVY)
    assert {each for each in loaded if each.startswith("service.")} == set()


@pytest.mark.slow
def test_a_name_loads_only_what_it_needs() -> None:
    loaded = loaded_after("from service import RondoError, Message")
    assert loaded.isdisjoint({"service.agent", "service.memory", "numpy", "anyio"})
    loaded = loaded_after("from service import OpenAIModel, create_agent, Memory, tool")
    assert loaded.isdisjoint({"chromadb", "openai", "torch", "sentence_transformers", "fastapi"})


def test_type_checkers_are_told_the_same_names() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (seen,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.name: node.module
        for node in seen.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    loaded = {name: module for module, names in service.NAMES_IN.items() for name in names.split()}
    assert told == loaded
    assert set(service.__all__) == {"__version__", *loaded}
    assert len(service.__all__) == len(set(service.__all__))
    assert (ROOT / "py.typed").is_file()


def test_every_name_is_there_and_no_other() -> None:
    for name in service.__all__:
        assert getattr(service, name) is not None
    assert set(service.__all__) <= set(dir(service))
    with pytest.raises(AttributeError, match="'service' has no attribute 'Agents'"):
        _ = service.Agents
    with pytest.raises(ImportError):
        exec("from service import Agents")


def test_all_that_is_exported_says_what_it_is() -> None:
    for name in service.__all__:
        found = getattr(service, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert inspect.getdoc(found), name


def test_what_exported_functions_take_and_give_is_exported_too() -> None:
    exported = [getattr(service, name) for name in service.__all__]
    lacking = {
        f"{where}: {found.__name__}"
        for name in service.__all__
        for where, found in _named_by(name, getattr(service, name))
        if found not in exported and not found.__name__.startswith("_")
    }
    assert lacking == set()


def _named_by(name: str, found: object) -> collections.abc.Iterator[tuple[str, type]]:
    """The classes of the package that the parameters, results and fields of something name."""
    if inspect.isfunction(found):
        yield from _in_hints(name, found)
    if not inspect.isclass(found):
        return
    if f"{name}.__init__" not in NOT_PROMISED:
        yield from _in_hints(name, found)
    for member, value in inspect.getmembers(found):
        function = value.fget if isinstance(value, property) else inspect.unwrap(value)
        function = getattr(function, "__func__", function)
        where = f"{name}.{member}"
        if not isinstance(function, FunctionType) or where in NOT_PROMISED:
            continue
        if not function.__module__.startswith("service"):
            continue
        if not member.startswith("_") or member == "__init__":
            yield from _in_hints(where, function)


def _in_hints(where: str, found: object) -> collections.abc.Iterator[tuple[str, type]]:
    names = {"httpx2": httpx2}  # imported for type checkers only
    for hinted, hint in typing.get_type_hints(found, localns=names).items():
        if not hinted.startswith("_"):
            yield from ((where, each) for each in _classes(hint))


def _classes(hint: object) -> collections.abc.Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("service"):
        yield hint
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from _classes(part)
