"""`rondo memory notes` against a real daemon that writes notes, and what doctor says of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from service.cli.doctor_checks import check_notes
from service.cli.views.memory_views import print_notes
from service.config import ConsolidationSettings, LLMSettings, MemorySettings, Settings
from service.domain.anchors import MemoryNote
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import daemon_with, sent, terminal_of

WORDS = "我的自行车停在火车站北边"
NOTE = {
    "kind": "topic",
    "subject": "自行车",
    "sentences": [{"text": "自行车停在火车站北边。", "passages": [1], "replaces": []}],
}
SCRIPT = f"""\
== schema Passages
text: {json.dumps({"notes": [NOTE]}, ensure_ascii=False)}
== default
text: You said: {{message}}
"""
SWITCHED_ON = {
    "RONDO_MEMORY__CONSOLIDATION__ENABLED": "true",
    "RONDO_MEMORY__CONSOLIDATION__IDLE_SECONDS": "0.1",
    "RONDO_MEMORY__CONSOLIDATION__MIN_NEW_SEGMENTS": "1",
}


@pytest.mark.slow
def test_notes_are_shown_apart_and_can_be_removed(tmp_path: Path) -> None:
    with daemon_with(tmp_path, SCRIPT, **SWITCHED_ON) as daemon:
        terminal = terminal_of(daemon)
        terminal.run("loops", "complete", sent(terminal, WORDS)["run_loop_id"])
        end = time.monotonic() + 20
        listing: dict[str, list[dict[str, Any]]] = {"notes": []}
        while not listing["notes"] and time.monotonic() < end:
            listing = json.loads(terminal.run("memory", "notes", "--json").stdout)
        [note] = listing["notes"]
        shown = terminal.run("memory", "search", "自行车").stdout
        assert shown.index("note on 自行车") < shown.rindex(WORDS)
        assert note["id"] not in shown
        listed = terminal.run("memory", "notes")
        assert note["sentences"][0]["anchors"][0]["text"] in listed.stdout
        assert note["id"] in listed.stdout
        assert "tokens used today" in listed.stderr
        assert "removed" in terminal.run("memory", "notes", "--remove", note["id"]).stdout
        assert "There are no notes" in terminal.run("memory", "notes").stderr
        refused = terminal.run("memory", "notes", "--remove", note["id"])
        assert refused.exit_code == 1
        assert "no note" in refused.stderr


@pytest.mark.slow
def test_where_no_notes_are_written_it_says_so(terminal: Terminal) -> None:
    result = terminal.run("memory", "notes")
    assert result.exit_code == 0
    assert "There are no notes" in result.stderr
    assert "memory.consolidation.enabled is false" in result.stderr
    assert terminal.run("memory", "notes", "--remove", "a/b ?").exit_code == 1


def test_doctor_refuses_the_embedded_model_in_words() -> None:
    chosen = MemorySettings(consolidation=ConsolidationSettings(enabled=True))
    assert check_notes(Settings()).verdict == "ok"
    embedded = check_notes(Settings(memory=chosen, llm=LLMSettings(provider="embedded")))
    assert embedded.verdict == "broken"
    assert "invent" in embedded.words
    assert embedded.advice
    endpoint = LLMSettings(base_url="http://127.0.0.1:1/v1")
    assert check_notes(Settings(memory=chosen, llm=endpoint)).verdict == "ok"


def test_what_could_drive_a_terminal_is_taken_out_of_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = MemoryNote.model_validate(
        {
            "id": "n\x1b[2J",
            "owner": "me",
            "kind": "topic",
            "subject": "s\x1b[31m",
            "sentences": [{"text": "t\x1b[2Jt\u202e", "anchors": []}],
            "written_at": "2026-05-04T12:00:00Z",
        }
    )
    print_notes([note], with_ids=True)
    printed = capsys.readouterr().out
    assert "\x1b[2J" not in printed
    assert "\u202e" not in printed
    assert "t[2Jt" in printed
