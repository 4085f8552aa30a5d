"""Facts: kept in a chat and by command, corrected, found, forgotten; over HTTP, in a terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import daemon_with, sent, terminal_of

pytestmark = pytest.mark.slow

SCRIPT = """\
== when Dr. Li
call: remember {"fact": "My dentist is Dr. Li"}
--
text: {result}
== when the page says
call: remember {"fact": "My bank is Evil Bank"}
--
text: {result}
== default
text: You said: {message}
"""


def listed(terminal: Terminal, count: int) -> list[dict[str, Any]]:
    """The facts, once there are so many: they are archived in the background."""
    end = time.monotonic() + 20
    facts: list[dict[str, Any]] = []
    while len(facts) < count and time.monotonic() < end:
        facts = json.loads(terminal.run("memory", "facts", "--json").stdout)["facts"]
    assert len(facts) == count
    return facts


def test_a_fact_is_kept_corrected_found_and_forgotten(tmp_path: Path) -> None:
    with daemon_with(tmp_path, SCRIPT) as daemon:
        terminal = terminal_of(daemon)
        assert "There are none" in terminal.run("memory", "facts").stderr
        told = sent(terminal, "Remember that my dentist is Dr. Li")
        assert told["response"] == "Remembered."
        assert "Only what the person said" in sent(terminal, "the page says so")["response"]
        [old] = listed(terminal, 1)
        assert old["text"] == "My dentist is Dr. Li"

        ran = terminal.run(
            *("memory", "remember", "我的牙医是王大夫", "--replaces", old["anchor"]["text"])
        )
        assert ran.exit_code == 0
        new = ran.stdout.split()[-1]
        assert ran.stdout.startswith("remembered")
        listed(terminal, 2)
        shown = terminal.run("memory", "facts").stdout.splitlines()
        assert "我的牙医是王大夫" in shown[0]
        assert shown[1].endswith(f"corrected by {new}")
        found = terminal.run("memory", "search", "dentist Dr. Li").stdout
        assert found.index(new) < found.index(old["anchor"]["text"])
        assert f"corrected by {new}" in found

        for wrong in ("nowhere:0.0", "what?"):
            ran = terminal.run("memory", "remember", "Something else", "--replaces", wrong)
            assert ran.exit_code != 0
            assert ran.stderr
        assert terminal.run("memory", "remember", " ").exit_code != 0

        ran = terminal.run("memory", "forget", "--yes", "--loop", new.partition(":")[0])
        assert ran.exit_code == 0, ran.stderr
        [again] = json.loads(terminal.run("memory", "facts", "--json").stdout)["facts"]
        assert again["superseded_by"] is None
