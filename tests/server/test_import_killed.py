"""Killed in the middle of an import, again and again: in the end each run loop is there once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.daemon import serving
from tests.support.memory.exchanging import lines, loop, turn

pytestmark = pytest.mark.slow

LOOPS = 600
NDJSON = {"Content-Type": "application/x-ndjson"}


def file(grown: bool) -> list[bytes]:
    """Every third loop grows."""
    more = turn("And the other question?", "Another answer.")
    return [
        lines(
            loop(
                f"l{number}",
                turn(f"Question number {number}? 第{number}问", "An answer. 🌱"),
                *((more,) if grown and number % 3 == 0 else ()),
            )
        )
        for number in range(LOOPS)
    ]


def test_an_import_that_is_killed_and_begun_again_brings_each_loop_in_once(
    tmp_path: Path,
) -> None:
    chance = random.Random(1)
    folder = tmp_path / "home"
    for grown in (False, True):
        data = file(grown)
        for _ in range(2):
            with serving(folder) as daemon, daemon.client(folder) as client:
                stop_at = chance.randrange(100, LOOPS)

                def body(stop_at: int = stop_at, data: list[bytes] = data) -> Iterator[bytes]:
                    for number, line in enumerate(data):
                        if number == stop_at:
                            threading.Timer(chance.random() / 3, daemon.process.kill).start()
                        yield line
                    time.sleep(1)

                with pytest.raises(httpx2.TransportError):
                    client.post("/v1/memory/import", content=body(), headers=NDJSON)
        with serving(folder) as daemon, daemon.client(folder) as client:
            report = client.post(
                "/v1/memory/import", content=b"".join(data), headers=NDJSON, timeout=120
            ).json()
            assert report["failures"] == 0
            assert report["imported"] + report["extended"] + report["unchanged"] == LOOPS
            out = client.get("/v1/memory/export").content.splitlines()
            imported = {json.loads(line)["id"]: json.loads(line) for line in out}
            assert Counter(json.loads(line)["id"] for line in out).most_common(1)[0][1] == 1
            assert len(imported) == LOOPS
            for line in data:
                exported = json.loads(line)
                assert len(imported[exported["id"]]["iterations"]) == len(exported["iterations"])
            deadline = time.monotonic() + 60
            segments = sum(2 * len(each["iterations"]) for each in imported.values())
            while (stats := client.get("/v1/memory/stats").json())["segments"] != segments:
                assert time.monotonic() < deadline, stats
                time.sleep(0.1)
            assert stats["run_loops"] == LOOPS
