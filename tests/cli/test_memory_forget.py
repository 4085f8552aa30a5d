"""`rondo memory forget`: never by mistake."""

from __future__ import annotations

import json

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import sent


@pytest.mark.slow
def test_nothing_is_forgotten_without_a_clear_yes(terminal: Terminal) -> None:
    loop = sent(terminal, "The vermilion sextant is in the mill.")["run_loop_id"]
    terminal.run("loops", "complete", loop)
    refused = terminal.run("memory", "forget", "--loop", loop, stdin="y\n")
    assert refused.exit_code == 1
    assert "Nothing was forgotten" in refused.stderr
    assert "vermilion sextant" in refused.stdout
    shown = json.loads(terminal.run("memory", "forget", "--loop", loop, "--json").stdout)
    assert [each["id"] for each in shown["run_loops"]] == [loop]
    assert terminal.run("loops", "show", loop).exit_code == 0

    done = terminal.run("memory", "forget", "--loop", loop, "--yes")
    assert done.exit_code == 0, done.stderr
    assert "forgotten: 1 run loop" in done.stdout
    assert terminal.run("loops", "show", loop).exit_code == 1
    receipts = terminal.run("memory", "forget", "--receipts")
    assert "forgotten: 1 run loop" in receipts.stdout
    assert "vermilion" not in receipts.stdout


def test_a_forgotten_iteration_is_shown_as_such(terminal: Terminal) -> None:
    loop = sent(terminal, "The ochre astrolabe is in the barn.")["run_loop_id"]
    sent(terminal, "Thank you for that.", "--loop", loop)
    done = terminal.run("memory", "forget", "--query", "ochre astrolabe", "--exact", "--yes")
    assert done.exit_code == 0, done.stderr
    shown = terminal.run("loops", "show", loop)
    assert "[forgotten]" in shown.stdout
    assert "ochre" not in shown.stdout
    assert "Thank you for that." in shown.stdout


def test_an_active_run_loop_is_told_and_left_alone(terminal: Terminal) -> None:
    loop = sent(terminal, "The teal quadrant is in the loft.")["run_loop_id"]
    refused = terminal.run("memory", "forget", "--loop", loop, "--yes")
    assert refused.exit_code == 1
    assert "active" in refused.stderr
    assert "teal quadrant" in terminal.run("loops", "show", loop).stdout


@pytest.mark.slow
def test_places_that_tell_it_are_told_from_those_that_only_saw_it(terminal: Terminal) -> None:
    loop = sent(terminal, "The umber padlock opens with 4711.")["run_loop_id"]
    sent(terminal, "Say 4711 again.", "--loop", loop)
    sent(terminal, "谢谢你。", "--loop", loop)
    command = ("memory", "forget", "--anchor", f"{loop}:0.0")
    shown = terminal.run(*command).stdout
    assert "--with-answers takes them:" in shown
    assert f"{loop}:1  answer: You said: Say 4711 again." in shown
    assert "--with-all-that-saw takes them:" in shown
    assert f"{loop}:2  answer: You said: 谢谢你。" in shown
    assert f"{loop}:1  you said it  Say 4711 again." in shown
    assert "Places that tell it, which go too:" in terminal.run(*command, "--with-answers").stdout
    done = terminal.run(*command, "--with-all-that-saw", "--yes")
    assert done.exit_code == 0, done.stderr
    left = terminal.run("loops", "show", loop).stdout
    assert left.count("4711") == 1  # what the person said
    assert left.count("谢谢你。") == 1
