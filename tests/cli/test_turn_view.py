"""What a person sees while a message is worked on."""

from __future__ import annotations

from io import StringIO

import pytest
from pydantic import JsonValue
from rich.console import Console

from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.stream_items import SeenEvent
from service.wire.send_bodies import Accepted
from tests.support.cli.turn_views import ANCHOR, PROBLEM, delta, landed, received, shown, whole
from tests.support.cli.wire_events import ACCEPTED, IDLE, LANDED, LOOP, ROUTED, said, seen


def test_words_are_streamed_at_a_terminal_and_not_written_twice() -> None:
    out, _ = shown(ACCEPTED, ROUTED, delta("你好"), delta("，世"), whole("你好，世界"), IDLE)
    assert out == "你好，世界\n"


def test_what_was_missed_of_a_message_is_written_when_it_is_whole() -> None:
    assert shown(delta("Hel"), whole("Hello"))[0] == "Hello\n"
    assert shown(whole("Hello"))[0] == "Hello\n"


def test_words_that_are_dropped_are_said_to_be_dropped() -> None:
    retry = seen(4, "llm.retry", attempt=1, delay_seconds=2.0, problem=PROBLEM)
    out, aside = shown(delta("Half an"), retry, delta("All"), whole("All of it"))
    assert out == "Half an\nAll of it\n"
    assert "The answer broke off; the words above are dropped." in aside
    assert "2.0 s" in aside


def test_no_word_that_may_be_dropped_leaves_through_a_pipe() -> None:
    retry = seen(4, "llm.retry", attempt=1, delay_seconds=0.0, problem=PROBLEM)
    out, _ = shown(delta("Half an"), retry, delta("All"), whole("All"), terminal=False)
    assert out == "All\n"


def test_a_message_that_only_calls_tools_writes_no_empty_line() -> None:
    assert shown(whole(""), whole("Done."))[0] == "Done.\n"


def test_words_cannot_drive_the_terminal() -> None:
    out, aside = shown(
        delta("\x1b]0;title\x07red"),
        whole("\x1b]0;title\x07red"),
        seen(8, "tool.started", call_id="a", name="x", arguments="{}", idempotency_key="k"),
        seen(9, "tool.finished", call_id="a", name="x", content="\x1b[2Jgone"),
    )
    assert "\x1b" not in out + aside


def test_the_route_takes_one_line_of_a_terminal_and_names_the_topic_once() -> None:
    goal = "plan the week in the garden, and then the one after it"
    route: dict[str, JsonValue] = {
        "decision": "join",
        "run_loop_id": LOOP,
        "confidence": 0.9,
        "method": "embedding",
        "reason": f"it is close in meaning to “{goal[:30]}…” (0.91)",
        "candidates": [{"run_loop_id": LOOP, "goal": goal, "score": 0.91}],
    }
    aside = StringIO()
    narrow = Console(file=aside, force_terminal=True, color_system=None, width=60)
    view = TurnView(Console(file=StringIO()), narrow)
    view.show(seen(3, "route.decided", message_id="m1", route=route))
    view.close()
    line = aside.getvalue().splitlines()[0]
    assert line == f"joined {LOOP[:10]} · close in meaning to “plan the week in t…"


def test_recalled_pieces_are_counted() -> None:
    recalled = seen(5, "memory.recalled", recollections=[{"anchor": ANCHOR, "content": "x"}])
    assert "recalled 1 piece of earlier conversations" in shown(recalled)[1]


def test_a_turn_remembers_what_is_asked_until_it_is_answered() -> None:
    turn = Turn()
    asking = seen(5, "input.required", request_id="r", kind="approve", prompt="May it?")
    for item in (ACCEPTED, ROUTED, asking):
        turn.apply(item)
    assert (turn.outcome, turn.exit_code) == ("waiting", 3)
    turn.apply(seen(6, "input.received", request_id="r", approved=True))
    for item in (LANDED, whole("Done."), IDLE):
        turn.apply(item)
    assert (turn.outcome, turn.exit_code, turn.response) == ("answered", 0, "Done.")
    assert turn.last_seq == 9


def test_a_request_that_was_open_before_the_message_counts_too() -> None:
    turn = Turn()
    open_before = seen(None, "input.required", request_id="r", kind="approve", prompt="May it?")
    for item in (ACCEPTED, ROUTED, open_before):
        turn.apply(item)
    assert (turn.outcome, turn.exit_code, turn.last_seq) == ("waiting", 3, 3)


# --- messages to a loop that is at work


@pytest.mark.parametrize(
    ("mode", "when"), [("steer", "at its next step"), ("followup", "after its answer")]
)
def test_what_was_said_to_others_is_not_taken_for_the_answer(mode: str, when: str) -> None:
    before = (received("m1", "And Rome?", mode), ROUTED, delta("Paris is"), whole("Paris is big."))
    after = (landed("m1"), delta("Rome"), whole("Rome too."), IDLE)
    for terminal in (True, False):
        turn = Turn()
        out, aside = shown(ACCEPTED, *before, *after, terminal=terminal, turn=turn)
        assert out == "Rome too.\n"
        assert f"your message is seen {when}" in aside
        assert aside.count("your message is seen now") == 1
        assert turn.response == "Rome too."


def test_a_message_that_is_seen_at_once_is_not_announced() -> None:
    turn = Turn()
    items = (ACCEPTED, received("m1", "Hello"), ROUTED, LANDED, whole("Hi."), IDLE)
    assert "seen" not in shown(*items, turn=turn)[1]


