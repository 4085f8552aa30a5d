"""What a person sees while a message is worked on."""

from __future__ import annotations

from io import StringIO

from pydantic import JsonValue
from rich.console import Console

from service.cli.turn import Turn
from service.cli.turn_view import TurnView
from service.cli.wire import Accepted, SeenEvent
from tests.cli.events import ACCEPTED, IDLE, LANDED, LOOP, ROUTED, said, seen

PROBLEM: dict[str, JsonValue] = {"kind": "llm-stream", "title": "The answer broke off"}


def shown(*items: Accepted | SeenEvent, terminal: bool = True) -> tuple[str, str]:
    """The words on standard output and on standard error."""
    out, aside = StringIO(), StringIO()
    view = TurnView(
        Console(file=out, force_terminal=terminal, color_system=None, width=80),
        Console(file=aside, color_system=None, width=80),
    )
    for item in items:
        view.show(item)
    view.close()
    return out.getvalue(), aside.getvalue()


def delta(text: str) -> SeenEvent:
    return seen(None, "message.delta", text=text)


def whole(text: str) -> SeenEvent:
    return seen(7, "message.completed", message=said(text))


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


def test_the_route_takes_one_line_of_a_terminal_and_names_the_matter_once() -> None:
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
    anchor: dict[str, JsonValue] = {
        "run_loop_id": "x",
        "iteration_index": 0,
        "segment_index": 0,
        "segment_type": "response",
        "timestamp": "2026-03-31T12:00:00Z",
    }
    recalled = seen(5, "memory.recalled", recollections=[{"anchor": anchor, "content": "x"}])
    assert "recalled 1 piece of earlier matters" in shown(recalled)[1]


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


def test_the_route_of_another_message_is_not_taken_for_ones_own() -> None:
    turn = Turn()
    turn.apply(Accepted("m2", replayed=False))
    turn.apply(ROUTED)
    assert turn.route is None
