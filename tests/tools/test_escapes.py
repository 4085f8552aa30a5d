"""What a script tries in a sandbox of any level comes to nothing; and succeeds without one.

Each level is forced, whatever is the best that this machine has. Where a level does not cover an
attack, it says so: what succeeds is what it tells, no more and no less.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from service.domain.errors import ConfigurationError
from service.tools.sandbox.levels import (
    NO_SANDBOX,
    NOT_COVERED,
    NOT_COVERED_WITH_NETWORK,
    Level,
    Sandbox,
    sandbox_for,
)
from tests.support.tools.attacks import ATTACKS, EXHAUSTIONS, OF_ROOT
from tests.support.tools.prey import PLENTY, SECRET, Prey, laid_out

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="there are sandboxes on Linux only"),
]
LEVELS = tuple(level for level in get_args(Level) if level != "none")
IS_ROOT = os.getuid() == 0
NOBODY = 65534
ROOT = Path(__file__).parents[2]
WHERE_IT_MATTERS_WHO_ONE_IS = "not (used_up or use_up) or processes or closed"
VERSION = tuple(sys.version_info[:2])
LONG = 30.0
"""For what is stopped within a moment; in seconds."""


@pytest.fixture
def prey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prey]:
    monkeypatch.setenv("RONDO_LLM__API_KEY", SECRET)
    with laid_out(tmp_path) as prey:
        yield prey


@pytest.fixture(params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return sandbox_for(request.param)
    except ConfigurationError as error:
        pytest.skip(error.detail)


def refused_anyway() -> set[str]:
    """The attacks that this machine refuses without any sandbox."""
    refused = set() if IS_ROOT else set(OF_ROOT)
    tracing = Path("/proc/sys/kernel/yama/ptrace_scope")
    if not IS_ROOT and tracing.exists() and tracing.read_text().strip() != "0":
        refused |= {
            *("ptrace", "memory of the daemon", "memory of the daemon by a system call"),
            "a descriptor of the daemon by a system call",
        }
    namespaces = ("unshare", "--user", "--mount", "true")
    if not shutil.which("unshare") or subprocess.run(namespaces, check=False).returncode:
        refused.add("namespaces of its own")
    return refused


async def test_what_gets_out_of_a_sandbox_is_what_it_does_not_cover(
    prey: Prey, sandbox: Sandbox
) -> None:
    escaped, output = await prey.attacked(ATTACKS, sandbox)
    assert escaped == set(NOT_COVERED[sandbox.level]) & set(ATTACKS)
    assert SECRET not in output
    assert "exit code 0" in output


async def test_with_the_network_granted_nothing_else_is(prey: Prey, sandbox: Sandbox) -> None:
    escaped, output = await prey.attacked(ATTACKS, sandbox, network=True)
    left_open = set(NOT_COVERED[sandbox.level]) | set(
        NOT_COVERED_WITH_NETWORK.get(sandbox.level, ())
    )
    assert escaped == (left_open & set(ATTACKS)) | {"network", "network by datagrams"}, output


async def test_each_attack_succeeds_without_a_sandbox(prey: Prey) -> None:
    escaped, output = await prey.attacked(ATTACKS, NO_SANDBOX)
    assert set(ATTACKS) - escaped <= refused_anyway(), output


@pytest.mark.parametrize("attack", EXHAUSTIONS)
async def test_no_sandbox_lets_the_machine_be_used_up(
    prey: Prey, sandbox: Sandbox, attack: str
) -> None:
    is_covered = attack not in NOT_COVERED[sandbox.level]
    escaped, _ = await prey.attacked([attack], sandbox, linger=LONG if is_covered else 0.5)
    assert escaped == (set() if is_covered else {attack})


async def test_what_would_use_up_the_machine_does_without_limits(prey: Prey) -> None:
    escaped, output = await prey.attacked(
        EXHAUSTIONS, NO_SANDBOX, limits=PLENTY, scratch_bytes=sys.maxsize
    )
    assert escaped == set(EXHAUSTIONS), output


BOUNDED_ANYWAY = (
    *("much in one file", "much in all", "memory", "memory that is shared"),
    *("many processes", "many processes that leave the group"),
)


@pytest.mark.parametrize("attack", BOUNDED_ANYWAY)
async def test_no_machine_is_used_up_without_a_sandbox_either(prey: Prey, attack: str) -> None:
    escaped, _ = await prey.attacked([attack], NO_SANDBOX, linger=LONG)
    assert not escaped


async def test_what_a_script_leaves_running_is_gone_with_it(prey: Prey, sandbox: Sandbox) -> None:
    lock = prey.granted / "lock"
    output = await prey.run(
        f"""
import fcntl, os, time
ready, begun = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0: os._exit(0)
    file = open({str(lock)!r}, "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(begun, b"x")
    for descriptor in (0, 1, 2): os.close(descriptor)
    time.sleep(1000)
os.read(ready, 1)
print("begun")
""",
        sandbox,
    )
    assert "begun" in output
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else somebody has it still


@pytest.fixture
def of_nobody() -> Iterator[Path]:
    """A folder of a plain user's, where that user can go."""
    with tempfile.TemporaryDirectory(prefix="rondo-nobody-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@pytest.mark.skipif(not IS_ROOT, reason="all of this is run as a plain user already")
def test_all_of_this_holds_for_a_plain_user_too(of_nobody: Path) -> None:
    packages = sysconfig.get_paths()["purelib"]
    environment = {
        **{"HOME": str(of_nobody), "PATH": os.defpath, "LANG": "C.UTF-8"},
        **{"PYTHONPATH": f"{ROOT}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
    }

    def ran(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (python, *arguments),
            cwd=ROOT,
            env=environment,
            user=NOBODY,
            group=NOBODY,
            extra_groups=(),
            capture_output=True,
            text=True,
            check=False,
        )

    can = f"import sys, pytest, pydantic_core, service; assert sys.version_info[:2] == {VERSION}"
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = ran(python, "-c", can)
        except OSError:
            continue  # in a folder that only root may enter
        if tried.returncode == 0:
            break
    else:
        pytest.skip("no Python here can be run by a plain user with what the tests need")
    of_sandbox = "tests/tools/test_sandbox.py::test_what_is_granted_can_be_used"
    tests = ("tests/tools/test_escapes.py", of_sandbox)
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={of_nobody / 'tests'}"]
    options += ["-k", WHERE_IT_MATTERS_WHO_ONE_IS]
    result = ran(python, "-m", "pytest", *options, *tests)
    assert result.returncode == 0, result.stdout + result.stderr