def test_what_was_recalled_for_the_message_is_told_when_it_is_seen() -> None:
    piece: dict[str, JsonValue] = {"anchor": ANCHOR, "content": "x"}
    turn = Turn()
    _, aside = shown(
        ACCEPTED,
        received("m1", "Hello"),
        seen(3, "memory.recalled", recollections=[piece, piece]),
        landed("m0"),
        seen(5, "memory.recalled", recollections=[piece]),
        landed("m1"),
        turn=turn,
    )
    assert "recalled 1 piece" in aside
    assert "2 pieces" not in aside
    assert turn.recalled == 1


def test_a_turn_is_over_when_it_is_answered_and_another_message_is_seen() -> None:
    turn = Turn()
    for item in (ACCEPTED, ROUTED, landed("m1"), whole("To you."), landed("m2"), whole("To them.")):
        turn.apply(item)
    assert (turn.over, turn.outcome, turn.response) == (True, "answered", "To you.")


def test_a_message_that_steers_in_the_middle_is_answered_with_the_first() -> None:
    turn = Turn()
    calling: dict[str, JsonValue] = {**said("Looking."), "tool_calls": [{"id": "c", "name": "x"}]}
    for item in (
        ACCEPTED,
        landed("m1"),
        seen(7, "message.completed", message=calling),
        landed("m2"),
        whole("To both."),
        IDLE,
    ):
        turn.apply(item)
    assert (turn.over, turn.outcome, turn.response) == (False, "answered", "To both.")


def test_messages_of_others_are_told_when_they_are_seen() -> None:
    _, aside = shown(LANDED, whole(""), received("m2", "Vegetarian!"), landed("m2"))
    assert "seen now: “Vegetarian!”" in aside


def test_an_interrupt_is_told_with_its_words_and_keeps_what_was_read() -> None:
    out, aside = shown(
        LANDED,
        delta("It goes"),
        seen(7, "message.completed", message=said("It goes"), cut=True),
        received("m2", "No, pizza!", "interrupt"),
        seen(9, "run_loop.interrupted", message_id="m2"),
        landed("m2"),
        whole("Pizza it is."),
    )
    assert out == "It goes\nPizza it is.\n"
    assert "stopped, to take this instead: “No, pizza!”" in aside
    assert "seen now" not in aside


def test_words_that_were_cut_off_do_not_leave_through_a_pipe() -> None:
    cut = seen(7, "message.completed", message=said("It goes"), cut=True)
    turn = Turn()
    cancelled = seen(8, "run_loop.cancelled")
    out, aside = shown(ACCEPTED, LANDED, cut, cancelled, terminal=False, turn=turn)
    assert (out, turn.response, turn.outcome) == ("", "", "cancelled")
    assert "cancelled" in aside


def test_a_loop_that_is_taken_up_again_says_so() -> None:
    assert "taken up again" in shown(seen(3, "run_loop.resumed"), landed())[1]


# --- long conversations


def test_a_compaction_is_told_in_words() -> None:
    _, aside = shown(
        seen(4, "compaction.started", tokens=12300, limit=12000),
        seen(
            5,
            "compaction.finished",
            messages=14,
            method="model",
            tokens_before=12300,
            tokens_after=4100,
        ),
    )
    assert "nears the end of the model's window" in aside
    assert "summarised 14 messages (12,300 → 4,100 tokens)" in aside


def test_the_route_of_another_message_is_not_taken_for_ones_own() -> None:
    turn = Turn()
    turn.apply(Accepted(message_id="m2", replayed=False))
    turn.apply(ROUTED)
    assert turn.route is None


def part(run_loop_id: str, goal: str, *, waits: bool = False) -> SeenEvent:
    data: dict[str, JsonValue] = {"message_id": "m1.2", "goal": goal, "waits_for_input": waits}
    wire: dict[str, JsonValue] = {"run_loop_id": run_loop_id, "data": data}
    return SeenEvent(None, run_loop_id, "", "message.delivered", None, wire)


def test_where_another_part_of_the_message_went_is_told_and_kept() -> None:
    turn = Turn()
    _, aside = shown(ACCEPTED, ROUTED, LANDED, part("trip", "订周五的机票"), IDLE, turn=turn)
    assert "also: “订周五的机票” · in run loop trip" in aside
    assert turn.run_loop_id == LOOP
    expected = {"message_id": "m1.2", "run_loop_id": "trip", "goal": "订周五的机票"}
    assert turn.as_json()["parts"] == [{**expected, "waits_for_input": False}]


def test_a_part_that_waits_for_an_answer_is_told_with_where_the_question_is() -> None:
    waiting = part("trip", "book it", waits=True)
    _, aside = shown(ACCEPTED, ROUTED, LANDED, waiting, IDLE, turn=Turn())
    assert "in run loop trip, which waits for you: rondo loops show trip" in aside


def test_a_part_that_is_still_on_its_way_is_told_as_such() -> None:
    turn = Turn()
    _, aside = shown(ACCEPTED, ROUTED, LANDED, part("", ""), IDLE, turn=turn)
    assert "on its way to its run loop" in aside


def test_what_a_tool_writes_is_shown_by_whole_lines_and_before_what_it_came_to() -> None:
    def written(text: str) -> SeenEvent:
        return seen(None, "tool.output", call_id="c", text=text)

    _, aside = shown(
        seen(7, "tool.started", call_id="c", name="run", arguments="{}", idempotency_key="k"),
        written("one\ntw"),
        written("o\x1b[31m\nlast"),
        seen(8, "tool.finished", call_id="c", name="run", content="it ended", is_error=False),
    )
    lines = [line.strip() for line in aside.splitlines()]
    assert lines[:3] == ["│ one", "│ two[31m", "│ last"]
    assert "it ended" in lines[3]
