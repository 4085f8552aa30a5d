"""`rondo loops`, against a real daemon process."""

from __future__ import annotations

import json

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import sent

pytestmark = pytest.mark.slow


def test_loops_lists_what_there_is_newest_first(terminal: Terminal) -> None:
    first = sent(terminal, "first 番茄")["run_loop_id"]
    second = sent(terminal, "second")["run_loop_id"]
    listed = json.loads(terminal.run("loops", "list", "--json").stdout)
    ids = [loop["id"] for loop in listed]
    assert ids.index(second) < ids.index(first)
    table = terminal.run("loops").stdout
    assert first in table
    assert "first 番茄" in table


def test_a_beginning_of_an_id_that_only_one_loop_has_is_enough(terminal: Terminal) -> None:
    loop = sent(terminal, "shorten me")["run_loop_id"]
    shown = terminal.run("loops", "show", loop[:12])
    assert shown.exit_code == 0
    assert "shorten me" in shown.stdout
    ambiguous = terminal.run("loops", "show", loop[:2])
    assert ambiguous.exit_code == 1
    assert "Give more of the id" in ambiguous.stderr
    unknown = terminal.run("loops", "show", "zzz")
    assert unknown.exit_code == 1
    assert "zzz" in unknown.stderr


def test_show_has_the_words_of_people_and_tools(terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of 二 and two")["run_loop_id"]
    shown = terminal.run("loops", "show", loop).stdout
    assert "the sum of 二 and two" in shown
    assert "calculator(expression='2 + 2')" in shown
    assert "The sum is 4." in shown
    whole = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
    assert whole["iterations"][-1]["response"] == "The sum is 4."


def test_show_says_where_an_answer_was_cut_off(terminal: Terminal) -> None:
    answered = sent(terminal, "tell it all")
    assert (answered["response"], answered["finish_reason"]) == (
        "It begins, goes on, and ends.",
        None,
    )
    shown = terminal.run("loops", "show", answered["run_loop_id"]).stdout
    assert shown.count("The answer was cut off at the model's limit of tokens.") == 1
    terminal.run("loops", "complete", answered["run_loop_id"])
    watched = terminal.run("loops", "watch", answered["run_loop_id"]).stdout
    assert "goes on with its answer" in watched
    assert "(The answer was cut off" in watched


def test_completing_a_loop_ends_it_once(terminal: Terminal) -> None:
    loop = sent(terminal, "finish me")["run_loop_id"]
    done = terminal.run("loops", "complete", loop)
    assert done.exit_code == 0
    assert done.stdout.startswith("completed")
    again = terminal.run("loops", "cancel", loop)
    assert again.exit_code == 1
    assert "completed already" in again.stderr


def test_a_long_conversation_is_summarised_on_demand(terminal: Terminal) -> None:
    loop = sent(terminal, "short")["run_loop_id"]
    refused = terminal.run("loops", "compact", loop)
    assert refused.exit_code == 1
    assert "nothing to summarise" in refused.stderr
    for words in ("first 一 ", "second 二 "):
        sent(terminal, words + "and so on and so on. " * 100, "--loop", loop)
    done = terminal.run("loops", "compact", loop)
    assert done.exit_code == 0
    assert "summarised 4 messages (" in done.stdout
    again = terminal.run("loops", "compact", loop, "--json")
    assert "nothing to summarise" in again.stderr
    watched = terminal.run("loops", "show", loop).stdout
    assert "second 二" in watched


def test_looking_over_answers_is_switched_by_a_command(terminal: Terminal) -> None:
    assert terminal.run("enhance").stdout == "Answers stand as they are.\n"
    try:
        assert terminal.run("enhance", "on").stdout == "Each answer is looked over once more.\n"
        assert json.loads(terminal.run("enhance", "--json").stdout) == {"enabled": True}
        loop = sent(terminal, "twice?")["run_loop_id"]
        whole = json.loads(terminal.run("loops", "show", loop, "--json").stdout)
        assert len(whole["iterations"]) == 2
    finally:
        assert json.loads(terminal.run("enhance", "off", "--json").stdout) == {"enabled": False}
    assert terminal.run("enhance", "maybe").exit_code == 2


def test_watch_of_a_loop_tells_its_whole_story_and_ends_with_it(terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of it")["run_loop_id"]
    terminal.run("loops", "complete", loop)
    watched = terminal.run("loops", "watch", loop)
    assert watched.exit_code == 0
    for event in ("run_loop.started", "tool.finished", "message.completed", "run_loop.completed"):
        assert event in watched.stdout
    lines = terminal.run("loops", "watch", loop, "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in lines][-1] == "run_loop.completed"


def test_a_stream_is_taken_up_where_it_was_left(daemon: DaemonProcess, terminal: Terminal) -> None:
    loop = sent(terminal, "the sum of it")["run_loop_id"]
    terminal.run("loops", "complete", loop)
    with daemon.client() as client:
        whole = list(client.events(loop))
        for place in whole:
            rest = list(client.events(loop, after=place.seq))
            assert rest == whole[whole.index(place) + 1 :]


def seq_of(watched: str, event: str) -> str:
    """The number before the first event of this type."""
    return next(line.split()[0] for line in watched.splitlines() if f" {event} " in line)


def test_a_loop_is_shown_and_forked_by_the_numbers_that_watch_tells(terminal: Terminal) -> None:
    loop = sent(terminal, "hello 一")["run_loop_id"]
    sent(terminal, "more of it", "--loop", loop)
    terminal.run("loops", "complete", loop)
    watched = terminal.run("loops", "watch", loop).stdout
    resting = seq_of(watched, "run_loop.idle")

    was = terminal.run("loops", "show", loop, "--at", resting)
    assert was.exit_code == 0
    assert "You said: hello 一" in was.stdout
    assert "more of it" not in was.stdout
    assert f"after event {resting}" in was.stderr

    forked = terminal.run("loops", "fork", loop, "--at", resting)
    assert forked.exit_code == 0
    status, fork, *_ = forked.stdout.split()
    assert status == "idle"
    again = sent(terminal, "another way", "--loop", fork)
    assert again["run_loop_id"] == fork
    shown = terminal.run("loops", "show", fork, COLUMNS="200").stdout
    assert f"forked from {loop} after event {resting}" in shown
    assert "more of it" not in shown
    assert json.loads(terminal.run("loops", "fork", loop, "--json").stdout)["iterations"][1:]

    before = terminal.run("loops", "show", loop, "--at", str(int(watched.split()[0]) - 1))
    assert before.exit_code == 1
    assert "has no event" in before.stderr
    assert terminal.run("loops", "fork", loop, "--at", "0").exit_code == 2


def test_a_loop_that_has_failed_is_taken_up_again(terminal: Terminal) -> None:
    loop = sent(terminal, "to be refused")["run_loop_id"]
    resumed = terminal.run("loops", "resume", loop)
    assert resumed.exit_code == 0
    assert resumed.stdout.startswith("running")
    watched = terminal.run("loops", "watch", loop).stdout  # until it is refused again
    assert watched.count("run_loop.failed") == 2
    assert watched.count("run_loop.resumed") == 1

    again = sent(terminal, "something else", "--loop", loop)
    assert (again["run_loop_id"], again["response"]) == (loop, "You said: something else")
    idle = terminal.run("loops", "resume", loop)
    assert idle.exit_code == 1
    assert "is idle" in idle.stderr
