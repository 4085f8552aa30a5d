"""Killed while notes are written, the daemon goes on with what was not read, and only with that."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import serving

pytestmark = pytest.mark.slow

HERON = "The heron nests by the old mill."
NOTE = {
    "kind": "topic",
    "subject": "heron",
    "sentences": [{"text": HERON, "passages": [1], "replaces": []}],
}
CONVERSATION = "== default\ntext: I see.\n"
HANGS = f"== schema Passages\npause: 60\n{CONVERSATION}"
NOTES = f"== schema Passages\nusage: 100 20\ntext: {json.dumps({'notes': [NOTE]})}\n{CONVERSATION}"
SETTINGS = {
    "RONDO_AGENT__AUTO_CLASSIFY": "false",
    "RONDO_AGENT__LINGER_SECONDS": "0",
    "RONDO_EMBEDDER__KIND": "none",
    "RONDO_LOG_LEVEL": "info",
    "RONDO_MEMORY__CONSOLIDATION__ENABLED": "true",
    "RONDO_MEMORY__CONSOLIDATION__IDLE_SECONDS": "0.1",
    "RONDO_MEMORY__CONSOLIDATION__MIN_NEW_SEGMENTS": "1",
}


def until(client: httpx2.Client, condition: str) -> dict[str, Any]:
    """What is told of notes, once it is as wanted."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listing: dict[str, Any] = client.get("/v1/memory/notes").json()
        if listing["consolidation"]["state"] == condition or (
            condition == "notes" and listing["notes"]
        ):
            return listing
        time.sleep(0.05)
    pytest.fail(f"it never came to {condition}")


def test_a_daemon_that_was_killed_goes_on_with_its_notes_and_reads_nothing_twice(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "home"
    with serving(folder, script=HANGS, settings=SETTINGS) as daemon:
        with daemon.client(folder) as client:
            client.post("/v1/send", json={"message": HERON})
            until(client, "writing")
        daemon.process.kill()
        daemon.process.wait()
    with serving(folder, script=NOTES, settings=SETTINGS) as daemon:
        with daemon.client(folder) as client:
            [note] = until(client, "notes")["notes"]
            assert [each["text"] for each in note["sentences"]] == [HERON]
        daemon.process.kill()
        daemon.process.wait()
    with (
        serving(folder, script=NOTES, settings=SETTINGS) as daemon,
        daemon.client(folder) as client,
    ):
        assert until(client, "notes")["notes"] == [note]
        time.sleep(1)  # ten times as long as it must be quiet
        lines = client.get("/v1/usage?by=purpose").json()["lines"]
        assert {line["key"]: line["calls"] for line in lines}["consolidation"] == 1
