"""Running a script of the repository: a copy of all that it can load, in a sandbox.

What runs is the copy, and whether it may is asked of the copy: nothing can change between the look
and the run. Each run has a working folder of its own. Both are removed afterwards, also when the
daemon is killed.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

import anyio
import anyio.to_thread

from service.domain.errors import RondoError
from service.tools.protocol import ToolFailure
from service.tools.sandbox import system_files
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.launch_plan import PROXY_PORT
from service.tools.sandbox.levels import NO_SANDBOX, Sandbox
from service.tools.scripts.child_process import Bounds, OnOutput, Outcome, run_process
from service.tools.scripts.domain_proxy import DomainProxy
from service.tools.scripts.script_folder import Contents
from service.tools.scripts.supervisor import remove
from service.tools.skills.script_manifest import (
    Passed,
    ScriptManifest,
    interpreter_of,
    passed,
    unmet,
)
from service.tools.skills.skill_catalogue import SkillScript, scripts_of
from service.tools.skills.skill_repository import SkillRepository

NO_GRANTS = Confinement()
_PASSED_ON = ("PATH", "HOME", "LANG", "TZ")  # no other variable: the daemon's hold secrets
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_KEEP_BYTES = 8_000  # of each stream: together less than a registry cuts at


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """What is to run, and what it is given."""

    name: str
    """``FILE``, or ``SKILL/scripts/FILE``."""
    arguments: Sequence[str] = ()
    input: str = ""
    parameters: Mapping[str, Any] | None = None
    """For a script whose manifest names some."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """How a run ended."""

    name: str
    manifest: ScriptManifest
    outcome: Outcome
    seconds: float
    """How long it might take."""
    left_out: tuple[str, ...]
    """What could not be copied, with the reasons."""
    exceeded: str | None = None
    """Which bound it was ended for, in words: what it did."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What a call would run."""

    version: str
    """What a yes to it is about."""
    script: SkillScript
    given: Passed


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How scripts are run."""

    runs: Path | None = None
    """Where the folders of the runs are made, on a file system that lets programs run; it is the
    runner's own. None for the system's temporary folder."""
    time_limit_seconds: float = 60
    """How long a script may run, where its manifest does not say."""
    sandbox: Sandbox = NO_SANDBOX
    confinement: Confinement = field(default_factory=Confinement)
    """What scripts may reach there."""
    proxy: DomainProxy | None = None
    """What they may ask for some hosts, in a sandbox that can lead to it."""


class SkillRunner:
    """Runs the scripts of a repository."""

    def __init__(self, repository: SkillRepository, options: RunOptions) -> None:
        self._repository = repository
        self._options = options
        self._proxy = options.proxy if options.sandbox.leads_to_proxy else None
        self._runs = _Runs(options.runs)

    @property
    def longest_seconds(self) -> float:
        """How long any of the scripts may run now."""
        own: list[float] = []
        with suppress(RondoError):  # where there is none, none can be run
            for skill in self._repository.look().skills:
                own += [each.manifest.timeout_seconds or 0 for each in scripts_of(skill)]
        return max(self._options.time_limit_seconds, *own, 0)

    def version(self, call: ScriptCall) -> str:
        """What a yes to a call is about: the script, and all that it can load now.

        Raises:
            ToolFailure: there is no such script, it cannot be run, or what it is to be given does
                not fit.
        """
        try:
            skill, script = self._repository.script(call.name)
            self.check(call, script)
            return _version(script, self._repository.contents(skill))
        except RondoError as error:
            raise ToolFailure(_in_words(error)) from error

    def planned(self, call: ScriptCall) -> PlannedRun:
        """What a call would run, with what.

        Raises:
            ToolFailure: as `version`.
        """
        version = self.version(call)
        try:
            _, script = self._repository.script(call.name)
        except RondoError as error:
            raise ToolFailure(_in_words(error)) from error
        return PlannedRun(version, script, _passed(call, script))

    def check(self, call: ScriptCall, script: SkillScript | None = None) -> None:
        """See to it that a call can be run.

        Raises:
            ToolFailure: it cannot; says why.
        """
        if script is None:
            try:
                _, script = self._repository.script(call.name)
            except RondoError as error:
                raise ToolFailure(_in_words(error)) from error
        if script.problem:
            raise ToolFailure(f"`{script.name}` cannot be run: {script.problem}")
        _passed(call, script)

    async def run(
        self,
        call: ScriptCall,
        *,
        covers: Callable[[str], bool],
        on_output: OnOutput | None = None,
    ) -> ScriptRun:
        """Run a script to its end.

        Args:
            call: which one, with what.
            covers: whether a person has said yes to what a `version` names.
            on_output: is given what it writes, as it comes.

        Raises:
            ToolFailure: it was not started; says why.
        """
        place = await anyio.to_thread.run_sync(self._runs.make)
        try:
            script, left_out = await anyio.to_thread.run_sync(self._copied, call, place, covers)
            seconds = script.manifest.timeout_seconds or self._options.time_limit_seconds
            given = _passed(call, script)
            command = (*self._command(script), *given.arguments)
            outcome = await self._ended(place, command, given.input, seconds, on_output)
        except (OSError, ValueError) as error:
            raise ToolFailure(
                f"`{call.name[:80]}` could not be started: {error}. "
                "Tell the user; a script needs a first line such as #!/bin/sh."
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove, str(place))
        exceeded = self._exceeded(outcome)
        return ScriptRun(script.name, script.manifest, outcome, seconds, left_out, exceeded)

    async def _ended(
        self,
        place: Path,
        command: Sequence[str],
        stdin: str,
        seconds: float,
        on_output: OnOutput | None,
    ) -> Outcome:
        """Run a command in the folder of a run, to its end."""
        work = place / "work"
        confinement, limits = self._options.confinement, self._options.confinement.limits
        async with self._proxy.listening(place) if self._proxy else nullcontext() as proxy:
            return await run_process(
                self._options.sandbox.command(
                    command,
                    confinement=confinement,
                    code=place / "scripts",
                    scratch=work,
                    proxy=proxy,
                ),
                stdin=stdin.encode("utf-8"),
                cwd=work,
                env=self._environment(work),
                timeout_seconds=seconds,
                keep_bytes=_KEEP_BYTES,
                folder=place,
                limits=limits.by_name(),
                on_output=on_output,
                bounds=Bounds(
                    processes=limits.processes,
                    memory_bytes=limits.memory_bytes_in_all,
                    scratch=work,
                    scratch_bytes=confinement.scratch_bytes,
                ),
            )

    def _exceeded(self, outcome: Outcome) -> str | None:
        confinement = self._options.confinement
        match outcome.exceeded:
            case None:
                return None
            case "processes":
                return f"ran more than {confinement.limits.processes} processes"
            case "memory_bytes":
                most = confinement.limits.memory_bytes_in_all // 1_000_000
                return f"took more than {most} MB of memory"
            case "scratch_bytes":
                most = confinement.scratch_bytes // 1_000_000
                return f"wrote more than {most} MB into its working folder"
        assert_never(outcome.exceeded)

    def _command(self, script: SkillScript) -> tuple[str, ...]:
        interpreter = interpreter_of(script.manifest, path=self._path)
        return (*interpreter, str(script.script.path)) if interpreter else script.script.command

    @property
    def _path(self) -> str:
        return os.environ.get("PATH", os.defpath)

    def _environment(self, scratch: Path) -> dict[str, str]:
        given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {"PATH": os.defpath, "LANG": "C.UTF-8", **given}
        temporary = self._options.sandbox.temporary_folder(scratch)
        if temporary is None:
            return own
        confinement, home = self._options.confinement, Path(own.get("HOME", "/"))
        if not any(home.is_relative_to(each) for each in confinement.writable):
            own["HOME"] = str(scratch)  # it would be missing otherwise
        granted = (*confinement.readable, *confinement.writable)
        own["PATH"] = system_files.reachable(own["PATH"], granted) or os.defpath
        through = dict.fromkeys(_PROXY_VARIABLES, f"http://127.0.0.1:{PROXY_PORT}")
        return {**own, "TMPDIR": temporary, **(through if self._proxy is not None else {})}

    def _copied(
        self, call: ScriptCall, place: Path, covers: Callable[[str], bool]
    ) -> tuple[SkillScript, tuple[str, ...]]:
        """Copy a skill whole, and see to it that the copy is what a person has agreed to.

        Raises:
            ToolFailure: it is not, there is no such script, or it cannot be copied.
            OSError: the copy cannot be written.
        """
        try:
            # A link out of the folder is a script in the copy alone.
            skill, original = self._repository.script(call.name)
        except RondoError as error:
            raise ToolFailure(_in_words(error)) from error
        copy = place / "scripts"
        contents = self._repository.contents(skill, copy_to=copy)
        inside = {each.name: each for each in scripts_of(skill, folder=copy)}
        script = inside.get(original.name)
        if script is not None:
            self.check(call, script)
        if script is None or not covers(_version(script, contents)):
            raise ToolFailure(
                f"Not run: `{original.name}`, or what lies beside it, has changed since the person"
                " said yes. Call it again, and they are asked anew."
            )
        network = (
            self._options.sandbox.level == "none"
            or self._options.confinement.network
            or self._proxy is not None
        )
        if missing := unmet(script.manifest.needs, network=network, path=self._path):
            raise ToolFailure(
                f"`{script.name}` cannot be run: {'; '.join(missing)}. Tell the user."
            )
        self._repository.note_copy(skill, contents, copy)
        (place / "work").mkdir(mode=0o700)
        return script, contents.left_out


class _Runs:
    """The folders of the runs. Those that a power cut left are removed before the first run."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._is_swept = False
        self._sweeping = threading.Lock()

    def make(self) -> Path:
        """A new folder, for this user only."""
        if self._home is not None:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._sweeping:
                if not self._is_swept:
                    for left in self._home.iterdir():
                        remove(str(left))
                    self._is_swept = True
        return Path(tempfile.mkdtemp(prefix="rondo-script-", dir=self._home))


def _passed(call: ScriptCall, script: SkillScript) -> Passed:
    try:
        return passed(
            script.manifest, parameters=call.parameters, arguments=call.arguments, stdin=call.input
        )
    except ToolFailure as failure:
        raise ToolFailure(f"`{script.name}`: {failure}") from None


def _version(script: SkillScript, contents: Contents) -> str:
    return f"{script.name} sha256:{contents.digest}"


def _in_words(error: RondoError) -> str:
    """Without the title, which names a kind of HTTP error."""
    return f"{error.detail} {error.advice}".strip()
