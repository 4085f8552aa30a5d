"""Running a script of the script repository in a child process.

A person put the script into the folder, and agrees to its runs. What runs is a copy of the folder,
and is what they agreed to. It runs in a sandbox where this machine has one: there it sees the
system and the copy, and of the person's files what they granted to scripts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.decorator import FunctionTool, tool
from service.tools.model_text import did_you_mean
from service.tools.protocol import ToolFailure
from service.tools.sandbox import system_files
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.launch_plan import PROXY_PORT
from service.tools.sandbox.levels import NO_SANDBOX, Sandbox
from service.tools.scripts.child_process import (
    GRACE_SECONDS,
    Bounds,
    Outcome,
    run_process,
)
from service.tools.scripts.domain_proxy import DomainProxy
from service.tools.scripts.script_folder import (
    Contents,
    Script,
    contents_of,
    find_script,
    list_scripts,
)
from service.tools.scripts.supervisor import remove

NAME = "run_script"
_NO_GRANTS = Confinement()

_PASSED_ON = ("PATH", "HOME", "LANG", "TZ")  # no other variable: the daemon's hold secrets
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_KEEP_BYTES = 8_000  # of each stream: together less than a registry cuts at
_CHANGED = (
    "Not run: `{name}`, or what lies beside it in the script folder, has changed since the person"
    " said yes. Call it again, and they are asked anew."
)

Arguments = Annotated[
    list[Annotated[str, Field(max_length=10_000)]],
    Field(max_length=100, description="What is given on the command line, one by one."),
]


class RunScript:
    """The `run_script` tool over a script repository. Its description lists the scripts there are.

    A run is a child process without a shell, with ``PATH``, ``HOME``, ``LANG`` and ``TZ`` as its
    whole environment. It runs a copy of the whole repository, in which nobody may write; its
    working folder is a fresh one. Both are removed afterwards, also when the daemon is killed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        runs: Path | None = None,
        time_limit_seconds: float = 60,
        sandbox: Sandbox = NO_SANDBOX,
        confinement: Confinement = _NO_GRANTS,
        proxy: DomainProxy | None = None,
    ) -> None:
        """Name the repository.

        Args:
            folder: the repository.
            runs: where the folders of the runs are made, on a file system that lets programs run;
                it is this tool's own. None for the system's temporary folder.
            time_limit_seconds: how long a script may run.
            sandbox: in which scripts run.
            confinement: what they may reach there.
            proxy: what they may ask for some hosts, in a sandbox that can lead to it.
        """
        self._proxy = proxy if sandbox.leads_to_proxy else None
        self._sandbox = sandbox
        self._confinement = confinement
        self._folder = folder
        self._runs = _Runs(runs)
        self._limit = time_limit_seconds
        self._tool = self._made()

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the scripts that there are now."""
        try:
            scripts = list_scripts(self._folder)
        except OSError:
            scripts = ()  # it is withheld then
        return self._tool.definition.model_copy(update={"description": _description(scripts)})

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        try:
            scripts = list_scripts(self._folder)
        except OSError as error:
            return (
                f"The script folder {self._folder} cannot be read: {error.strerror}. Correct its"
                " rights."
            )
        if scripts:
            return None
        return f"There are no scripts in {self._folder}. Put executable, .py or .sh files there."

    @property
    def effect(self) -> ToolEffect:
        """A script may do anything."""
        return self._tool.effect

    @property
    def outside(self) -> bool:
        """What a script writes can be anybody's words."""
        return True

    @property
    def needs_approval(self) -> bool:
        """A person agrees to each run."""
        return self._tool.needs_approval

    @property
    def warning(self) -> str | None:
        """See `WarnsPerson`."""
        return self._sandbox.warning

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take, with the tidying up."""
        return self._tool.timeout_seconds

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self._tool.check(arguments)

    def approval_scope(self, arguments: str) -> str | None:
        """See `ScopesApproval`: the script, and all that is in its folder now."""
        return self._tool.approval_scope(arguments)

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self._tool.run(arguments, context)

    def _made(self) -> FunctionTool:
        @tool(
            description=_description(()),
            effect="side_effects",
            needs_approval=True,
            scope=self._scope,
            timeout_seconds=self._limit + GRACE_SECONDS + 20,
        )
        async def run_script(
            context: ToolContext,
            name: Annotated[str, Field(description="The script's name, as listed.")],
            arguments: Arguments = [],  # noqa: B006 - pydantic copies it
            input: Annotated[  # noqa: A002 - the name that the model sees
                str, Field(description="What it reads from standard input.")
            ] = "",
        ) -> str:
            return await self._run(context, name, arguments, input)

        return run_script

    def _scope(self, given: Mapping[str, object]) -> str:
        """A yes to a script is a yes to its folder's words: once they change, it is asked again."""
        script = _found(self._folder, str(given["name"]))
        return _version(script, contents_of(self._folder))

    async def _run(self, context: ToolContext, name: str, arguments: list[str], input: str) -> str:  # noqa: A002
        place = await anyio.to_thread.run_sync(self._runs.make)
        try:
            script, left_out = await anyio.to_thread.run_sync(self._copied, context, name, place)
            outcome = await self._ended(place, (*script.command, *arguments), input)
        except (OSError, ValueError) as error:
            raise ToolFailure(
                f"`{name[:80]}` could not be started: {error}. "
                "Tell the user; a script needs a first line such as #!/bin/sh."
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove, str(place))
        report = _told(script.name, outcome, self._limit, self._confinement)
        if outcome.timed_out or outcome.exceeded or outcome.exit_code:
            raise ToolFailure(report + _not_copied(left_out))
        return report

    async def _ended(self, place: Path, command: tuple[str, ...], input: str) -> Outcome:  # noqa: A002
        """Run a command in the folder of a run, to its end."""
        work = place / "work"
        limits = self._confinement.limits
        listening = (
            contextlib.nullcontext() if self._proxy is None else self._proxy.listening(place)
        )
        async with listening as proxy:
            return await run_process(
                self._sandbox.command(
                    command,
                    confinement=self._confinement,
                    code=place / "scripts",
                    scratch=work,
                    proxy=proxy,
                ),
                stdin=input.encode("utf-8"),
                cwd=work,
                env=self._environment(work),
                timeout_seconds=self._limit,
                keep_bytes=_KEEP_BYTES,
                folder=place,
                limits=limits.by_name(),
                bounds=Bounds(
                    processes=limits.processes,
                    memory_bytes=limits.memory_bytes_in_all,
                    scratch=work,
                    scratch_bytes=self._confinement.scratch_bytes,
                ),
            )

    def _environment(self, scratch: Path) -> dict[str, str]:
        given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {"PATH": os.defpath, "LANG": "C.UTF-8", **given}
        temporary = self._sandbox.temporary_folder(scratch)
        if temporary is None:
            return own
        home = Path(own.get("HOME", "/"))
        if not any(home.is_relative_to(each) for each in self._confinement.writable):
            own["HOME"] = str(scratch)  # it would be missing otherwise
        granted = (*self._confinement.readable, *self._confinement.writable)
        own["PATH"] = system_files.reachable(own["PATH"], granted) or os.defpath
        through = dict.fromkeys(_PROXY_VARIABLES, f"http://127.0.0.1:{PROXY_PORT}")
        return {**own, "TMPDIR": temporary, **(through if self._proxy is not None else {})}

    def _copied(
        self, context: ToolContext, name: str, place: Path
    ) -> tuple[Script, tuple[str, ...]]:
        """Copy the repository, and see to it that the copy is what a person has agreed to.

        Raises:
            ToolFailure: it is not, there is no such script, or the folder cannot be copied.
            OSError: the copy cannot be written.
        """
        _found(self._folder, name)  # a link out of the folder is a script in the copy alone
        contents = contents_of(self._folder, place / "scripts")
        script = _found(place / "scripts", name)
        if not context.covers(NAME, _version(script, contents)):
            raise ToolFailure(_CHANGED.format(name=script.name))
        (place / "work").mkdir(mode=0o700)
        return script, contents.left_out


