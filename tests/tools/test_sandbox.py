"""What a script tries in its sandbox comes to nothing; and the same succeeds without one.

Each attack writes ``ESCAPED`` when it has got what it wants.
"""

from __future__ import annotations

import os
import socket
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from service.agent.agent_factory import agent_from_settings
from service.cli.chat.human_questions import show_request
from service.config import LLMSettings, Settings, ToolsSettings
from service.config_sections import SandboxSetting
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConfigurationError
from service.tools.builtins.run_script import run_script_tool
from service.tools.sandbox import levels
from service.tools.sandbox.confinement import Confinement, Limits
from service.tools.sandbox.levels import NO_SANDBOX, Sandbox, sandbox_for
from tests.support.agent.agents import FunctionLLM, call, request_of
from tests.support.tools.tool_calls import result_of

FOUND = sandbox_for("auto")
needs_bubblewrap = pytest.mark.skipif(
    FOUND.level != "bubblewrap", reason=f"no bubblewrap works here: {FOUND.problem}"
)
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECRET = "sk-the-token-of-the-daemon"
ATTACKS = {
    "environment": """
        for process in ("self", os.getppid()):
            if SECRET_PART in open(f"/proc/{process}/environ").read():
                print(OUT)
    """,
    "processes": """
        if open(f"/proc/{DAEMON}/cmdline").read() == CMDLINE:
            print(OUT)
    """,
    "signals": """
        os.kill(DAEMON, 0)
        if open(f"/proc/{DAEMON}/cmdline").read() == CMDLINE:
            print(OUT)
    """,
    "memory of the daemon": """
        open(f"/proc/{DAEMON}/mem", "rb").close()
        if open(f"/proc/{DAEMON}/cmdline").read() == CMDLINE:
            print(OUT)
    """,
    "descriptors of the daemon": """
        for name in os.listdir(f"/proc/{DAEMON}/fd"):
            if os.readlink(f"/proc/{DAEMON}/fd/{name}") == TOKEN:
                print(OUT, open(f"/proc/{DAEMON}/fd/{name}").read())
    """,
    "data folder": "print(OUT, open(TOKEN).read())",
    "by a link": """
        os.symlink(TOKEN, "link")
        print(OUT, open("link").read())
    """,
    "by a hard link": """
        os.link(TOKEN, os.path.join(GRANTED, "hard"))
        print(OUT, open(os.path.join(GRANTED, "hard")).read())
    """,
    "a grant around the data folder": "print(OUT, os.listdir(DATA)[0])",
    "writing outside": 'open(OUTSIDE, "w").write("x")',
    "writing in its own code": """
        os.chmod(os.path.dirname(__file__), 0o700)
        open(__file__ + ".more", "w").write("x"); print(OUT)
    """,
    "settings of the kernel": """
        os.close(os.open("/proc/sys/vm/swappiness", os.O_WRONLY)); print(OUT)
    """,
    "anything of the kernel's": """
        for folder, folders, names in os.walk("/proc"):
            folders[:] = [each for each in folders if not each.isdigit() and each != "self"
                          and each != "thread-self"]
            for name in names:
                try: os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
                except OSError: continue
                print(OUT, folder, name)
    """,
    "network": """
        socket.create_connection(("127.0.0.1", PORT), 5); print(OUT)
    """,
    "a socket in the file system": """
        s = socket.socket(socket.AF_UNIX); s.connect(SOCKET); print(OUT)
    """,
    "an abstract socket": """
        s = socket.socket(socket.AF_UNIX); s.connect("\\0" + ABSTRACT); print(OUT)
    """,
    "much in one file": """
        with open(os.path.join(GRANTED, "large"), "wb") as file:
            for _ in range(40): file.write(b"x" * 1_000_000)
        print(OUT)
    """,
    "much in all": """
        for number in range(40): open(str(number), "wb").write(b"x" * 1_000_000)
        print(OUT)
    """,
    "memory": "x = bytearray(900_000_000); print(OUT)",
}
"""By name; what stands in capitals is put before it."""
_KEPT_EVERYWHERE = frozenset(("much in one file", "memory"))
"""What the kernel's limits keep without a sandbox, too."""


@dataclass(frozen=True)
class Prey:
    """What there is to be had, and the script that is to get it."""

    scripts: Path
    granted: Path
    outside: Path
    """A file that is not there."""
    confinement: Confinement
    names: str

    async def attacked(self, text: str, sandbox: Sandbox, **changed: object) -> str:
        code = f"import os, socket, sys\n{self.names}\n{textwrap.dedent(text)}\n"
        (self.scripts / "attack.py").write_text(code)
        confinement = replace(self.confinement, **changed)  # type: ignore[arg-type]
        tool = run_script_tool(self.scripts, sandbox=sandbox, confinement=confinement)
        told = (await result_of(tool, name="attack.py")).content
        return told + ("ESCAPED" if self.outside.exists() else "")


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prey]:
    monkeypatch.setenv("RONDO_LLM__API_KEY", SECRET)
    home = tmp_path / "home"
    data, granted, scripts = home / "data", home / "granted", tmp_path / "scripts"
    for folder in (data, granted, scripts):
        folder.mkdir(parents=True)
    token = data / "token"
    token.write_text(SECRET)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as in_files,
        socket.socket(socket.AF_UNIX) as abstract,
        token.open() as opened,
    ):
        in_files.bind(str(tmp_path / "s"))
        in_files.listen()
        abstract.bind(f"\0rondo-test-{os.getpid()}")
        abstract.listen()
        assert opened.read() == SECRET
        names = {
            "SECRET_PART": SECRET,
            "DAEMON": os.getpid(),
            "CMDLINE": Path("/proc/self/cmdline").read_text(),
            "DATA": str(data),
            "TOKEN": str(token),
            "GRANTED": str(granted),
            "OUTSIDE": str(tmp_path / "outside"),
            "PORT": server.getsockname()[1],
            "SOCKET": str(tmp_path / "s"),
            "ABSTRACT": f"rondo-test-{os.getpid()}",
        }
        yield Prey(
            scripts,
            granted,
            tmp_path / "outside",
            Confinement(
                readable=(home,),
                writable=(granted,),
                hidden=(data,),
                scratch_bytes=10_000_000,
                limits=Limits(memory_bytes=600_000_000, file_bytes=20_000_000),
            ),
            # The word stands nowhere whole: errors quote the line that they come from.
            "\n".join(f"{name} = {value!r}" for name, value in names.items())
            + "\nOUT = 'ESC' + 'APED'",
        )


