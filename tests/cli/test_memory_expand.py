"""`rondo memory expand`: what is shown of remembered run loops."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from service.cli.views.memory_views import print_window
from service.domain.anchors import Anchor, ExpandedWindow, Segment
from service.domain.run_loops import RunLoopSummary
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import sent

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def piece(index: int, words: str) -> Segment:
    anchor = Anchor(
        run_loop_id="a b",
        iteration_index=0,
        segment_index=index,
        segment_type="user_message",
        timestamp=AT,
    )
    return Segment(anchor=anchor, content=words, owner="me")


def test_a_window_marks_what_was_asked_for_and_tells_where_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pieces = (piece(0, "第一句"), piece(1, "the second"), piece(2, "the third \x1b[2J"))
    window = ExpandedWindow(
        run_loop=RunLoopSummary(
            id="a b",
            owner="me",
            goal="旅行",
            status="completed",
            created_at=AT,
            updated_at=AT,
            predecessor_id="earlier",
        ),
        focus=(pieces[0], pieces[2]),
        segments=pieces,
        successor_ids=("later one", "last"),
    )
    print_window(window)
    shown = capsys.readouterr()
    marked = [line for line in shown.out.splitlines() if line.startswith("›")]
    assert len(marked) == 2
    assert "第一句" in marked[0]
    assert "\x1b[2J" not in shown.out
    assert shown.err.splitlines() == [
        "it took up an earlier one: rondo memory expand earlier:0.0",
        "it was taken up again: rondo memory expand later%20one:0.0",
        "it was taken up again: rondo memory expand last:0.0",
    ]


@pytest.mark.slow
def test_at_least_one_anchor_is_asked_for(terminal: Terminal) -> None:
    result = terminal.run("memory", "expand")
    assert result.exit_code == 2
    assert "ANCHOR" in result.stderr


@pytest.mark.slow
def test_several_anchors_of_an_open_loop_are_shown_as_one_window(terminal: Terminal) -> None:
    loop_id = sent(terminal, "Where is the ladder kept?")["run_loop_id"]
    options = ("--before", "0", "--after", "0", "--max-tokens", "500")
    anchors = [f"{loop_id}:0.0", f"{loop_id}:0.1"]
    shown = terminal.run("memory", "expand", *anchors, *options)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.count("›") == 2
    assert shown.stdout.count(loop_id) == 1, "one window, one heading"
    expansion = json.loads(terminal.run("memory", "expand", *anchors, *options, "--json").stdout)
    assert [len(window["segments"]) for window in expansion["windows"]] == [2]
    whole = terminal.run(
        "memory", "expand", anchors[1], "--unit", "iterations", *options[:4], "--json"
    )
    assert len(json.loads(whole.stdout)["before"]) == 1
