"""`rondo loops reroute`, and the reasons that `rondo loops` gives, against a real daemon."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


def shown(terminal: Terminal, loop: str) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
    return details


def test_a_message_is_moved_by_the_beginnings_of_ids(terminal: Terminal) -> None:
    trip = sent(terminal, "去里斯本的旅行，带孩子")["run_loop_id"]
    bill = sent(terminal, "牙医的发票在哪里？")["run_loop_id"]
    sent(terminal, "坐火车去", "--loop", bill)
    moved = terminal.run("loops", "reroute", bill[:13], "--to", trip[:13])
    assert moved.exit_code == 0, moved.stderr
    assert trip in moved.stdout
    there, here = (terminal.run("loops", "show", each).stdout for each in (trip, bill))
    assert "坐火车去" in there
    assert f"you moved it here from {bill[:10]}" in there
    assert "坐火车去" not in here
    assert f"to {trip}" in here
    listed = {
        line.split()[0]: line for line in terminal.run("loops", COLUMNS="120").stdout.splitlines()
    }
    assert "moved here" in listed[trip]
    assert f"→ {trip[:10]}" in listed[bill]


def test_a_certain_message_goes_to_a_new_loop_and_no_second_one_when_asked_again(
    terminal: Terminal,
) -> None:
    loop = sent(terminal, "one matter")["run_loop_id"]
    sent(terminal, "another matter", "--loop", loop)
    message = shown(terminal, loop)["routes"][0]["message_id"]
    arguments = ("loops", "reroute", loop, "--message", message, "--new", "--json")
    first, again = (json.loads(terminal.run(*arguments).stdout) for _ in range(2))
    assert first == again
    assert first["run_loop"]["goal"] == "one matter"
    assert shown(terminal, loop)["goal"] == "another matter"


def test_what_is_passed_on_to_another_program_has_no_line_broken(terminal: Terminal) -> None:
    said = "that I would like to " * 9 + "sail"
    loop = sent(terminal, said)["run_loop_id"]
    lines = terminal.run("loops", "show", loop, COLUMNS="60").stdout.splitlines()
    assert f"you     {said}" in lines
    assert f"rondo   You said: {said}" in lines


def test_it_must_be_said_where_to(terminal: Terminal) -> None:
    loop = sent(terminal, "stay")["run_loop_id"]
    for arguments in ((), ("--new", "--to", loop)):
        refused = terminal.run("loops", "reroute", loop, *arguments)
        assert refused.exit_code == 2
        assert "--to LOOP or --new or --undo" in refused.stderr
    same = terminal.run("loops", "reroute", loop, "--to", loop)
    assert same.exit_code == 1
    assert "already" in same.stderr


def test_watching_a_loop_tells_where_a_message_went(terminal: Terminal) -> None:
    loop = sent(terminal, "watch me go")["run_loop_id"]
    rerouted = json.loads(terminal.run("loops", "reroute", loop, "--new", "--json").stdout)
    watched = terminal.run("loops", "watch", loop)
    assert f"1 message → {rerouted['to'][:10]}" in watched.stdout
    assert rerouted["to"] in watched.stdout
