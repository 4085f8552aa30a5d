"""What the launcher gives up before it becomes a program, and that it runs none where it cannot."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.landlock_rules import handled
from service.tools.sandbox.launch_plan import LAUNCHER, Kernel, launcher_command
from service.tools.sandbox.levels import Means
from service.tools.sandbox.syscall_filter import (
    PRETENDED_WITHOUT_NAMESPACES,
    REFUSED,
    REFUSED_WITHOUT_NAMESPACES,
    UNSUPPORTED_WITHOUT_NAMESPACES,
)
from service.tools.sandbox.syscall_numbers import Machine, machine_named, syscall_numbers

KERNEL = Means.here().kernel
MACHINE = machine_named(platform.machine())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KERNEL is None or not KERNEL.abi, reason="the kernel has no Landlock"),
]
CALLING = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
for name, number in json.loads(sys.argv[1]).items():
    ctypes.set_errno(0)
    result = libc.syscall(*map(ctypes.c_long, (number, -1, -1, -1, -1, -1, -1)))
    answers[name] = errno.errorcode.get(ctypes.get_errno(), result)
print(json.dumps(answers))
"""


def launching(*program: str, scratch: Path, namespaces: bool = False, abi: int = 0) -> list[str]:
    """The command that runs a program by the launcher alone."""
    assert KERNEL is not None
    return launcher_command(
        program,
        Kernel(abi or KERNEL.abi, KERNEL.machine),
        confinement=Confinement(),
        code=None,
        scratch=scratch,
        namespaces=namespaces,
    )


def in_python(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", program, *arguments)


def ran(
    command: Sequence[str], folder: Path, pass_fds: Sequence[int] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={},
        pass_fds=pass_fds,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("namespaces", [False, True])
def test_calls_that_are_refused_fail_and_those_that_are_pretended_do_nothing(
    tmp_path: Path, namespaces: bool
) -> None:
    assert MACHINE is not None
    numbers = syscall_numbers(MACHINE)
    refused = {*REFUSED, *(() if namespaces else REFUSED_WITHOUT_NAMESPACES)} & set(numbers)
    expected: dict[str, str | int] = dict.fromkeys(refused, "EPERM")
    if not namespaces:
        expected |= dict.fromkeys(set(PRETENDED_WITHOUT_NAMESPACES) & set(numbers), 0)
        unsupported = set(UNSUPPORTED_WITHOUT_NAMESPACES) & set(numbers)
        expected |= dict.fromkeys(unsupported, "ENOTSUP")
    expected |= {"clone3": "ENOSYS", "a newer one": "ENOSYS"}
    numbers = {**numbers, "a newer one": 470}
    asked = {name: numbers[name] for name in expected}
    program = in_python(CALLING, json.dumps(asked))
    result = ran(launching(*program, scratch=tmp_path, namespaces=namespaces), tmp_path)
    assert json.loads(result.stdout) == expected, result.stderr


@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is a way of x86-64")
def test_another_way_of_numbering_calls_ends_the_program(tmp_path: Path) -> None:
    x32 = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39))"
    command = launching(*in_python(x32), scratch=tmp_path)
    assert ran(command, tmp_path).returncode == -signal.SIGSYS


@pytest.mark.skipif(MACHINE != "x86_64", reason="the older calls are those of x86")
def test_calls_in_the_way_of_an_older_machine_end_the_program(tmp_path: Path) -> None:
    calling = (
        "import ctypes, mmap\n"
        "code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "code.write(bytes.fromhex('b814000000cd80c3'))  # getpid by int 0x80\n"
        "place = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(place)())"
    )
    result = ran(launching(*in_python(calling), scratch=tmp_path), tmp_path)
    assert result.returncode in (-signal.SIGSYS, -signal.SIGSEGV), "the second: there are none"
    assert not result.stdout


