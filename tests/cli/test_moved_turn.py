"""A message that is moved while a person watches its answer at a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.stream_items import SeenEvent
from service.wire.send_bodies import Accepted
from tests.support.cli.wire_events import ACCEPTED, LANDED, ROUTED, said, seen

MOVED = seen(
    7,
    "message.moved",
    message_ids=["m1"],
    to_run_loop_id="other",
    iterations=[0, 1],
    history=[0, 1],
)
THERE = [
    seen(
        9,
        "route.decided",
        message_id="m1",
        route={
            "decision": "join",
            "run_loop_id": "other",
            "confidence": 1,
            "method": "person",
            "reason": "a person moved it here",
        },
    ),
    seen(10, "iteration.started", index=3, message_ids=["m1"]),
    seen(None, "message.delta", text="By train."),
    seen(11, "message.completed", message=said("By train.")),
    seen(12, "run_loop.idle"),
]


def watched(*items: Accepted | SeenEvent) -> tuple[Turn, str, str]:
    out, aside = StringIO(), StringIO()
    turn = Turn()
    view = TurnView(Console(file=out, width=80), Console(file=aside, width=80), turn=turn)
    for item in items:
        turn.apply(item)
        view.show(item)
    view.close()
    return turn, out.getvalue(), aside.getvalue()


def test_the_answer_that_counts_is_the_one_from_its_new_loop() -> None:
    begun = seen(6, "message.completed", message=said("About the bill: "))
    turn, out, aside = watched(ACCEPTED, ROUTED, LANDED, begun, MOVED, *THERE)
    assert turn.response == "By train."
    assert turn.outcome == "answered"
    assert turn.route is not None
    assert turn.route.method == "person"
    assert "By train." in out
    assert "moved to another run loop" in aside


def test_it_is_not_taken_for_answered_before_its_new_loop_has_answered_it() -> None:
    turn, _, _ = watched(ACCEPTED, ROUTED, LANDED, MOVED, THERE[0])
    assert turn.outcome == "open"
    assert not turn.landed


def test_another_message_that_is_moved_away_changes_nothing() -> None:
    other = seen(
        7,
        "message.moved",
        message_ids=["m2"],
        to_run_loop_id="x",
        iterations=[1, 1],
        history=[1, 1],
    )
    answer = seen(8, "message.completed", message=said("Yes."))
    turn, out, aside = watched(ACCEPTED, ROUTED, LANDED, other, answer, seen(9, "run_loop.idle"))
    assert turn.response == "Yes."
    assert "Yes." in out
    assert "moved" not in aside
