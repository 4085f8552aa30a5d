"""How the package is built: what no type checker sees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "service"


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text())


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def methods(tree: ast.AST) -> set[str]:
    """The names of all methods, but for properties."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {
        each.name
        for node in classes
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("property" in ast.unparse(decorator) for decorator in each.decorator_list)
    }


def callbacks_assigned(tree: ast.Module, method_names: set[str]) -> Iterator[ast.stmt]:
    """Where something callable becomes an attribute of an object that is not one's own."""
    own = {each.name for each in functions(tree)}
    # What a class of this module keeps under a name that is a method's elsewhere.
    data = {
        each.attr
        for each in ast.walk(tree)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    } - methods(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        foreign = [
            each
            for each in targets
            if isinstance(each, ast.Attribute)
            and not (isinstance(each.value, ast.Name) and each.value.id in ("self", "cls"))
        ]
        value = node.value
        is_callable = (
            isinstance(value, ast.Lambda)
            or (isinstance(value, ast.Attribute) and value.attr in method_names - data)
            or (isinstance(value, ast.Name) and value.id in own)
        )
        if foreign and is_callable:
            yield node


@pytest.mark.slow
def test_no_callback_is_assigned_from_outside() -> None:
    """Whoever is to be called is given to the constructor, or reads the change feed."""
    method_names = set[str]().union(*(methods(tree) for _, tree in sources()))
    assignments = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in sources()
        for node in callbacks_assigned(tree, method_names)
    ]
    assert assignments == []


def test_an_assigned_callback_is_noticed() -> None:
    tree = ast.parse("memory.on_rest = router.clear\nself.a = router.clear\nb.c = lambda: None")
    assert [node.lineno for node in callbacks_assigned(tree, {"clear"})] == [1, 3]


TESTS = Path(__file__).parent
PRIVATE = re.compile(r"_[A-Za-z]\w*")
PUBLIC_IN_THE_LIBRARY = {"_replace", "_asdict", "_fields", "_exit"}
"""Of named tuples, and of `os`: the underscore keeps them apart from names of others."""


def private_reach(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Where a private attribute of another object is used, also by its name in a text."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name) if not (
                isinstance(owner, ast.Name) and owner.id in ("self", "cls")
            ):
                pass
            case ast.Call(
                func=ast.Attribute(attr="setattr"),
                args=[ast.Constant(value=str(name)), *_] | [_, ast.Constant(value=str(name)), *_],
            ):
                name = name.rpartition(".")[2]
            case ast.ImportFrom(names=names) if any(PRIVATE.fullmatch(n.name) for n in names):
                yield node
                continue
            case _:
                continue
        if PRIVATE.fullmatch(name) and name not in PUBLIC_IN_THE_LIBRARY:
            yield node


@pytest.mark.slow
def test_no_test_reaches_into_what_is_private() -> None:
    """What a test needs to be different is a parameter of the constructor."""
    accesses = [
        f"{path.relative_to(TESTS.parent)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in private_reach(ast.parse(path.read_text("utf-8")))
    ]
    assert accesses == []


@pytest.mark.parametrize(
    "line",
    [
        "journal._lock.locked()",
        "agent.memory._ledger = 1",
        "from service.x import _PAUSE",
        "monkeypatch.setattr(module, '_PAUSE', 1)",
        "monkeypatch.setattr('service.module._PAUSE', 1)",
    ],
)
def test_reaching_into_what_is_private_is_noticed(line: str) -> None:
    assert len(list(private_reach(ast.parse(line)))) == 1


def test_what_is_one_s_own_or_public_is_nobody_s_concern() -> None:
    tree = ast.parse("self._lock\ncase._replace(a=1)\nmonkeypatch.setattr(Router, 'route', broken)")
    assert list(private_reach(tree)) == []


ASKING_A_MODEL = re.compile(r"(^|\.)(generate|llm\.stream|model\.stream)$")
BY_A_PERSONS_OWN_HAND = {"cli/model_checks.py", "llm/discovery/trial.py"}
"""A few words on trial, by `rondo doctor` and `rondo setup`, outside of the daemon."""


def test_a_model_is_asked_through_an_account_alone() -> None:
    """What goes past it would be under no cap, and might not be counted."""
    calls = {
        (str(path), ast.unparse(node.func))
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ASKING_A_MODEL.search(ast.unparse(node.func))
    }
    through_an_account = {path for path, function in calls if function == "account.generate"}
    assert through_an_account == {
        "agent/consolidation/consolidation_worker.py",
        "loop/executors/call_llm.py",
        "loop/executors/compact.py",
        "routing/llm_judge.py",
    }
    past_it = {path for path, function in calls if function != "account.generate"}
    assert {path for path in past_it - BY_A_PERSONS_OWN_HAND if not path.startswith("bench/")} == {
        "llm/generate.py",
        "llm/spending/accounts.py",
    }
