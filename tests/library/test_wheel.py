"""The wheel, built and installed: `rondo` is whole, whatever else is called `service`."""

from __future__ import annotations

import ast
import configparser
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from service import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = """
import anyio
import service
from rondo import Callbacks, Hooks, AgentOptions, Memory, ScriptedModel, create_agent, tool

assert service.WHOSE == "theirs"


class Upper(Hooks):
    async def after_tool_call(self, loop, call, result):
        return result.model_copy(update={"content": result.content.upper()})


@tool
def weather(city: str) -> str:
    '''The weather in a city.'''
    return f"Sunny in {city}."


async def main():
    llm = ScriptedModel(turns=['call: weather {"city": "Lisbon"}', "text: {result}", "text: Yes."])
    options = AgentOptions(hooks=[Upper()])
    async with create_agent(llm, [weather], Memory("home"), options) as agent:
        print(await agent.ask("The weather?"))
        print(await agent.ask("Should I go to the mountains?"))
        print((await agent.memory.search("sunny")).hits[0].content)


anyio.run(main)
import sys
print([name for name in sys.modules if name.startswith("service.")])
"""
ONE_AND_THE_SAME = """
import service.loop.hooks.hooks
import rondo.loop.hooks.hooks
from rondo import Hooks
from service import Hooks as Same
import service.domain.errors as errors
import pickle, importlib, sys

assert service is rondo
assert service.loop.hooks.hooks is rondo.loop.hooks.hooks
assert Hooks is Same is service.loop.hooks.hooks.Hooks
assert errors is sys.modules["rondo.domain.errors"]
assert errors.__spec__.name == "rondo.domain.errors"
assert errors.RondoError.__module__ == "rondo.domain.errors"
assert pickle.loads(pickle.dumps(errors.Problem(kind="k", title="t"))).title == "t"
assert importlib.util.find_spec("service.nothing") is None
try:
    import service.nothing
except ModuleNotFoundError as error:
    print(error)
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment in which the wheel is installed, and nothing else of this checkout."""

    folder: Path
    wheel: Path

    def run(self, *command: str, **variables: str) -> str:
        """What a program of the environment prints, in a folder of its own."""
        program, *arguments = command
        # The wheel's own dependencies would take minutes to install: they are the tests' own.
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def _output_of(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    _output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    home = folder / "venv"
    venv.create(home, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(home)}))
    # Only this folder's packages: what stands in its own .pth files, as this checkout, is left out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    _output_of(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    return Installed(home, wheel)


def test_the_program_of_somebody_who_has_a_service_package(installed: Installed) -> None:
    theirs = installed.folder / "src" / "service"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text('WHOSE = "theirs"\n')
    path = str(theirs.parent)
    (installed.folder / "program.py").write_text(PROGRAM)
    told = installed.run("python", "program.py", PYTHONPATH=path).splitlines()
    assert told == ["SUNNY IN LISBON.", "Yes.", "SUNNY IN LISBON.", "[]"]
    assert __version__ in installed.run("rondo", "--version", PYTHONPATH=path)
    assert "llm" in installed.run("rondo", "config", PYTHONPATH=path)
    assert "--model" in installed.run(
        *("python", "-m", "rondo.llm.embedded.embedded_server", "--help"), PYTHONPATH=path
    )


def test_both_names_are_the_same_modules(installed: Installed) -> None:
    assert installed.run("python", "-c", ONE_AND_THE_SAME) == "No module named 'service.nothing'\n"
    for name in ("rondo", "service"):
        assert __version__ in installed.run("python", "-m", f"{name}.cli", "--version")


def test_a_checkout_has_the_name_of_the_product_too(tmp_path: Path) -> None:
    build = "import sys, hatchling.build; print(hatchling.build.build_editable(sys.argv[1]))"
    with zipfile.ZipFile(
        tmp_path / _output_of(sys.executable, "-c", build, tmp_path).strip()
    ) as it:
        it.extractall(tmp_path)
    (pth,) = tmp_path.glob("*.pth")
    assert pth.read_text() == str(ROOT)
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    code = "import rondo.domain.errors, service; assert rondo is service; print(rondo.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(ROOT / "service" / "__init__.py"), done.stderr


def test_nothing_in_the_wheel_names_the_modules_of_the_checkout(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        sources = {name: wheel.read(name).decode() for name in names if name.endswith(".py")}
        (points,) = (name for name in names if name.endswith("entry_points.txt"))
        scripts = configparser.ConfigParser()
        scripts.read_string(wheel.read(points).decode())
    assert dict(scripts["console_scripts"]) == {"rondo": "rondo.cli:main"}
    files = (each.relative_to(ROOT / "service") for each in (ROOT / "service").rglob("*"))
    wanted = {f"rondo/{each}" for each in files if each.suffix in (".py", ".json", ".typed")}
    assert wanted <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "rondo",
        "service",
    }
    assert {name for name in names if name.startswith("service/")} == {
        "service/__init__.py",
        "service/py.typed",
    }
    left = {
        (name, found)
        for name, text in sources.items()
        if name.startswith("rondo/")
        for found in _names_of_modules(ast.parse(text))
        if found.partition(".")[0] == "service"
    }
    assert left == set()


def _names_of_modules(tree: ast.Module) -> Iterator[str]:
    """What is imported, and what may be the name of a module in a text that is no sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