def test_descriptors_signals_rights_and_mask_are_those_of_a_fresh_program(tmp_path: Path) -> None:
    looking = (
        "import os, signal\n"
        "for n in range(3, 200):\n"
        "    try: os.fstat(n)\n"
        "    except OSError: continue\n"
        "    print('open', n)\n"
        "os.umask(mask := os.umask(0)); print(oct(mask))\n"
        "import ctypes; libc = ctypes.CDLL(None)\n"
        "header = ctypes.create_string_buffer(b'\\x22\\x05\\x08\\x20', 8)\n"
        "kept = ctypes.create_string_buffer(24)\n"
        "libc.capget(header, kept); print(any(kept.raw), libc.prctl(39, 0, 0, 0, 0))\n"
    )
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        command = launching(*in_python(looking), scratch=tmp_path)
        result = ran(command, tmp_path, pass_fds=(file.fileno(),))
    assert result.stdout == "0o22\nFalse 1\n", result.stderr
    ending = launching("/bin/sh", "-c", "kill -PIPE $$; echo ignored", scratch=tmp_path)
    assert ran(ending, tmp_path).returncode == -signal.SIGPIPE


def test_nothing_runs_where_it_cannot_be_confined(tmp_path: Path) -> None:
    command = launching("/bin/sh", "-c", "echo ran", scratch=tmp_path)
    place = command.index(str(LAUNCHER)) + 1
    plan = json.loads(command[place])
    for wrong in (
        {**plan, "handled": [1 << 60, 0, 0]},
        {**plan, "filters": [""]},
        {**plan, "filters": ["AAAAAAAAAAA="]},
        {},
    ):
        result = ran([*command[:place], json.dumps(wrong), *command[place + 1 :]], tmp_path)
        assert result.returncode == 125
        assert "could not be confined" in result.stderr
        assert "ran" not in result.stdout


def test_rights_are_changed_where_a_program_may_write_and_never_to_run_as_its_user(
    tmp_path: Path,
) -> None:
    scratch, beside = tmp_path / "scratch", tmp_path / "scratch-beside"
    for folder in (scratch, beside):
        folder.mkdir()
        (folder / "file").touch(0o600)
    program = "chmod 755 file; chmod 4755 file; chmod 666 ../scratch-beside/file; echo $?"
    result = ran(launching("/bin/sh", "-c", program, scratch=scratch), scratch)
    assert result.stderr.count("Operation not permitted") == 2
    assert (scratch / "file").stat().st_mode & 0o7777 == 0o755
    assert (beside / "file").stat().st_mode & 0o7777 == 0o600


def test_where_another_answers_calls_already_rights_stay_as_they_are_made(tmp_path: Path) -> None:
    assert KERNEL is not None
    (tmp_path / "file").touch(0o600)
    program = launching("/bin/sh", "-c", "chmod 666 file && echo > made", scratch=tmp_path)
    nested = launcher_command(
        program,
        KERNEL,
        confinement=Confinement(readable=(LAUNCHER.parent, Path("/proc"))),
        code=None,
        scratch=tmp_path,
        namespaces=False,
    )
    result = ran(nested, tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x00not a program")
    odd.chmod(0o755)
    result = ran(launching(str(odd), scratch=tmp_path), tmp_path)
    assert result.returncode == 126
    assert f"{odd} could not be started: Exec format error" in result.stderr


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_numbers_of_calls_are_those_of_the_kernel(machine: Machine, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"there is no {header}")
    defined = re.findall(
        r"^#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", Path(header).read_text(), re.MULTILINE
    )
    of_kernel = {name: int(number) for name, number in reversed(defined)}
    numbers = syscall_numbers(machine)
    compared = numbers.keys() & of_kernel.keys()
    assert len(compared) > 80, "else the header is not read"
    assert {each: numbers[each] for each in compared} == {
        each: of_kernel[each] for each in compared
    }


def test_an_older_landlock_is_asked_for_less() -> None:
    assert handled(1, network=False) == (0x1FFF, 0, 0)
    assert handled(2, network=False) == (0x3FFF, 0, 0)
    assert handled(4, network=False) == (0x7FFF, 3, 0)
    assert handled(7, network=True) == (0xFFFF, 0, 3)


@pytest.mark.parametrize("abi", range(1, 8))
def test_each_version_of_landlock_up_to_the_kernels_own_can_be_used(
    tmp_path: Path, abi: int
) -> None:
    assert KERNEL is not None
    if abi > KERNEL.abi:
        pytest.skip(f"the kernel has Landlock {KERNEL.abi}")
    program = ("/bin/sh", "-c", "echo > inside; cat ../secret; echo ran")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "secret").write_text("secret")
    result = ran(launching(*program, scratch=scratch, abi=abi), scratch)
    assert result.stdout == "ran\n", result.stderr
    assert (scratch / "inside").exists()
