"""`rondo schedules`, and what a terminal tells of what came due."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cli.commands import Terminal

pytestmark = pytest.mark.slow


def added(terminal: Terminal, *arguments: str) -> str:
    result = terminal.run("schedules", "add", *arguments, TZ="Europe/Berlin")
    assert result.exit_code == 0, result.output
    return result.stdout.split()[0]


def come_due(terminal: Terminal, what: str) -> None:
    """Have something told in a moment, and wait for it."""
    for seconds in (0.5, 2, 4, 8, 16):  # a busy machine may take longer than that to read it
        soon = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        result = terminal.run("schedules", "add", what, soon)
        if result.exit_code == 0:
            break
    deadline = time.monotonic() + 60
    while "ran" not in terminal.run("schedules", "show", result.stdout.split()[0]).stdout:
        assert time.monotonic() < deadline


def test_a_reminder_is_added_listed_paused_resumed_and_removed(terminal: Terminal) -> None:
    schedule = added(terminal, "water the plants", "every weekday at 8")
    shown = terminal.run("schedules", "show", schedule[:-2]).stdout
    assert "Reminder: water the plants" in shown
    assert "every weekday at 08:00 (Europe/Berlin)  [active]" in shown
    assert re.search(r"next: \w+ \d{4}-\d\d-\d\d \d\d:\d\d, ", shown)
    assert "water the plants" in terminal.run("schedules").stdout
    assert "[paused]" in terminal.run("schedules", "pause", schedule).stdout
    assert "[active]" in terminal.run("schedules", "resume", schedule).stdout
    removed = terminal.run("schedules", "remove", schedule)
    assert removed.stdout == f"removed  {schedule}  water the plants\n"
    gone = terminal.run("schedules", "show", schedule)
    assert gone.exit_code == 1
    assert "no schedule has an id that begins with" in gone.stderr


def test_times_are_told_in_one_zone_and_what_comes_next_stands_first(terminal: Terminal) -> None:
    zone = ("--zone", "Asia/Shanghai")
    daily = terminal.run("schedules", "add", "tea", "every day at 9", *zone, TZ="Europe/Berlin")
    assert daily.stdout.count(" 09:00") == 4  # the rule, and three times
    assert daily.stdout.count("(Asia/Shanghai)") == 2
    soon = terminal.run("schedules", "add", "rice", "in 2 minutes", *zone, TZ="Europe/Berlin")
    assert soon.stdout.count("(Asia/Shanghai)") == 1
    assert "next:" not in soon.stdout
    listed = terminal.run("schedules").stdout
    assert listed.index("rice") < listed.index("tea")
    for each in (daily, soon):
        terminal.run("schedules", "remove", each.stdout.split()[0])


def test_what_is_not_clear_is_refused_with_an_example(terminal: Terminal) -> None:
    refused = terminal.run("schedules", "add", "call mum", "at 3")
    assert refused.exit_code == 1
    assert "3 could be in the morning or in the afternoon" in refused.stderr
    assert "Say 3am, 3pm or 15:00" in refused.stderr
    usage = terminal.run("schedules", "add", "call mum", "at 9", "--allow", "calculator")
    assert usage.exit_code == 2
    assert "--allow goes with --do" in usage.stderr


def test_a_task_runs_now_in_a_run_loop_of_its_own(terminal: Terminal) -> None:
    schedule = added(terminal, "总结新闻", "每天早上八点", "--do", "--allow", "calculator")
    listed = json.loads(terminal.run("schedules", "list", "--json").stdout)
    [mine] = [each for each in listed if each["id"] == schedule]
    assert (mine["kind"], mine["when"]) == ("task", "每天 08:00 (Europe/Berlin)")
    assert mine["allow"] == ["calculator"]
    ran = terminal.run("schedules", "run", schedule)
    assert "总结新闻" in terminal.run("loops", "show", ran.stdout.strip()).stdout
    assert "ran (by you)" in terminal.run("schedules", "show", schedule).stdout
    terminal.run("schedules", "remove", schedule)


def test_the_next_message_or_chat_tells_what_came_due_and_tells_it_once(
    terminal: Terminal,
) -> None:
    come_due(terminal, "call mum")
    first = terminal.run("send", "Hello", "--new")
    assert "Reminder: call mum" in first.stderr
    assert "Reminder: call mum" not in first.stdout
    assert "Reminder: call mum" not in terminal.run("send", "Hello", "--new").stderr
    come_due(terminal, "call dad")
    assert "Reminder: call dad" in terminal.run("chat", stdin="/quit\n").stderr
    assert "Reminder: call dad" not in terminal.run("chat", stdin="/quit\n").stderr
