"""Which sandbox there is, what can be done in it, and what a person is told where there is none.

What cannot be done in it is in `test_escapes`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from service.agent.agent_factory import agent_from_settings
from service.cli.chat.human_questions import show_request
from service.cli.doctor_checks import check_sandbox
from service.config import LLMSettings, Settings, ToolsSettings
from service.config_sections import SandboxSetting
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConfigurationError
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.launch_plan import Kernel
from service.tools.sandbox.levels import (
    NOT_COVERED,
    NOT_COVERED_WITH_NETWORK,
    Level,
    Means,
    Sandbox,
    sandbox_for,
)
from tests.support.agent.agents import FunctionLLM, call, request_of
from tests.support.tools.prey import Prey, laid_out

FOUND = sandbox_for("auto")
LEVELS = tuple(level for level in get_args(Level) if level != "none")
needs_a_sandbox = pytest.mark.skipif(FOUND.level == "none", reason=FOUND.problem)
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def prey(tmp_path: Path) -> Iterator[Prey]:
    if sys.platform != "linux":
        pytest.skip("there are sandboxes on Linux only")
    with laid_out(tmp_path) as prey:
        yield prey


@pytest.fixture(params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return sandbox_for(request.param)
    except ConfigurationError as error:
        pytest.skip(error.detail)


async def test_what_is_granted_can_be_used(prey: Prey, sandbox: Sandbox) -> None:
    (prey.granted / "数据.txt").write_text("so")
    (prey.folder / "home" / "seen" / "读.txt").write_text("seen")
    output = await prey.run(
        f"""
import os, shutil, socket, subprocess, tempfile, time
granted, seen = {str(prey.granted)!r}, {str(prey.folder / "home" / "seen")!r}
print(open(os.path.join(granted, "数据.txt")).read(), os.environ["HOME"] == os.getcwd())
print(os.listdir(granted) != [], open(os.path.join(seen, "读.txt")).read())
open(os.path.join(granted, "out.txt"), "w").write("written")
os.rename(os.path.join(granted, "out.txt"), os.path.join(granted, "moved.txt"))
os.mkdir("here"); open("here/x", "w").write("x")
shutil.copy2("here/x", granted); os.symlink("x", "here/link"); os.remove("here/link")
with tempfile.TemporaryFile() as file: file.write(b"x")
program = os.path.join(granted, "a program")
for path, folder in (("run.sh", None), (program, None), ("in.sh", os.open("here", os.O_RDONLY))):
    with open(path, "w", opener=lambda *given: os.open(*given, 0o600, dir_fd=folder)) as file:
        file.write("#!/bin/sh\\necho it runs\\n")
    os.chmod(path, 0o755, dir_fd=folder)
    run = path if folder is None else "here/in.sh"
    print(subprocess.run([os.path.abspath(run)], capture_output=True, text=True).stdout)
    print(oct(os.stat(run).st_mode))
with open("here/x") as file: os.fchmod(file.fileno(), 0o640)
print(oct(os.stat("here/x").st_mode), oct(os.umask(0)))
for path, mode in (("gone", 0o600), ("", 0o600)):
    try: os.chmod(path, mode)
    except FileNotFoundError: print("no file to change")
if os.fork() == 0:
    if os.fork() != 0: os._exit(0)
    os.chmod("here", 0o711); os._exit(0)
os.wait()
while os.stat("here").st_mode & 0o777 != 0o711: time.sleep(0.01)
one, other = socket.socketpair(); one.send(b"x"); assert other.recv(1) == b"x"
print(subprocess.run("cat < /dev/null; echo from a shell | cat >&2; cat <(echo substituted)",
      shell=True, executable="/bin/bash", capture_output=True, text=True))
