"""The router learns from corrections: only from enough, only where it gets better, and in a file
that holds no words."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import NotFoundError, StorageError
from service.domain.history.events import MessageReceived, RouteDecided, RunLoopStarted
from service.domain.routes import Route, RouteCandidate
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.routing.calibration.recalibration import FILE, Recalibration
from service.routing.routing_model import shipped
from service.tuning import CALIBRATION_LEAST_CORRECTIONS

pytestmark = pytest.mark.anyio

GOAL = "规划去里斯本的旅行"


@asynccontextmanager
async def journal_in(folder: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(folder / "journal.sqlite3")
    journal.open(lambda commit: None)
    try:
        yield journal
    finally:
        await journal.aclose()


async def decide(
    journal: SqliteJournal,
    number: int,
    *,
    join: float,
    corrected: bool,
    model: str | None = None,
    calibration: tuple[float, float] | None = None,
) -> None:
    """A message of which it was decided that it goes on with the one candidate."""
    message_id = f"m{number}"
    try:
        await journal.replay("trip")
    except NotFoundError:
        await journal.append("trip", RunLoopStarted(goal=GOAL), owner="me")
    route = Route(
        decision="join",
        run_loop_id="trip",
        confidence=join,
        method="words",
        reason=f"it goes on with “{GOAL}”",
        candidates=(RouteCandidate(run_loop_id="trip", goal=GOAL, probability=join),),
        new_probability=1 - join,
        model=model or shipped().version,
        calibration=calibration,
    )
    received = MessageReceived(message_id=message_id, message=Message.user("秘密的话"))
    await journal.append("trip", received, RouteDecided(message_id=message_id, route=route))
    if corrected:
        moved = Route(
            decision="new", confidence=1, method="person", reason="moved", moved_from="trip"
        )
        await journal.append(
            f"new{number}",
            RunLoopStarted(goal="秘密的话"),
            received,
            RouteDecided(message_id=message_id, route=moved),
            owner="me",
        )


async def mostly_wrong(journal: SqliteJournal, corrections: int = 30) -> None:
    """New topics are much more frequent than the model believes."""
    chances = np.random.default_rng(3)
    for number in range(corrections + 10):
        join = round(float(chances.uniform(0.6, 0.9)), 4)
        await decide(journal, number, join=join, corrected=number < corrections)


async def test_it_says_how_many_corrections_are_needed_and_changes_nothing(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal, CALIBRATION_LEAST_CORRECTIONS - 1)
        report = await Recalibration(tmp_path, journal).calibrate()
        assert not report.changed
        assert report.corrections == CALIBRATION_LEAST_CORRECTIONS - 1
        assert report.needed == CALIBRATION_LEAST_CORRECTIONS
        assert f"{CALIBRATION_LEAST_CORRECTIONS} are needed" in report.reason
        assert not (tmp_path / FILE).exists()


async def test_an_empty_journal_changes_nothing(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        report = await Recalibration(tmp_path, journal).calibrate()
        assert (report.changed, report.corrections, report.decisions) == (False, 0, 0)


async def test_what_was_corrected_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal)
        recalibration = Recalibration(tmp_path, journal)
        before = recalibration.current().applied([0.75, 0.25])
        report = await recalibration.calibrate()
        after = recalibration.current().applied([0.75, 0.25])
        assert report.changed
        assert report.in_use.new_offset > 0
        assert after[1] > before[1] + 0.1
        assert report.before is not None
        assert report.after is not None
        assert report.after.log_loss < report.before.log_loss
        assert (report.corrections, report.decisions) == (30, 40)
        again = Recalibration(tmp_path, journal)
        assert again.current() == recalibration.current()
        assert await again.in_use() == report.in_use


async def test_the_file_is_readable_and_holds_no_words(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal)
        await Recalibration(tmp_path, journal).calibrate()
    written = json.loads((tmp_path / FILE).read_bytes())
    assert sorted(written) == [
        "corrections",
        "decisions",
        "fitted_at",
        "model",
        "new_offset",
        "temperature",
    ]
    assert written["model"] == shipped().version
    raw = (tmp_path / FILE).read_text("utf-8")
    assert not any(sign in raw for sign in GOAL + "秘密的话")


async def test_the_same_again_is_not_better_and_changes_nothing(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal)
        recalibration = Recalibration(tmp_path, journal)
        first = await recalibration.calibrate()
        second = await recalibration.calibrate()
        assert not second.changed
        assert "not decide better" in second.reason
        assert second.in_use == first.in_use


async def test_where_the_decisions_were_right_on_the_whole_nothing_changes(tmp_path: Path) -> None:
    chances = np.random.default_rng(5)
    async with journal_in(tmp_path) as journal:
        for number in range(120):
            join = round(float(chances.uniform(0.55, 0.95)), 4)
            wrong = bool(chances.random() < (1 - join) / 2)  # a half of what is wrong is corrected
            await decide(journal, number, join=join, corrected=wrong)
        report = await Recalibration(tmp_path, journal).calibrate()
        assert report.corrections >= CALIBRATION_LEAST_CORRECTIONS
        assert not report.changed


async def test_corrections_alone_do_not_teach_it_never_to_join(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        for number in range(CALIBRATION_LEAST_CORRECTIONS + 3):
            await decide(journal, number, join=0.75, corrected=True)
        recalibration = Recalibration(tmp_path, journal)
        report = await recalibration.calibrate()
        assert not report.changed
        assert "were right so far" in report.reason
        assert recalibration.current().applied([0.75, 0.25]) == [0.75, 0.25]


@pytest.mark.parametrize("numbers", [(1e6, 0.0), (1e-6, 0.0), (1.0, 50.0), (1.0, -50.0)])
async def test_a_file_with_wild_numbers_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, numbers: tuple[float, float]
) -> None:
    temperature, offset = numbers
    file = {"temperature": temperature, "new_offset": offset, "model": shipped().version}
    (tmp_path / FILE).write_text(json.dumps(file))
    async with journal_in(tmp_path) as journal:
        with caplog.at_level(logging.WARNING):
            assert Recalibration(tmp_path, journal).current().applied([0.7, 0.3]) == [0.7, 0.3]
        assert "no calibration comes to" in caplog.text


async def test_resetting_tells_how_many_corrections_there_are_now(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal, 15)
        report = await Recalibration(tmp_path, journal).reset()
        assert (report.corrections, report.decisions) == (15, 25)


async def test_resetting_goes_back_to_the_model_alone(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal)
        recalibration = Recalibration(tmp_path, journal)
        await recalibration.calibrate()
        dropped = await recalibration.reset()
        assert (dropped.changed, dropped.reason) == (True, "what was fitted is dropped")
        assert recalibration.current().applied([0.75, 0.25]) == [0.75, 0.25]
        assert not (tmp_path / FILE).exists()
        again = await recalibration.reset()
        assert (again.changed, again.reason) == (False, "nothing had been fitted")


async def test_decisions_are_told_back_to_what_the_model_said(tmp_path: Path) -> None:
    """Those that were made with an earlier calibration do not count as the model's own."""
    async with journal_in(tmp_path) as journal:
        for number in range(40):
            await decide(
                journal,
                number,
                join=0.5,
                corrected=number < 30,
                calibration=(1.0, float(np.log(3))),  # the model had said 0.75
            )
        with_it = (await Recalibration(tmp_path, journal).calibrate()).in_use
    plain = tmp_path / "plain"
    plain.mkdir()
    async with journal_in(plain) as journal:
        for number in range(40):
            await decide(journal, number, join=0.75, corrected=number < 30)
        without_it = (await Recalibration(plain, journal).calibrate()).in_use
    assert with_it.temperature == pytest.approx(without_it.temperature, rel=1e-3)
    assert with_it.new_offset == pytest.approx(without_it.new_offset, abs=1e-3)


