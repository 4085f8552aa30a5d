"""`rondo memory check` against a real daemon: what it finds, and what was lost since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli.scripted_daemon import daemon_with, sent, terminal_of
from tests.support.memory.journal_file import writing

SCRIPT = "== default\ntext: Noted, and kept for later: {message}\n"
SAID = (
    "The boat lies at pier nine of the harbour in Lund.",
    "钢琴调音师星期四下午三点半到家里来。",
    "The winter soup wants leeks, potatoes and nutmeg.",
    "The kitchen was painted in pale ochre number twelve.",
)


@pytest.mark.slow
def test_a_check_tells_what_is_found_and_what_was_lost_since_the_last_one(tmp_path: Path) -> None:
    with daemon_with(tmp_path, SCRIPT) as daemon:
        terminal = terminal_of(daemon)
        nothing = terminal.run("memory", "check")
        assert nothing.exit_code == 1
        assert "memory holds nothing yet" in nothing.stderr
        for words in SAID:
            terminal.run("loops", "complete", sent(terminal, words)["run_loop_id"])
        first = terminal.run("memory", "check")
        assert "Found 8 of 8 (100.0 %)" in first.stdout
        assert "This is the first check." in first.stderr
        second = json.loads(terminal.run("memory", "check", "--json").stdout)
        assert second["earlier"]["lost"] == 0
        assert second["by_kind"]["quote"][1] > 0
        with writing(tmp_path / "data" / "memory.sqlite3") as db:
            db.execute("DELETE FROM words")  # a lexical index that finds nothing
        lost = terminal.run("memory", "check")
        assert lost.exit_code == 1
        assert "Memory finds less than it did" in lost.stderr
        assert ":0." in lost.stdout  # anchors to look at


def test_a_number_of_questions_beyond_the_bounds_is_refused(tmp_path: Path) -> None:
    with daemon_with(tmp_path, SCRIPT) as daemon:
        refused = terminal_of(daemon).run("memory", "check", "--questions", "0")
        assert refused.exit_code == 2
        assert "1<=x<=2000" in refused.stderr
