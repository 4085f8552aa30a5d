"""Conversations of several sets dealt into days of one person."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner

from research.routing.interleaving import GROUPS, Line, stream
from research.routing.mixed_days import conversations_of, days, main
from service.bench.routing.routing_dataset import files, read_set


def write_set(folder: Path, *, streams: int, threads: int) -> Path:
    """Streams of short conversations, of which each says in its words where it stands."""
    folder.mkdir()
    for number in range(streams):
        lines = [
            {
                "id": f"{number}-{thread}-{at}",
                "text": f"{folder.name} {number} {thread} {at}",
                "at": f"2026-01-05T{8 + at:02d}:{thread:02d}:00+00:00",
                "thread": f"t{number}-{thread}",
                "role": "assistant" if at % 2 else "user",
            }
            for at in range(4)
            for thread in range(threads)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{number:02d}.jsonl").write_text(text, "utf-8")
    return folder


def test_days_mix_sets_of_one_group_and_keep_each_conversation_whole(tmp_path: Path) -> None:
    sets = [write_set(tmp_path / name, streams=6, threads=5) for name in ("booking", "电影")]
    kinds = [conversations_of(folder) for folder in sets]
    whole = {thread: lines for kind in kinds for group in kind for thread, lines in group}
    for number, day in enumerate(days(kinds, count=9, per_day=6, seed=3)):
        said: defaultdict[str, list[Line]] = defaultdict(list)
        for line in day:
            said[line["thread"]].append(Line(line["role"], line["text"]))
        assert said == {thread: whole[thread] for thread in said}
        assert {int(thread.split("-t")[1][0]) % GROUPS for thread in said} == {number % GROUPS}
    made = days(kinds, count=9, per_day=6, seed=3)
    mixed = [{line["text"].split()[0] for line in day} for day in made]
    assert {"booking", "电影"} in mixed


def test_a_conversation_that_occurs_in_several_files_is_taken_once(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", streams=1, threads=4)
    (folder / "01.jsonl").write_text((folder / "00.jsonl").read_text("utf-8"), "utf-8")
    assert [len(group) for group in conversations_of(folder)] == [4, 0, 0]


def test_in_bursts_a_person_changes_conversation_less_often() -> None:
    dealt = [(f"t{n}", [Line("user", "a"), Line("assistant", "b")] * 6) for n in range(30)]

    def changes(stays: float) -> int:
        lines = list(stream(dealt, random.Random(5), stays=stays))
        return sum(one["thread"] != other["thread"] for one, other in pairwise(lines))

    assert changes(0.95) < changes(0.05)


def test_the_command_writes_a_set_that_can_be_read(tmp_path: Path) -> None:
    sets = [write_set(tmp_path / name, streams=3, threads=4) for name in ("one", "two")]
    out = tmp_path / "days"
    asked = [*map(str, sets), "--out", str(out), "--days", "6", "--per-day", "4"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    assert len(files(out)) == 6
    for path in files(out):
        times = [datetime.fromisoformat(json.loads(line)["at"]) for line in path.open("rb")]
        assert times == sorted(times)
    assert read_set(out).messages > 0
