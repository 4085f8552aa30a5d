"""A daemon whose model asks for a yes, for words or for a choice, and its loops."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service.cli.daemon.daemon_process import DaemonProcess, running_daemon
from service.config import EmbedderSettings, Settings
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import ENVIRONMENT

SCRIPT = """\
== when back up
call: run_script {"name": "backup.sh", "arguments": ["--all", "照片"]}
--
text: Then: {result}
== when both
call: run_script {"name": "backup.sh", "arguments": ["one"]}
call: run_script {"name": "backup.sh", "arguments": ["two"]}
--
text: Then: {result}
== when note down
call: edit_file {"path": "notes.txt", "old_text": "Tuesday", "new_text": "Friday"}
--
text: {result}
== when trip
call: ask_user {"question": "Where to?"}
--
text: To {result}, then.
== when drink
call: choose {"question": "喝什么？", "options": ["茶", "coffee", "green tea"]}
--
text: You get {result}.
== when several
call: choose {"question": "Which?", "options": ["a", "b", "c"], "multiple": true}
--
text: You get {result}.
== default
text: You said: {message}
"""


@contextmanager
def asking_daemon(folder: Path) -> Iterator[DaemonProcess]:
    """It has a script `backup.sh`, which may be run after a yes, and a folder `notes` beside its
    data folder, in which files may be changed after one."""
    script = folder / "script.txt"
    script.write_text(SCRIPT)
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "backup.sh").write_text('#!/bin/sh\necho "saved $*"\n')
    (folder / "notes").mkdir()
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    environment = {
        **ENVIRONMENT,
        "RONDO_LLM__MODEL": str(script),
        "RONDO_TOOLS__FILES_WRITE": json.dumps([str(folder / "notes")]),
    }
    with running_daemon(settings, folder, environment=environment) as running:
        running.wait_until(lambda readiness: readiness.ready)
        yield running


def response(terminal: Terminal, loop: str) -> str:
    """The last answer of a loop, once it rests."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        whole = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
        if whole["status"] == "idle":
            return str(whole["iterations"][-1]["response"])
        time.sleep(0.05)
    pytest.fail(f"run loop {loop} does not come to rest")


def newest(terminal: Terminal) -> dict[str, Any]:
    """The run loop that was opened last."""
    (loop,) = json.loads(terminal.run("loops", "list", "--limit", "1", "--json").stdout)
    whole: dict[str, Any] = json.loads(terminal.run("loops", "show", loop["id"], "--json").stdout)
    return whole


def answered(terminal: Terminal, loop: str, *options: str) -> str:
    result = terminal.run("loops", "answer", loop, *options)
    assert result.exit_code == 0, result.stderr
    return response(terminal, loop)
