"""Which sandbox this machine has: found out by a trial run, never taken for granted."""

from __future__ import annotations

import dataclasses
import functools
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from service.config_sections import SandboxSetting
from service.domain.errors import ConfigurationError
from service.tools.sandbox import bubblewrap
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.landlock_rules import landlock_abi
from service.tools.sandbox.launch_plan import (
    FORWARDER,
    LAUNCHER,
    Kernel,
    launcher_command,
    temporary_folder,
)
from service.tools.sandbox.syscall_numbers import machine_named

Level = Literal["bubblewrap+landlock", "bubblewrap", "landlock", "none"]
"""The best first. Where there is Landlock, there is a filter of system calls (seccomp), too."""

NOT_COVERED: Mapping[Level, Mapping[str, str]] = {
    "bubblewrap+landlock": {},
    "bubblewrap": {
        "a socket in a granted folder": "it is a file that was granted",
        "a socket in a granted folder, by one of a pair": "it is a file that was granted",
    },
    "landlock": {
        "whether a path is there": "Landlock does not rule over asking for sizes and dates",
        "much in mapped files without a name": "only root can see how large these are",
    },
}
"""What a program can do in spite of a sandbox, and why."""
NOT_COVERED_WITH_NETWORK: Mapping[Level, Mapping[str, str]] = {
    "bubblewrap": {"an abstract socket": "it is one of the network's"},
}
"""The same, where all of the network is granted."""
LEAST_ABI = 6
"""The first Landlock that keeps signals from other processes; alone it is no sandbox without."""

_TRIAL_SECONDS = 20
_CONFINED = "confined"
_TRIAL = f"""
import os, socket, sys
secret, outside, level = sys.argv[1:]
def is_refused(action, *arguments):
    try: action(*arguments)
    except OSError: return True
assert is_refused(open, secret), "it sees the person's files"
is_refused(open, outside, "w")  # where this succeeds, it must be in memory only
open("inside", "w").write("x")
try: names = [name for _, name in socket.if_nameindex()]
except OSError: names = []
assert names in ([], ["lo"]), f"it has a network: {{names}}"
if "landlock" in level:
    assert is_refused(socket.socket), "it can make sockets"
print("{_CONFINED}")
"""
_WITHOUT = "without a sandbox: it can read and change all that you can, and send it anywhere"


@dataclass(frozen=True, slots=True)
class Means:
    """What a machine has to make sandboxes of."""

    bubblewraps: tuple[str, ...] = ()
    """The programs, the best first."""
    kernel: Kernel | None = None
    """What it offers; None where it is not known how to use it."""

    @classmethod
    def here(cls) -> Means:
        """Those of this machine."""
        if not sys.platform.startswith("linux"):
            return cls()
        machine = machine_named(platform.machine())
        kernel = None if machine is None else Kernel(landlock_abi(), machine)
        return cls(tuple(bubblewrap.programs()), kernel)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How programs are run on this machine."""

    level: Level
    program: str = ""
    """Bubblewrap, where it is used."""
    options: tuple[str, ...] = ()
    """For bubblewrap."""
    kernel: Kernel | None = None
    """What confines from within, where that is used."""
    problem: str = ""
    """Why there is no better one."""

    @property
    def warning(self) -> str | None:
        """What a person has to know before they say yes to a run; None where it is confined."""
        return f"It runs {_WITHOUT}." if self.level == "none" else None

    @property
    def not_covered(self) -> Mapping[str, str]:
        """What a program can do in spite of it, and why."""
        return NOT_COVERED.get(self.level, {})

    @property
    def leads_to_proxy(self) -> bool:
        """Whether a program can have a proxy, and no other way to the network."""
        return self.level == "bubblewrap+landlock"

    @property
    def description(self) -> str:
        """What it is made of, in words."""
        parts = [self.program] if self.program else []
        if self.kernel is not None:
            parts += [f"Landlock {self.kernel.abi}"] if self.kernel.abi else []
            parts.append("seccomp")
        return f"{self.level} ({', '.join(parts)})" if parts else self.level

    def command(
        self,
        command: Sequence[str],
        *,
        confinement: Confinement,
        code: Path | None,
        scratch: Path,
        proxy: Path | None = None,
    ) -> list[str]:
        """What to start in place of a command, see `bubblewrap_command` and `launcher_command`.

        Args:
            command: the program, by its whole path, and its arguments.
            confinement: what it may reach.
            code: a folder that it may read, whatever is hidden.
            scratch: a folder that it may change, and starts in.
            proxy: the socket of a proxy that it may ask, where `leads_to_proxy`.
        """
        started = [*command]
        inside = bool(self.program)
        helpers = [LAUNCHER] if self.kernel is not None else []
        if proxy is not None and self.leads_to_proxy:
            helpers += [FORWARDER, proxy]
        if self.kernel is not None:
            started = launcher_command(
                started,
                self.kernel,
                confinement=confinement,
                code=code,
                scratch=scratch,
                namespaces=inside,
                launcher_path=bubblewrap.inside(LAUNCHER) if inside else LAUNCHER,
                proxy=_pair_inside(helpers[1:]),
            )
        if not inside:
            return started
        return bubblewrap.bubblewrap_command(
            self.program,
            self.options,
            started,
            confinement=confinement,
            code=code,
            scratch=scratch,
            helpers=helpers,
        )

    def temporary_folder(self, scratch: Path) -> str | None:
        """What a program should take for temporary files; None for what it takes by itself."""
        if self.level == "none":
            return None
        return temporary_folder(scratch, namespaces=bool(self.program))


def _pair_inside(helpers: Sequence[Path]) -> tuple[Path, Path] | None:
    if not helpers:
        return None
    forwarder, proxy = map(bubblewrap.inside, helpers)
    return forwarder, proxy


NO_SANDBOX = Sandbox("none")


def sandbox_for(setting: SandboxSetting, means: Means | None = None) -> Sandbox:
    """The sandbox that a setting asks for: ``auto`` for the best that there is.

    Runs a trial program, once in the life of this process. Blocks.

    Args:
        setting: which one.
        means: what it can be made of; None for what this machine has.

    Raises:
        ConfigurationError: the one that is asked for by name does not work here.
    """
    if setting == "none":
        return Sandbox("none", problem="tools.sandbox is “none”")
    means = means or Means.here()
    levels: tuple[Level, ...] = get_args(Level)[:-1] if setting == "auto" else (setting,)
    problems: list[str] = []
    for level in levels:
        made = _made(level, means)
        if isinstance(made, Sandbox):
            return dataclasses.replace(made, problem="; ".join(problems))
        problems.append(f"{level}: {made}")
    if setting == "auto":
        return Sandbox("none", problem="; ".join(problems))
    raise ConfigurationError(
        f"tools.sandbox is “{setting}”, which does not work here: {problems[-1]}",
        advice="Install bubblewrap, let users make namespaces (sysctl"
        " kernel.unprivileged_userns_clone, AppArmor), or set tools.sandbox = “auto”: then it is"
        " the best that works here, and without any each run asks you.",
    )


@functools.cache
def _made(level: Level, means: Means) -> Sandbox | str:
    """A sandbox of a level that has shown to work; or why there is none."""
    problem = ""
    for sandbox in _candidates(level, means):
        found = _problem_of(sandbox)
        if found is None:
            return sandbox
        problem = f"{sandbox.program}: {found}" if sandbox.program else found
    return problem or _missing(level, means)


def _candidates(level: Level, means: Means) -> Iterator[Sandbox]:
    if level == "landlock":
        if means.kernel is not None and means.kernel.abi >= LEAST_ABI:
            yield Sandbox(level, kernel=means.kernel)
        return
    kernel = means.kernel if level == "bubblewrap+landlock" else None
    if level == "bubblewrap+landlock" and (kernel is None or not kernel.abi):
        return
    for program in means.bubblewraps:
        # The kernel may be too old to keep a sandbox from making namespaces of its own.
        for options in (("--disable-userns",), ()):
            yield Sandbox(level, program, options, kernel)


def _missing(level: Level, means: Means) -> str:
    if not sys.platform.startswith("linux"):
        return "it is for Linux only"
    if level != "landlock" and not means.bubblewraps:
        return "there is no bubblewrap; install the package of that name"
    if means.kernel is None:
        return f"the system calls of this machine ({platform.machine()}) are not known"
    if not means.kernel.abi:
        return "the kernel has no Landlock, or lets nobody use it"
    return f"Landlock {means.kernel.abi} does not keep signals in; {LEAST_ABI} does (Linux 6.12)"


def _problem_of(sandbox: Sandbox) -> str | None:
    """What goes wrong where a program is run in this sandbox; None where it is confined."""
    with tempfile.TemporaryDirectory(prefix="rondo-sandbox-") as folder:
        secret, outside, scratch = (Path(folder, each) for each in ("secret", "out", "scratch"))
        secret.write_text("x")
        scratch.mkdir()
        trial = (sys.executable, "-I", "-S", "-c", _TRIAL)
        command = sandbox.command(
            (*trial, str(secret), str(outside), sandbox.level),
            confinement=Confinement(),
            code=None,
            scratch=scratch,
        )
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                cwd=scratch,
                env={},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        # A folder in memory is laid over ours: nothing that it wrote may have come out.
        if outside.exists() or (sandbox.program and any(scratch.iterdir())):
            return "it can write outside"
        if ran.stdout.decode("utf-8", "replace").strip() == _CONFINED:
            return None
        return ran.stderr.decode("utf-8", "replace").strip()[-300:] or "it gave nothing back"
