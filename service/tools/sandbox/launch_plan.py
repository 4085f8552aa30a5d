"""What the launcher is told: the rules and the filter under which a program is to run."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.tools.sandbox import system_files
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.landlock_rules import DEVICE, READ, WRITE, Rule, around, handled
from service.tools.sandbox.syscall_filter import RIGHTS, Calls, syscall_filter
from service.tools.sandbox.syscall_numbers import Machine, syscall_numbers

# Programs that are run by their paths, and not imported: they are for Linux only.
LAUNCHER = Path(__file__).with_name("launcher.py")
"""The file of the launcher on this machine."""
FORWARDER = Path(__file__).with_name("forwarder.py")
"""The file of the forwarder on this machine."""
PROXY_PORT = 3128
"""At which a proxy is found in a sandbox: what most know as one's, and nobody else is there."""
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_OF_THE_MACHINE = tuple(
    f"/proc/{name}"
    for name in (
        *("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems"),
        *("sys/vm/overcommit_memory", "sys/kernel/osrelease", "sys/kernel/pid_max"),
    )
)
_WRITABLE_IN_NAMESPACES = ("/tmp", "/proc")
_PRIVATE = 0o077


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the kernel offers to a program that wants to confine itself."""

    abi: int
    """The version of Landlock; with 0, for none, nothing can be launched."""
    machine: Machine
    """For the numbers of system calls."""


def launcher_command(
    command: Sequence[str],
    kernel: Kernel,
    *,
    confinement: Confinement,
    code: Path | None,
    scratch: Path,
    namespaces: bool,
    launcher_path: Path = LAUNCHER,
    proxy: tuple[Path, Path] | None = None,
) -> list[str]:
    """What runs a command confined by Landlock and seccomp.

    Args:
        command: the program, by its whole path, and its arguments.
        kernel: what can be used.
        confinement: what it may reach.
        code: a folder that it may read, whatever is hidden.
        scratch: a folder that it may change, and starts in.
        namespaces: whether it has namespaces of its own already, in which only what it may reach is
            there; else Landlock alone has to see to that.
        launcher_path: where the launcher is found.
        proxy: where the forwarder and the socket of a proxy are found, within namespaces; None
            where there is no proxy.
    """
    if namespaces:
        rules = [*_rules_in_namespaces(confinement, scratch)]
    else:
        rules = [*_rules_alone(confinement, code, scratch)]
    network = confinement.network
    rights = handled(kernel.abi, network=network)
    granted = bool(confinement.readable or confinement.writable)
    # Where the person's folders are there, so are the sockets in them; Landlock lets them pass.
    calls = Calls(
        network=network or proxy is not None,
        # And where the network is the machine's, those of it that have a name only.
        unix_sockets=namespaces and not granted and not network and proxy is None,
        namespaces=namespaces,
    )
    filters = [calls] if namespaces else [dataclasses.replace(calls, handed_over=True), calls]
    plan = {
        "handled": rights,
        "filters": [
            base64.b64encode(syscall_filter(each, kernel.machine)).decode() for each in filters
        ],
        "keeper": None if namespaces else _keeper(kernel.machine),
        "port": PROXY_PORT if proxy else None,
        "proxy": [*map(str, proxy)] if proxy else None,
        "processes": confinement.limits.processes,
        "more": not namespaces,
        # Where a file's rights cannot be changed, it is made for the user alone.
        "umask": None if namespaces else _PRIVATE,
    }
    told = [f"{each.rights & rights[0]}:{each.path}" for each in rules]
    return [
        *(sys.executable, "-I", "-S", str(launcher_path), json.dumps(plan), *told, "--"),
        *command,
    ]


def _keeper(machine: Machine) -> tuple[str, str, int]:
    numbers = syscall_numbers(machine)
    calls = {numbers[each]: each for each in RIGHTS if each in numbers}
    return str(Path(__file__).with_name("rights_keeper.py")), json.dumps(calls), numbers["seccomp"]


def _rules_in_namespaces(confinement: Confinement, scratch: Path) -> Iterator[Rule]:
    """Only what is there can be read; what may be changed is told once more."""
    yield Rule(READ, Path("/"))
    yield Rule(WRITE | DEVICE, Path("/dev"))
    for path in (*map(Path, _WRITABLE_IN_NAMESPACES), *confinement.changeable, scratch):
        yield Rule(WRITE, path)


def _rules_alone(confinement: Confinement, code: Path | None, scratch: Path) -> Iterator[Rule]:
    hidden = [each.resolve() for each in confinement.hidden]
    settings = system_files.settings(network=confinement.network)
    system = map(Path, (*system_files.PROGRAMS, *settings, *_OF_THE_MACHINE))
    for path in (*system, *system_files.own_python(), *confinement.read_only):
        yield from around(path, hidden, READ)
    for path in confinement.changeable:
        yield from around(path, hidden, WRITE)
    for name in _DEVICES:
        yield Rule(DEVICE, Path(name))
    if code is not None:
        yield Rule(READ, code.resolve())
    yield Rule(WRITE, scratch.resolve())


def temporary_folder(scratch: Path, *, namespaces: bool) -> str:
    """Where a program may put temporary files; the machine's ``/tmp`` has those of others."""
    return "/tmp" if namespaces else os.fspath(scratch)