def run_script_tool(
    folder: Path,
    *,
    runs: Path | None = None,
    time_limit_seconds: float = 60,
    sandbox: Sandbox = NO_SANDBOX,
    confinement: Confinement = _NO_GRANTS,
    proxy: DomainProxy | None = None,
) -> RunScript:
    """See `RunScript`."""
    return RunScript(
        folder,
        runs=runs,
        time_limit_seconds=time_limit_seconds,
        sandbox=sandbox,
        confinement=confinement,
        proxy=proxy,
    )


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


def _found(folder: Path, name: str) -> Script:
    script = find_script(folder, name)
    if script is None:
        names = [script.name for script in list_scripts(folder)]
        raise ToolFailure(
            f"There is no script {name[:80]!r}.{did_you_mean(name, names)} "
            f"The scripts are: {', '.join(names) or 'none'}."
        )
    return script


def _version(script: Script, contents: Contents) -> str:
    return f"{script.name} sha256:{contents.digest}"


def _not_copied(left_out: tuple[str, ...]) -> str:
    if not left_out:
        return ""
    more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""
    return f"\n\nNot copied with it: {', '.join(left_out[:10])}{more}."


def _description(scripts: tuple[Script, ...]) -> str:
    listed = "\n".join(
        f"- {script.name}: {script.description}" if script.description else f"- {script.name}"
        for script in scripts
    )
    return (
        "Run one of the user's own scripts; the user is asked first. It runs in an empty folder "
        "that is removed afterwards, and what it leaves running in the background is ended. "
        f"The scripts:\n{listed}"
    )


def _told(name: str, outcome: Outcome, time_limit_seconds: float, confinement: Confinement) -> str:
    if outcome.exceeded == "processes":
        end = f"`{name}` was ended: it ran more than {confinement.limits.processes} processes."
    elif outcome.exceeded == "memory_bytes":
        most = confinement.limits.memory_bytes_in_all // 1_000_000
        end = f"`{name}` was ended: it took more than {most} MB of memory."
    elif outcome.exceeded == "scratch_bytes":
        end = (
            f"`{name}` was ended: it wrote more than {confinement.scratch_bytes // 1_000_000} MB"
            " into its working folder."
        )
    elif outcome.timed_out:
        end = (
            f"`{name}` was stopped after {time_limit_seconds:g} seconds. It may have done part of "
            "its work: check before you run it again."
        )
    elif outcome.exit_code < 0:
        end = f"`{name}` was ended by {_signal_name(-outcome.exit_code)}."
    else:
        end = f"`{name}` ended with exit code {outcome.exit_code}."
    outputs = [
        f"{stream}:\n{output.rstrip()}"
        for stream, output in (("stdout", outcome.stdout), ("stderr", outcome.stderr))
        if output.strip()
    ]
    return "\n\n".join((end, *outputs)) if outputs else f"{end} It wrote nothing."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
