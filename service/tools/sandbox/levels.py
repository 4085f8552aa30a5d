"""Which sandbox this machine has: found out by a trial run, never taken for granted."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from service.config_sections import SandboxSetting
from service.domain.errors import ConfigurationError
from service.tools.sandbox.bubblewrap import bubblewrap_command, programs
from service.tools.sandbox.confinement import Confinement

Level = Literal["bubblewrap", "none"]

_TRIAL_SECONDS = 20
_CONFINED = "confined"
_TRIAL = f"""
import os, socket, sys
secret, outside = sys.argv[1:]
assert not os.path.exists(secret), "it sees the person's files"
try:
    open(outside, "w").close()
except OSError:
    pass  # where this succeeds, it must be in memory only
open("inside", "w").write("x")
names = [name for _, name in socket.if_nameindex()]
assert names in ([], ["lo"]), f"it has a network: {{names}}"
print("{_CONFINED}")
"""
_WITHOUT = "without a sandbox: it can read and change all that you can, and send it anywhere"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How programs are run on this machine."""

    level: Level
    program: str = ""
    options: tuple[str, ...] = ()
    problem: str = ""
    """Why there is no better one."""

    @property
    def warning(self) -> str | None:
        """What a person has to know before they say yes to a run; None where it is confined."""
        return f"It runs {_WITHOUT}." if self.level == "none" else None

    def command(
        self,
        command: Sequence[str],
        *,
        confinement: Confinement,
        code: Path | None,
        scratch: Path,
    ) -> list[str]:
        """What to start in place of a command; see `bubblewrap_command`."""
        if self.level == "none":
            return [*command]
        return bubblewrap_command(
            self.program, self.options, command, confinement=confinement, code=code, scratch=scratch
        )


NO_SANDBOX = Sandbox("none")


def sandbox_for(setting: SandboxSetting) -> Sandbox:
    """The sandbox that a setting asks for: ``auto`` for the best that there is.

    Runs a trial program, once in the life of this process. Blocks.

    Raises:
        ConfigurationError: the one that is asked for by name does not work here.
    """
    if setting == "none":
        return Sandbox("none", problem="tools.sandbox is “none”")
    found = best_sandbox()
    if setting == "bubblewrap" and found.level != setting:
        raise ConfigurationError(
            f"tools.sandbox is “bubblewrap”, which does not work here: {found.problem}",
            advice="Install bubblewrap, let users make namespaces (sysctl"
            " kernel.unprivileged_userns_clone, AppArmor), or set tools.sandbox = “auto”: then each"
            " run asks you.",
        )
    return found


@functools.cache
def best_sandbox() -> Sandbox:
    """The best sandbox that works here, by a trial run of each."""
    if not sys.platform.startswith("linux"):
        return Sandbox("none", problem="bubblewrap is for Linux only")
    problems: list[str] = []
    for program in programs():
        # The kernel may be too old to keep a sandbox from making namespaces of its own.
        for options in (("--disable-userns",), ()):
            problem = _problem_of(Sandbox("bubblewrap", program, options))
            if problem is None:
                return Sandbox("bubblewrap", program, options)
            problems.append(f"{program}: {problem}")
    why = problems[-1] if problems else "there is no bubblewrap; install the package of that name"
    return Sandbox("none", problem=why)


def _problem_of(sandbox: Sandbox) -> str | None:
    """What goes wrong where a program is run in this sandbox; None where it is confined."""
    with tempfile.TemporaryDirectory(prefix="rondo-sandbox-") as folder:
        secret, outside, scratch = (Path(folder, each) for each in ("secret", "out", "scratch"))
        secret.write_text("x")
        scratch.mkdir()
        command = sandbox.command(
            (sys.executable, "-I", "-S", "-c", _TRIAL, str(secret), str(outside)),
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
                env={},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        # Its folder is memory laid over ours: nothing that it wrote may have come out.
        if outside.exists() or any(scratch.iterdir()):
            return "it can write outside"
        if ran.stdout.decode("utf-8", "replace").strip() == _CONFINED:
            return None
        return ran.stderr.decode("utf-8", "replace").strip()[-300:] or "it gave nothing back"
