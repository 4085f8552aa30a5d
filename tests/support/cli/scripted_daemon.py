"""A daemon as a process of its own, whose model plays a script, for tests of the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.cli.daemon.daemon_process import DaemonProcess, running_daemon
from service.config import EmbedderSettings, Settings
from tests.support.cli.commands import Terminal

SCRIPT = """\
== when sum of
text: I will add.
call: calculator {"expression": "2 + 2"}
call: calculator {"expression": "2 +"}
--
text/3: The sum is 4.
== when flaky
text: half an ans
error x1: 503 busy
text: wer, and whole.
== when later back up
text: Soon:
pause: 1
call: run_script {"name": "backup.sh", "arguments": ["--all"]}
--
text: Then this happened: {result}
== when back up
call: run_script {"name": "backup.sh", "arguments": ["--all"]}
--
text: Then this happened: {result}
== when endless
text/4: It goes on
pause: 60
text: and on
== when slowly
text/4: One, two,
pause: 1.5
text/4: three.
== when tell it all
text/3: It begins, goes o
finish: length
--
text/3: n, and ends.
== when never ending
text: One,
finish: length
--
text:  two,
finish: length
--
text:  three,
finish: length
--
text:  four,
finish: length
--
text:  five.
== when refused
error: 400 no such model
== default
text/4: You said: {message}
"""
ENVIRONMENT = {
    "RONDO_EMBEDDER__KIND": "none",
    "RONDO_AGENT__AUTO_CLASSIFY": "false",
    "RONDO_LLM__PROVIDER": "scripted",
    "RONDO_TOOLS__SCRIPTS": "true",
    "RONDO_CONFIG": "",
}


@contextmanager
def daemon_with(folder: Path, script: str, **environment: str) -> Iterator[DaemonProcess]:
    """A daemon that is ready, with a script repository of one script."""
    script_file = folder / "script.txt"
    script_file.write_text(script)
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "backup.sh").write_text('#!/bin/sh\n# Backs up.\necho "backed up $*"\n')
    (scripts / "backup.sh").chmod(0o755)
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    variables = {**ENVIRONMENT, "RONDO_LLM__MODEL": str(script_file), **environment}
    with running_daemon(settings, folder, environment=variables) as running:
        running.wait_until(lambda readiness: readiness.ready)
        yield running


def terminal_of(daemon: DaemonProcess) -> Terminal:
    """Commands for this daemon."""
    return Terminal(daemon.settings.data_dir, daemon.settings.server.port)


def sent(terminal: Terminal, text: str, *options: str) -> dict[str, Any]:
    """Send a message with ``--json``; what was printed."""
    result = terminal.run("send", text, "--json", *options)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer
