"""Where files stand: no circles between files or folders, and names that occur once."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "service"
SHARED_NAMES = {"__init__.py", "__main__.py", "protocol.py"}
"""What may stand in several folders: a protocol is found by its folder's name."""
MOST_LINES = 400


def modules(package: Path) -> dict[str, Path]:
    """All modules below a package by their dotted names; a folder's own is its ``__init__``."""
    paths = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports(tree: ast.Module, module_paths: Mapping[str, Path]) -> Iterator[str]:
    """The modules that another one imports, wherever in it, also for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in module_paths)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in module_paths:
            for each in node.names:
                submodule = f"{node.module}.{each.name}"
                yield submodule if submodule in module_paths else node.module


def imported(package: Path) -> dict[str, set[str]]:
    """What each module imports. The top package's public face names everything, and is left out."""
    module_paths = modules(package)
    return {
        name: set(imports(ast.parse(path.read_text("utf-8")), module_paths)) - {name, package.name}
        for name, path in module_paths.items()
        if name != package.name
    }


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The members of a circle, the first one again at the end; none where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def siblings(graph: Mapping[str, set[str]]) -> dict[str, dict[str, set[str]]]:
    """By folder: which of its files and folders import which others of it."""
    within: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, used in graph.items():
        parts = name.split(".")
        for other in used:
            theirs = other.split(".")
            depth = 0
            while depth < min(len(parts), len(theirs)) and parts[depth] == theirs[depth]:
                depth += 1
            if depth < min(len(parts), len(theirs)):
                within[".".join(parts[:depth])][parts[depth]].add(theirs[depth])
    return within


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle(imported(PACKAGE)) == []


@pytest.mark.slow
def test_no_folders_import_each_other_in_a_circle_at_any_depth() -> None:
    circles = {folder: circle(graph) for folder, graph in siblings(imported(PACKAGE)).items()}
    assert {folder: members for folder, members in circles.items() if members} == {}


def test_a_file_name_occurs_once() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py"))
    assert {name for name, count in names.items() if count > 1} <= SHARED_NAMES


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=["service", "tests"])
def test_no_file_is_long(folder: Path) -> None:
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py")}
    assert {str(path): count for path, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize("below", ["a", "b.c"])
def test_a_circle_is_found(tmp_path: Path, below: str) -> None:
    package = tmp_path / "thing"
    folders = [package, package / "x", package.joinpath("y", *below.split(".")[:-1])]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    (package / "y" / "__init__.py").touch()
    leaf = below.split(".")[-1]
    (package / "x" / "one.py").write_text(f"from thing.y.{below} import A\n")
    (package / "x" / "two.py").touch()
    (folders[2] / f"{leaf}.py").write_text("def late():\n    from thing.x import two\n")
    graph = imported(package)
    assert circle(graph) == []
    assert sorted(set(circle(siblings(graph)["thing"]))) == ["x", "y"]
    (package / "x" / "two.py").write_text(f"import thing.y.{below}\n")
    assert circle(imported(package))
