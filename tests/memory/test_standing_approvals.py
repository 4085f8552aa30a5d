"""What is allowed for good is written with the answer that allowed it, or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest

from service.domain.errors import ConflictError, NotFoundError
from service.domain.history.events import RunLoopStarted
from service.domain.history.human_input import InputReceived, InputRequired
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.journal.standing_approvals import StandingApproval

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REQUEST = InputRequired(request_id="r", kind="approve", prompt="May it?")
YES = InputReceived(request_id="r", approved=True, remember="always", scopes=("launch",))


def standing(scope: str = "launch", *, owner: str = "me", minute: int = 0) -> StandingApproval:
    return StandingApproval(owner, scope, "launch", NOW.replace(minute=minute), "a")


async def opened(folder: Path) -> SqliteJournal:
    journal = SqliteJournal(folder / "journal.sqlite3")
    journal.open(lambda commit: None)
    return journal


async def waiting(folder: Path) -> SqliteJournal:
    journal = await opened(folder)
    await journal.append("a", RunLoopStarted(goal="x"), REQUEST, owner="me")
    return journal


async def test_an_approval_is_there_after_the_answer_and_after_a_restart(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    old, new = standing(), standing("clean 厨房", minute=5)
    await journal.append("a", YES, durable=True, granting=[old, new])
    assert journal.standing_approvals.of("me") == (new, old)
    assert journal.standing_approvals.scopes("me") == {"launch", "clean 厨房"}
    await journal.aclose()
    journal = await opened(tmp_path)
    assert journal.standing_approvals.of("me") == (new, old)
    assert journal.standing_approvals.of("you") == ()
    await journal.aclose()


async def test_an_answer_that_is_not_written_allows_nothing(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    with pytest.raises(ConflictError):
        await journal.append("a", YES, durable=True, if_last_seq=1, granting=[standing()])
    assert journal.standing_approvals.of("me") == ()
    await journal.aclose()
    journal = await opened(tmp_path)
    assert journal.standing_approvals.of("me") == ()
    await journal.aclose()


async def test_an_approval_given_again_is_one_approval(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    await journal.append("a", YES, granting=[standing()])
    await journal.append("a", REQUEST, YES, granting=[standing(minute=5)])
    assert journal.standing_approvals.of("me") == (standing(minute=5),)
    await journal.aclose()
    journal = await opened(tmp_path)
    assert journal.standing_approvals.of("me") == (standing(minute=5),)
    await journal.aclose()


async def test_revoking_takes_one_approval_of_one_owner(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    mine, hers = standing(), standing(owner="ada")
    await journal.append("a", YES, granting=[mine, hers, standing("other")])
    assert await journal.standing_approvals.revoke("launch", owner="me") == mine
    with pytest.raises(NotFoundError):
        await journal.standing_approvals.revoke("launch", owner="me")
    assert journal.standing_approvals.scopes("me") == {"other"}
    assert journal.standing_approvals.scopes("ada") == {"launch"}
    await journal.aclose()
    journal = await opened(tmp_path)
    assert journal.standing_approvals.scopes("me") == {"other"}
    assert journal.standing_approvals.scopes("ada") == {"launch"}
    await journal.aclose()


async def test_one_that_is_revoked_twice_at_once_is_revoked_once(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    await journal.append("a", YES, granting=[standing()])
    outcomes: list[str] = []

    async def revoke() -> None:
        try:
            await journal.standing_approvals.revoke("launch", owner="me")
        except NotFoundError:
            outcomes.append("gone")
        else:
            outcomes.append("revoked")

    async with anyio.create_task_group() as group:
        group.start_soon(revoke)
        group.start_soon(revoke)
    assert sorted(outcomes) == ["gone", "revoked"]
    await journal.aclose()


async def test_a_journal_without_the_table_gets_it(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    await journal.aclose()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db:
        db.execute("DROP TABLE standing_approvals")  # as an older version has left it
    journal = await opened(tmp_path)
    assert journal.standing_approvals.of("me") == ()
    await journal.append("a", YES, granting=[standing()])
    assert journal.standing_approvals.of("me") == (standing(),)
    await journal.aclose()


async def test_what_is_over_goes_with_whatever_is_written_next(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    over = StandingApproval("me", "launch", "launch", NOW, "a", until=now - hour)
    holds = StandingApproval("me", "launch", "launch", NOW, "a", '{"what": "茶"}', now + hour)
    await journal.append("a", YES, granting=[over, holds])
    assert journal.standing_approvals.of("me") == (holds,)
    assert journal.standing_approvals.scopes("me") == frozenset()
    assert len(kept(tmp_path)) == 2
    await journal.append("a", REQUEST)  # a clock that is set back now revives nothing
    assert kept(tmp_path) == [("launch", '{"what": "茶"}')]
    assert journal.standing_approvals.narrowed("me") == (holds,)
    await journal.aclose()


async def test_a_newer_yes_stands_in_the_place_of_an_older_one_to_the_same(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    narrow = StandingApproval("me", "launch", "launch", NOW, "a", until=until)
    for newest in (standing(), narrow, standing(minute=5), narrow):
        await journal.append("a", REQUEST, YES, granting=[newest])
        assert journal.standing_approvals.of("me") == (newest,)
    await journal.aclose()
    journal = await opened(tmp_path)
    assert journal.standing_approvals.of("me") == (narrow,)
    await journal.aclose()


async def test_narrowing_and_revoking_at_once_leave_one_outcome(tmp_path: Path) -> None:
    journal = await waiting(tmp_path)
    await journal.append("a", YES, granting=[standing()])
    outcomes: list[str] = []

    async def narrow() -> None:
        try:
            exact = partial(StandingApproval.narrowed, arguments="{}", until=None)
            await journal.standing_approvals.narrow(standing(), lambda wide: [exact(wide)])
        except NotFoundError:
            outcomes.append("gone")

    async with anyio.create_task_group() as group:
        group.start_soon(narrow)
        group.start_soon(partial(journal.standing_approvals.revoke, "launch", owner="me"))
    assert journal.standing_approvals.of("me") == ()
    assert outcomes in ([], ["gone"])
    await journal.aclose()


def kept(folder: Path) -> list[tuple[str, str]]:
    """Scopes and arguments of what is narrowed, in the file."""
    with closing(sqlite3.connect(folder / "journal.sqlite3")) as db:
        return db.execute("SELECT scope, arguments FROM narrowed_approvals ORDER BY 2").fetchall()
