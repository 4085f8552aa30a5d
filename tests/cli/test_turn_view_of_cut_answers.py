"""What a person sees of an answer that is bettered, or is not whole."""

from __future__ import annotations

from io import StringIO

import pytest
from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console

from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.stream_items import SeenEvent
from tests.support.cli.turn_views import ANCHOR, PROBLEM, delta, landed, received, shown, whole
from tests.support.cli.wire_events import ACCEPTED, IDLE, LANDED, ROUTED, said, seen

# --- a better answer


@pytest.mark.parametrize("terminal", [True, False])
def test_a_better_answer_replaces_the_first_one(terminal: bool) -> None:
    turn = Turn()
    first = (ACCEPTED, LANDED, delta("4"), whole("4"))
    better = (landed(nudge="Look over it."), delta("It is"), whole("It is 4."), IDLE)
    out, aside = shown(*first, *better, terminal=terminal, turn=turn)
    assert out == ("4\nIt is 4.\n" if terminal else "It is 4.\n")
    assert "looking over the answer once more" in aside
    assert turn.response == "It is 4."


@pytest.mark.parametrize("terminal", [True, False])
def test_an_answer_that_cannot_be_bettered_is_written_once(terminal: bool) -> None:
    items = (LANDED, delta("4"), whole("4"), landed(nudge="Look over it."), delta("4"), whole("4"))
    out, aside = shown(*items, IDLE, terminal=terminal)
    assert out == "4\n"
    assert "it stands as it is" in aside


def test_an_answer_is_not_lost_when_bettering_it_fails() -> None:
    failed = seen(9, "run_loop.failed", problem=PROBLEM)
    items = (LANDED, whole("4"), landed(nudge="Look over it."), failed)
    assert shown(*items, terminal=False)[0] == "4\n"


# --- an answer that is not whole


def completed(text: str, reason: str | None = None) -> SeenEvent:
    return seen(7, "message.completed", message=said(text), finish_reason=reason)


GOES_ON = seen(8, "iteration.started", index=1, message_ids=[], nudge="Go on.", continues=True)
CUT_OFF = "The answer was cut off at the model's limit of tokens."


@pytest.mark.parametrize("terminal", [True, False])
def test_an_answer_that_goes_on_is_one_answer(terminal: bool) -> None:
    turn = Turn()
    out, aside = shown(
        *(ACCEPTED, LANDED, delta("One, "), delta("thr"), completed("One, thr", "length")),
        *(GOES_ON, delta("ee"), completed("ee, fi", "length")),
        *(GOES_ON, delta("ve."), completed("ve."), IDLE),
        terminal=terminal,
        turn=turn,
    )
    assert out == "One, three, five.\n"
    assert turn.as_json()["response"] == "One, three, five."
    assert turn.as_json()["finish_reason"] is None
    assert "cut off" not in aside
    assert "once more" not in aside


@pytest.mark.parametrize("terminal", [True, False])
def test_an_answer_that_stays_cut_off_is_told_once(terminal: bool) -> None:
    turn = Turn()
    out, aside = shown(
        *(ACCEPTED, LANDED, delta("One, "), completed("One, ", "length")),
        *(GOES_ON, delta("two, "), completed("two, ", "length"), IDLE),
        terminal=terminal,
        turn=turn,
    )
    assert out.strip() == "One, two,"
    assert out.endswith("\n")
    assert aside.count(CUT_OFF) == 1
    assert turn.as_json()["finish_reason"] == "length"
    assert turn.exit_code == 0


@pytest.mark.parametrize("terminal", [True, False])
def test_an_answer_that_a_filter_stopped_says_so(terminal: bool) -> None:
    out, aside = shown(
        LANDED, delta("One"), completed("One", "content_filter"), IDLE, terminal=terminal
    )
    assert out == "One\n"
    assert aside.count("The endpoint's content filter stopped the answer here.") == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_words_that_only_repeat_the_answer_are_not_part_of_it(terminal: bool) -> None:
    turn = Turn()
    out, aside = shown(
        *(ACCEPTED, LANDED, delta("One, "), completed("One, ", "length"), GOES_ON, delta("One, ")),
        seen(9, "error", problem={"kind": "answer-repeats", "title": "It did not go on"}),
        *(seen(10, "iteration.abandoned", index=1), IDLE),
        terminal=terminal,
        turn=turn,
    )
    assert turn.as_json()["response"] == "One, "
    assert "It did not go on" in aside
    assert CUT_OFF in aside
    if terminal:
        assert "do not count" in aside
    else:
        assert out == "One,\n"


def test_a_message_after_a_cut_answer_begins_on_a_line_of_its_own() -> None:
    out, aside = shown(
        *(LANDED, delta("One, "), completed("One, ", "length")),
        *(received("m2", "Stop!"), landed("m2"), delta("I stop."), completed("I stop."), IDLE),
    )
    assert [line.strip() for line in out.splitlines()] == ["One,", "I stop."]
    assert aside.count(CUT_OFF) == 1


def test_a_cut_answer_that_is_cancelled_says_that_alone() -> None:
    _, aside = shown(
        *(LANDED, delta("One, "), completed("One, ", "length"), GOES_ON, delta("two")),
        seen(9, "message.completed", message=said("two"), cut=True),
        seen(10, "run_loop.cancelled"),
    )
    assert "cancelled" in aside
    assert CUT_OFF not in aside


@pytest.mark.parametrize(
    "content", ["The code of my bike lock is 4817.", "我的自行车锁的密码是 4817，" * 9]
)
def test_words_that_answer_stand_below_the_finished_answer(content: str) -> None:
    piece: dict[str, JsonValue] = {"anchor": ANCHOR, "content": content, "answers": True}
    other: dict[str, JsonValue] = {"anchor": ANCHOR, "content": "Of the same matter."}
    recalled = seen(5, "memory.recalled", recollections=[other, piece])
    turn, aside = Turn(), StringIO()
    view = TurnView(
        Console(file=StringIO()), Console(file=aside, color_system=None, width=60), turn=turn
    )
    for item in (ACCEPTED, ROUTED, recalled, landed("m1"), whole("It is 4871."), IDLE):
        assert "You said" not in aside.getvalue()
        turn.apply(item)
        view.show(item)
    view.close()
    where, words = aside.getvalue().splitlines()[-2:]
    assert where == "You said on Tuesday, 31 March:  rondo memory expand x:0.0"
    assert words.startswith(f"“{content[:10]}")
    assert all(cell_len(line) <= 60 for line in (where, words))
    assert [each["content"] for each in turn.as_json()["remembered"]] == [content]  # type: ignore[index,call-overload,union-attr]