async def test_decisions_of_another_model_do_not_count(tmp_path: Path) -> None:
    async with journal_in(tmp_path) as journal:
        for number in range(40):
            await decide(journal, number, join=0.8, corrected=True, model="an older one")
        report = await Recalibration(tmp_path, journal).calibrate()
        assert (report.corrections, report.decisions) == (0, 0)


async def test_a_file_of_another_model_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = {"temperature": 2.0, "new_offset": 1.0, "model": "an older one"}
    (tmp_path / FILE).write_text(json.dumps(file))
    async with journal_in(tmp_path) as journal:
        with caplog.at_level(logging.WARNING):
            applied = Recalibration(tmp_path, journal).current().applied([0.7, 0.3])
        assert applied == [0.7, 0.3]
        assert "belongs to model an older one" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b'{"temperature": 0, "model": "m"}',
        b'{"temperature": -1, "model": "m"}',
        b'{"temperature": NaN, "model": "m"}',
        b'{"temperature": 1, "new_offset": Infinity, "model": "m"}',
        b'{"temperature": 1}',
    ],
)
async def test_a_broken_file_is_ignored_with_a_warning_and_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, written: bytes
) -> None:
    (tmp_path / FILE).write_bytes(written)
    async with journal_in(tmp_path) as journal:
        recalibration = Recalibration(tmp_path, journal)
        with caplog.at_level(logging.WARNING):
            assert recalibration.current().applied([0.7, 0.3]) == [0.7, 0.3]
        assert "cannot be read" in caplog.text
        await mostly_wrong(journal)
        assert (await recalibration.calibrate()).changed
        assert json.loads((tmp_path / FILE).read_bytes())["decisions"] == 40


async def test_a_file_that_cannot_be_written_changes_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    async with journal_in(tmp_path) as journal:
        await mostly_wrong(journal)
        recalibration = Recalibration(tmp_path, journal)
        with pytest.raises(StorageError, match=FILE):
            await recalibration.calibrate()
        assert recalibration.current().applied([0.7, 0.3]) == [0.7, 0.3]
