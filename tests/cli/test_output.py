"""Ids, lines and settings as the terminal shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from service.cli.terminal.output import one_line, plain, visible
from service.cli.views.loop_tables import loops_table
from service.cli.views.run_loop_ids import choose
from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.run_loops import RunLoopSummary
from service.wire.run_loop_bodies import RunLoopLine


@given(st.text(), st.integers(4, 40))
def test_a_line_never_takes_more_cells_than_it_may(text: str, width: int) -> None:
    line = one_line(text, width)
    assert cell_len(line) <= width
    assert "\n" not in line


@given(st.text())
def test_shown_words_hold_no_control_characters(text: str) -> None:
    for words in (plain(text), visible(text)):
        assert all(char in "\t\n" or char.isprintable() or ord(char) > 0x9F for char in words)


def loop(run_loop_id: str) -> RunLoopLine:
    at = datetime(2026, 3, 31, tzinfo=UTC)
    line = RunLoopSummary(
        id=run_loop_id, owner="me", goal="x", status="idle", created_at=at, updated_at=at
    )
    return RunLoopLine(**dict(line), route=None, moved_to=None)


@pytest.mark.parametrize("width", [10, 40, 80])
@pytest.mark.parametrize(
    ("run_loop_id", "shown"),
    [("01jd3v6k2m9x4q8w", "01jd3v6k2m9x4q8w"), ("trip-to-lisbon-" * 8, "trip-to-lisbon-…")],
)
def test_an_id_in_a_list_keeps_the_room_by_which_it_is_found(
    width: int, run_loop_id: str, shown: str
) -> None:
    written = StringIO()
    Console(file=written, width=width).print(loops_table([loop(run_loop_id)]), crop=False)
    assert shown in written.getvalue()
    assert choose(shown.rstrip("…"), [loop(run_loop_id), loop("another")]) == run_loop_id


def test_an_id_is_found_by_its_beginning() -> None:
    assert choose("01a", [loop("01abc"), loop("01bcd")]) == "01abc"


def test_a_whole_id_counts_even_where_others_begin_with_it() -> None:
    assert choose("trip", [loop("trip-2"), loop("trip")]) == "trip"


def test_an_ambiguous_beginning_names_the_loops_that_it_could_mean() -> None:
    with pytest.raises(InvalidInputError, match=r"01abc.*01abd"):
        choose("01ab", [loop("01abc"), loop("01abd")])


def test_an_unknown_beginning_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        choose("02", [loop("01abc")])
