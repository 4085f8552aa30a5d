"""Where the stream of one message ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from service.cli.daemon import stream_items
from service.domain.errors import Problem
from service.domain.history.events import (
    ErrorOccurred,
    Event,
    EventBody,
    IterationStarted,
    MessageMoved,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
)
from service.domain.history.human_input import InputRequired
from service.domain.history.own_part import is_last

PROBLEM = Problem(kind="disk", title="It is full")


@pytest.mark.parametrize(
    ("body", "seq", "ends"),
    [
        (RunLoopIdle(), 1, True),
        (InputRequired(request_id="r", kind="prompt", prompt="Which?"), 1, True),
        (RunLoopCompleted(), 1, True),
        (RunLoopFailed(problem=PROBLEM), 1, True),
        (RunLoopCancelled(reason="enough"), 1, True),
        (ErrorOccurred(problem=PROBLEM), None, True),
        (ErrorOccurred(problem=PROBLEM), 1, False),
        (IterationStarted(index=0, message_ids=("m",)), 1, False),
        (
            MessageMoved(message_ids=("m",), to_run_loop_id="b", iterations=(0, 1), history=(0, 2)),
            1,
            False,
        ),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else str(value),
)
def test_the_daemon_and_the_terminal_agree_on_what_ends_a_stream(
    body: EventBody, seq: int | None, ends: bool
) -> None:
    event = Event(seq=seq, owner="me", run_loop_id="a", at=datetime.now(UTC), body=body)
    seen = stream_items.SeenEvent(seq, "a", "", body.type, body, {})
    of_a_newer_daemon = stream_items.SeenEvent(seq, "a", "", body.type, None, {})
    assert [
        is_last(event),
        stream_items.is_rest(seen),
        stream_items.is_rest(of_a_newer_daemon),
    ] == [ends] * 3
