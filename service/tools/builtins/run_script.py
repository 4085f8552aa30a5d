"""Running a script of the script repository in a child process.

This is no sandbox: a script can do whatever the daemon's user can do. What protects is that a
person put the script into the folder, and agrees to each run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from service.tools.decorator import FunctionTool, tool
from service.tools.process import GRACE_SECONDS, Outcome, Output, run_process
from service.tools.protocol import ToolFailure
from service.tools.scripts import Script, find_script, list_scripts
from service.tools.text import did_you_mean

_PASSED_ON = ("PATH", "HOME", "LANG", "TZ")  # no other variable: the daemon's hold secrets
_KEEP_BYTES = 8_000  # of each stream: together less than a registry cuts at

Arguments = Annotated[
    list[Annotated[str, Field(max_length=10_000)]],
    Field(max_length=100, description="What is given on the command line, one by one."),
]


def run_script_tool(folder: Path, *, time_limit_seconds: float = 60) -> FunctionTool:
    """The `run_script` tool over a script repository. Its description lists the scripts there are.

    A run is a child process without a shell, in a fresh folder that is removed afterwards, with
    ``PATH``, ``HOME``, ``LANG`` and ``TZ`` as its whole environment.

    Args:
        folder: the repository. What is put there later can be run, but is not in the description.
        time_limit_seconds: how long a script may run.
    """

    @tool(
        description=_description(list_scripts(folder)),
        effect="side_effects",
        needs_approval=True,
        scope=lambda given: _scope(folder, given),
        timeout_seconds=time_limit_seconds + GRACE_SECONDS + 10,
    )
    async def run_script(
        name: Annotated[str, Field(description="The script's name, as listed.")],
        arguments: Arguments = [],  # noqa: B006 - pydantic copies it
        input: Annotated[  # noqa: A002 - the name that the model sees
            str, Field(description="What it reads from standard input.")
        ] = "",
    ) -> str:
        script = await anyio.to_thread.run_sync(_found, folder, name)
        scratch = Path(tempfile.mkdtemp(prefix="rondo-script-"))
        try:
            outcome = await run_process(
                (*script.command, *arguments),
                stdin=input.encode("utf-8"),
                cwd=scratch,
                env=_environment(),
                timeout_seconds=time_limit_seconds,
                keep_bytes=_KEEP_BYTES,
            )
        except (OSError, ValueError) as error:
            raise ToolFailure(
                f"`{script.name}` could not be started: {error}. "
                "Tell the user; a script needs a first line such as #!/bin/sh."
            ) from error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, scratch)
        told = _told(script.name, outcome, time_limit_seconds)
        if outcome.timed_out or outcome.exit_code:
            raise ToolFailure(told)
        return told

    return run_script


def _found(folder: Path, name: str) -> Script:
    script = find_script(folder, name)
    if script is None:
        names = [script.name for script in list_scripts(folder)]
        raise ToolFailure(
            f"There is no script {name[:80]!r}.{did_you_mean(name, names)} "
            f"The scripts are: {', '.join(names) or 'none'}."
        )
    return script


def _scope(folder: Path, given: Mapping[str, object]) -> str:
    """A yes to a script is a yes to its words: once they have changed, it is asked for again."""
    script = _found(folder, str(given["name"]))
    try:
        with script.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ToolFailure(f"`{script.name}` cannot be read: {error.strerror}.") from error
    return f"{script.name} sha256:{digest}"


def _remove(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)  # what cannot be removed is the temp folder's affair


def _environment() -> dict[str, str]:
    given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **given}


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


def _told(name: str, outcome: Outcome, time_limit_seconds: float) -> str:
    if outcome.timed_out:
        end = (
            f"`{name}` was stopped after {time_limit_seconds:g} seconds. It may have done part of "
            "its work: check before you run it again."
        )
    elif outcome.exit_code < 0:
        end = f"`{name}` was ended by {_signal_name(-outcome.exit_code)}."
    else:
        end = f"`{name}` ended with exit code {outcome.exit_code}."
    outputs = [
        f"{stream}:\n{output.text.rstrip()}"
        for stream, output in (("stdout", outcome.stdout), ("stderr", outcome.stderr))
        if _has_words(output)
    ]
    return "\n\n".join((end, *outputs)) if outputs else f"{end} It wrote nothing."


def _has_words(output: Output) -> bool:
    return bool(output.text.strip())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
