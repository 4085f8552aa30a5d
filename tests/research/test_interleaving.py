"""Conversations made into streams."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from research.routing.interleaving import GROUPS, conversations, main, streams
from service.bench.routing.routing_dataset import files, read_set
from service.domain.errors import InvalidInputError

EVERYDAY = Path(__file__).parents[2] / "data" / "routing" / "everyday"
WRITTEN = """\
> remind me to call Ann
< At what time?
> at five

> 明天天气怎么样
< 晴。

> one
> two
< both
"""


def test_each_conversation_is_whole_and_in_order_in_every_round() -> None:
    every = conversations(WRITTEN)
    said: defaultdict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
    for name, lines in streams(every, rounds=2, seed=1):
        for line in lines:
            said[int(name[:4]) // GROUPS, line["thread"]].append((line["role"], line["text"]))
    assert len(said) == 2 * len(every)
    assert sorted(said.values()) == sorted(
        [(line.role, line.text) for line in each] for each in every for _ in range(2)
    )


def test_time_never_goes_back_and_an_answer_follows_what_it_answers() -> None:
    every = conversations(WRITTEN) * 30
    for _, lines in streams(every, rounds=1, seed=2):
        times = [datetime.fromisoformat(line["at"]) for line in lines]
        assert all(earlier < later for earlier, later in pairwise(times))
        for before, line in pairwise(lines):
            if line["role"] == "assistant":
                assert before["thread"] == line["thread"]


def test_all_but_every_third_file_know_nothing_of_its_conversations() -> None:
    every = conversations(WRITTEN) * 40
    groups: defaultdict[int, set[str]] = defaultdict(set)
    for name, lines in streams(every, rounds=3, seed=3):
        groups[int(name[:4]) % GROUPS] |= {line["thread"] for line in lines}
    assert len(groups) == GROUPS
    assert not groups[0] & groups[1] | groups[1] & groups[2] | groups[0] & groups[2]


def test_several_topics_are_open_at_once_now_and_then() -> None:
    every = conversations(WRITTEN) * 60
    switches = sum(
        before["thread"] != after["thread"] and after["role"] == "user"
        for _, lines in streams(every, rounds=1, seed=4)
        for before, after in pairwise(lines)
    )
    assert switches > len(every)  # more than there are conversations to begin


@pytest.mark.parametrize("text", ["< Hello\n", "> hi\nwithout a mark\n", "> \n"])
def test_what_is_no_conversation_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidInputError, match="line"):
        conversations(text)


@pytest.mark.parametrize("written", [b"> hi\nwithout a mark\n", b"> \xff\n"])
def test_the_command_names_the_file_that_cannot_be_used(tmp_path: Path, written: bytes) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text(WRITTEN, "utf-8")
    bad.write_bytes(written)
    invocation = CliRunner().invoke(main, [str(good), str(bad), "--out", str(tmp_path / "out")])
    assert invocation.exit_code == 1
    assert f"Error: {bad}" in invocation.output
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_same_set_for_the_same_seed(tmp_path: Path) -> None:
    sources = [str(path) for path in sorted(EVERYDAY.glob("*.txt"))]
    assert len(sources) == 5
    for out in ("one", "two"):
        invocation = CliRunner().invoke(
            main, [*sources, "--out", str(tmp_path / out), "--rounds", "1"]
        )
        assert invocation.exit_code == 0, invocation.output
    one, two = (files(tmp_path / out) for out in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    held = {
        json.loads(line)["text"]
        for path in one
        for line in path.read_text("utf-8").split("\n")[:-1]
    }
    written = {
        line.text
        for path in EVERYDAY.glob("*.txt")
        for each in conversations(path.read_text("utf-8"))
        for line in each
    }
    assert held == written
    assert read_set(tmp_path / "one").messages > 1000