child = subprocess.Popen(["sleep", "1000"]); child.terminate(); print("ended", child.wait())
import ssl, json, sqlite3, asyncio
asyncio.run(asyncio.sleep(0))
""",
        sandbox,
    )
    assert "exit code 0" in output, output
    assert "so True\nTrue seen" in output
    assert "from a shell" in output
    assert "substituted" in output
    assert "ended -15" in output
    assert output.count("it runs") == output.count("0o100755") == 3, output
    assert "0o100640 0o22" in output
    assert output.count("no file to change") == 2
    assert (prey.granted / "moved.txt").read_text() == "written"


@pytest.mark.parametrize("kind", ["readable", "writable"])
async def test_a_place_in_a_writable_folder_is_granted_as_it_stands_there(
    prey: Prey, sandbox: Sandbox, kind: str
) -> None:
    """Else a script could put a link there, and its next run were granted what that leads to."""
    (prey.granted / "inside").symlink_to(prey.folder / "beside")
    (prey.folder / "link").symlink_to(prey.granted)
    places = (prey.granted / "inside", prey.folder / "link" / "inside")
    escaped, output = await prey.attacked(
        ["a file beside"],
        sandbox,
        readable=places if kind == "readable" else (),
        writable=(prey.granted, *(places if kind == "writable" else ())),
    )
    assert not escaped, output


async def test_how_a_program_ended_is_told_as_without_a_sandbox(
    prey: Prey, sandbox: Sandbox
) -> None:
    assert "exit code 3" in await prey.run("raise SystemExit(3)", sandbox)
    killed = await prey.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", sandbox)
    assert "SIGSEGV" in killed or "exit code 139" in killed, "the second is bubblewrap's way"


def test_the_command_of_a_sandbox_holds_no_more_than_is_granted(tmp_path: Path) -> None:
    sandbox = Sandbox("landlock", kernel=Kernel(6, "aarch64"))
    home = tmp_path / "home"
    for each in ("data", "documents", "pictures"):
        (home / each).mkdir(parents=True)
    (home / "link").symlink_to(home / "data")
    confinement = Confinement(readable=(home,), hidden=(home / "data",))
    command = sandbox.command(
        ("/bin/true",), confinement=confinement, code=None, scratch=tmp_path / "scratch"
    )
    paths = [each.partition(":")[2] for each in command if str(tmp_path) in each]
    assert paths == [str(home / "documents"), str(home / "pictures"), str(tmp_path / "scratch")]


def working_levels() -> list[Level]:
    working = []
    for level in LEVELS:
        with contextlib.suppress(ConfigurationError):
            working.append(sandbox_for(level).level)
    return working


NOTHING = Means()
OLD_LANDLOCK = Means(kernel=Kernel(5, "x86_64"))
NO_SANDBOX_AT_ALL = Means(bubblewraps=(sys.executable,))


@pytest.mark.skipif(sys.platform != "linux", reason="there are sandboxes on Linux only")
def test_what_does_not_confine_is_none() -> None:
    for means, problem in (
        (NOTHING, "there is no bubblewrap"),
        (OLD_LANDLOCK, "Landlock 5 does not keep signals in"),
        (NO_SANDBOX_AT_ALL, sys.executable),
    ):
        sandbox = sandbox_for("auto", means)
        assert sandbox.level == "none"
        assert problem in sandbox.problem
        assert "without a sandbox" in str(sandbox.warning)
        for setting in ("bubblewrap+landlock", "bubblewrap", "landlock"):
            with pytest.raises(ConfigurationError, match="does not work here"):
                sandbox_for(setting, means)


def test_why_there_is_no_better_one_is_told() -> None:
    if "landlock" not in working_levels():
        pytest.skip("no Landlock works here")
    sandbox = sandbox_for("auto", Means((sys.executable,), Means.here().kernel))
    assert sandbox.level == "landlock"
    assert f"bubblewrap: {sys.executable}: " in sandbox.problem


@needs_a_sandbox
def test_the_best_level_is_taken_and_each_can_be_forced() -> None:
    assert FOUND.level == working_levels()[0]


def scripts_settings(tmp_path: Path, sandbox: SandboxSetting) -> Settings:
    (tmp_path / "scripts").mkdir(exist_ok=True)
    (tmp_path / "scripts" / "a.sh").write_text("echo hello\n")
    return Settings(
        data_dir=tmp_path,
        tools=ToolsSettings(
            scripts=True,
            sandbox=sandbox,
            approval_for={"run_script": "never"},
        ),
        llm=LLMSettings(provider="embedded"),
    )


def test_a_sandbox_that_silently_is_none_asks_for_each_run(tmp_path: Path) -> None:
    given = ToolCall(id="c", name="run_script", arguments='{"name": "a.sh"}')
    agent = agent_from_settings(scripts_settings(tmp_path, "none"))
    assert agent.options.approval.needs_approval(given, agent.tools, remembered={"run_script"})
    assert agent.options.approval.scope(given, agent.tools) is None, "no yes is remembered"
    tool = agent.tools.get("run_script")
    assert "without a sandbox" in getattr(tool, "warning", "")


async def test_the_question_says_that_there_is_none_and_that_no_yes_is_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls_it = FunctionLLM(lambda messages: [call("run_script", '{"name": "a.sh"}')])
    settings = scripts_settings(tmp_path, "none")
    async with agent_from_settings(settings, llm=calls_it) as agent:
        request = request_of([event async for event in agent.send("Run it.", run_loop_id="new")])
    assert "without a sandbox" in request.warnings[0]
    assert [*request.rules.values()] == [None]
    show_request(request)
    shown = " ".join(capsys.readouterr().err.split())
    assert "without a sandbox" in shown
    assert "no yes to this is remembered" in shown


def test_where_there_is_a_sandbox_the_settings_say_who_is_asked(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    given = ToolCall(id="c", name="run_script", arguments='{"name": "a.sh"}')
    agent = agent_from_settings(scripts_settings(tmp_path, sandbox.level))
    assert not agent.options.approval.needs_approval(given, agent.tools)
    assert getattr(agent.tools.get("run_script"), "warning", "") is None


def test_doctor_tells_the_level_and_what_it_does_not_cover(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    finding = check_sandbox(scripts_settings(tmp_path, sandbox.level))
    assert finding.verdict == "ok"
    assert sandbox.level in finding.words
    for attack in sandbox.not_covered:
        assert attack in finding.words
    assert check_sandbox(scripts_settings(tmp_path, "none")).verdict == "note"


def test_what_a_level_does_not_cover_stands_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z+]+)` \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE))
    assert rows.keys() == set(get_args(Level))
    assert rows["bubblewrap+landlock"] == "nothing of what follows"
    with_network = NOT_COVERED_WITH_NETWORK.items()
    for level, attacks in (*NOT_COVERED.items(), *with_network):
        for words in (each for attack in attacks for each in attack.split(", ")):
            assert words in rows[level]