@needs_bubblewrap
@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_attack_gets_out_of_bubblewrap(prey: Prey, attack: str) -> None:
    told = await prey.attacked(ATTACKS[attack], FOUND)
    assert "ESCAPED" not in told
    assert SECRET not in told


@pytest.mark.parametrize("attack", sorted(set(ATTACKS) - _KEPT_EVERYWHERE))
async def test_each_attack_succeeds_without_a_sandbox(prey: Prey, attack: str) -> None:
    if "kernel" in attack and os.getuid() != 0:
        pytest.skip("only root may change them anyway")
    assert "ESCAPED" in await prey.attacked(ATTACKS[attack], NO_SANDBOX)


@pytest.mark.parametrize("attack", sorted(_KEPT_EVERYWHERE))
async def test_limits_of_the_kernel_hold_without_one_too(prey: Prey, attack: str) -> None:
    assert "ESCAPED" not in await prey.attacked(ATTACKS[attack], NO_SANDBOX)
    generous = Limits(memory_bytes=2_000_000_000, file_bytes=100_000_000)
    assert "ESCAPED" in await prey.attacked(ATTACKS[attack], NO_SANDBOX, limits=generous)


@needs_bubblewrap
async def test_what_is_granted_can_be_used(prey: Prey) -> None:
    (prey.granted / "数据.txt").write_text("so")
    told = await prey.attacked(
        """
        print(open(os.path.join(GRANTED, "数据.txt")).read(), os.environ["HOME"] == os.getcwd())
        open(os.path.join(GRANTED, "out.txt"), "w").write("written")
        open("here", "w").write("x"); open("/tmp/there", "w").write("x")
        print(sorted(os.listdir("/proc/self/fd"))[:3], os.listdir(os.getcwd()))
        import ssl, json, sqlite3
        """,
        FOUND,
    )
    assert "so True" in told
    assert "exit code 0" in told
    assert (prey.granted / "out.txt").read_text() == "written"


@needs_bubblewrap
async def test_the_network_is_there_where_it_is_granted(prey: Prey) -> None:
    assert "ESCAPED" in await prey.attacked(ATTACKS["network"], FOUND, network=True)


@needs_bubblewrap
async def test_what_a_script_leaves_running_is_gone_with_it(prey: Prey) -> None:
    told = await prey.attacked(
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for fd in (0, 1, 2): os.close(fd)
                import time
                for number in range(200):
                    open(os.path.join(GRANTED, "beat"), "w").write(str(number)); time.sleep(0.05)
            os._exit(0)
        import time; time.sleep(0.3)
        """,
        FOUND,
    )
    assert "exit code 0" in told
    beat = (prey.granted / "beat").read_text()
    await anyio.sleep(0.3)
    assert (prey.granted / "beat").read_text() == beat


@needs_bubblewrap
@pytest.mark.skipif(os.getuid() == 0, reason="processes of root are not counted")
async def test_a_fork_bomb_is_bounded(prey: Prey) -> None:
    told = await prey.attacked(
        """
        import time
        count = 0
        try:
            while count < 1000:
                if os.fork() == 0: time.sleep(5); os._exit(0)
                count += 1
        except OSError: pass
        print(OUT if count >= 300 else "held")
        """,
        FOUND,
    )
    assert "held" in told


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


def test_a_sandbox_that_silently_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ToolCall(id="c", name="run_script", arguments='{"name": "a.sh"}')
    agent = agent_from_settings(scripts_settings(tmp_path, "none"))
    assert agent.options.approval.needs_approval(given, agent.tools, remembered={"run_script"})
    assert agent.options.approval.scope(given, agent.tools) is None, "no yes is remembered"
    tool = agent.tools.get("run_script")
    assert "without a sandbox" in getattr(tool, "warning", "")

    monkeypatch.setattr(levels, "programs", lambda: iter(()))
    levels.best_sandbox.cache_clear()
    try:
        agent = agent_from_settings(scripts_settings(tmp_path, "auto"))
        assert agent.options.approval.needs_approval(given, agent.tools)
        with pytest.raises(ConfigurationError, match="does not work here"):
            agent_from_settings(scripts_settings(tmp_path, "bubblewrap"))
        monkeypatch.setattr(levels, "programs", lambda: iter((sys.executable,)))
        levels.best_sandbox.cache_clear()
        assert sandbox_for("auto").level == "none", "a program that confines nothing is none"
    finally:
        levels.best_sandbox.cache_clear()


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


@needs_bubblewrap
def test_where_there_is_a_sandbox_the_settings_say_who_is_asked(tmp_path: Path) -> None:
    given = ToolCall(id="c", name="run_script", arguments='{"name": "a.sh"}')
    agent = agent_from_settings(scripts_settings(tmp_path, "bubblewrap"))
    assert not agent.options.approval.needs_approval(given, agent.tools)
    assert getattr(agent.tools.get("run_script"), "warning", "") is None
