"""What a journal promises: `Journal` and its parts, whatever engine stands behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import ConflictError, NotFoundError
from service.domain.forgetting_terms import ForgetReceipt
from service.domain.history.events import (
    EventBody,
    MessageDelta,
    MessageReceived,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopImported,
    RunLoopStarted,
    Usage,
)
from service.domain.history.fold import fold
from service.domain.history.state import RunLoopState
from service.memory.journal.appends import Append
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.imported_loops import Import
from service.memory.journal.inbox import InboxEntry
from service.memory.journal.protocol import Journal
from service.memory.journal.rewriting import Record, Rewriter
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.journal.standing_approvals import StandingApproval
from tests.support.histories import received
from tests.support.memory.killed_store import killed_after
from tests.support.memory.remembering import NOON, run_loop

pytestmark = pytest.mark.anyio

HEARD: list[Change] = []
WHOLE_SECOND = NOON.replace(microsecond=0)
Open = Callable[[], Awaitable[tuple[Journal, list[RunLoopState]]]]
"""Opens the journal of a folder, as often as it is called; each is closed before the next."""


@pytest.fixture(params=["sqlite"])
async def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[Journal] = []
    HEARD.clear()

    async def opens() -> tuple[Journal, list[RunLoopState]]:
        if opened:
            await opened.pop().aclose()
        opened.append(SqliteJournal(tmp_path / "journal.sqlite3"))
        return opened[-1], opened[-1].open(HEARD.append)

    yield opens
    for each in opened:
        await each.aclose()


@pytest.fixture
async def journal(open_journal: Open) -> Journal:
    journal, _ = await open_journal()
    return journal


async def begin(
    journal: Journal, run_loop_id: str = "a", goal: str = "hi", owner: str = "me"
) -> Commit:
    opening = RunLoopStarted(goal=goal)
    return await journal.append(run_loop_id, opening, received(goal), owner=owner)


async def test_an_empty_journal(open_journal: Open) -> None:
    journal, active = await open_journal()
    assert (active, journal.states(), await journal.read()) == ([], [], [])
    assert (journal.last_seq, journal.changes.last, journal.lost_words_at) == (0, 0, 0)
    assert journal.state("a") is None
    assert await journal.run_loops.summaries(owner="me") == []
    assert await journal.inbox.undelivered() == []
    assert await journal.usage.lines(owner="me", by="day") == []
    assert journal.standing_approvals.of("me") == ()
    assert journal.histories.ids("me") == []
    assert journal.receipts.unfinished() == []
    assert await journal.imports.existing(["a"]) == {}
    assert await journal.unmigrated() == []
    with pytest.raises(NotFoundError):
        await journal.replay("a")


async def test_what_was_appended_is_read_at_once_and_after_a_restart(open_journal: Open) -> None:
    journal, _ = await open_journal()
    first = await begin(journal, goal="你好 👋\x00 \n")
    second = await journal.append("a", received("and this"), RunLoopIdle(), durable=True)
    for is_new in (False, True):
        if is_new:
            journal, active = await open_journal()
            assert active == [second.state]
        events = await journal.read(run_loop_id="a")
        assert events == [*first.events, *second.events] == journal.read_blocking()
        assert fold(events) == journal.state("a") == await journal.replay("a") == second.state
        assert (journal.last_seq, journal.changes.last) == (second.state.last_seq, 2)
        [line] = await journal.run_loops.summaries(owner="me")
        assert (line.id, line.goal, line.status) == ("a", second.state.goal, "idle")
    later = await begin(journal, "b")
    assert later.number == 3
    assert (later.events[0].seq or 0) > second.state.last_seq, "numbers go on"


async def test_reading_can_be_narrowed(journal: Journal) -> None:
    await begin(journal, "a", "one")
    await begin(journal, "b", "two", owner="她")
    assert {e.run_loop_id for e in await journal.read(owner="她")} == {"b"}
    kinds = {e.type for e in await journal.read(kind="message.received")}
    assert kinds == {"message.received"}
    every = await journal.read()
    assert await journal.read(after=every[1].seq or 0) == every[2:]
    assert await journal.read(limit=1) == every[:1]
    assert await journal.read(owner="nobody") == []


async def test_owners_see_nothing_of_each_other(journal: Journal) -> None:
    await begin(journal, "a", "one")
    await begin(journal, "b", "two", owner="她")
    assert [state.id for state in journal.states("她")] == ["b"]
    with pytest.raises(NotFoundError):
        await journal.replay("b", owner="me")
    with pytest.raises(NotFoundError):
        await journal.run_loops.check_owner("b", owner="me")
    assert [each.id for each in await journal.run_loops.summaries(owner="me")] == ["a"]
    assert journal.histories.holding("me", ["two"]) == []
    assert journal.histories.holding("她", ["two"]) == ["b"]
    assert (journal.histories.owner_of("b"), journal.histories.owner_of("c")) == ("她", None)


async def test_several_loops_are_appended_to_together_or_not_at_all(journal: Journal) -> None:
    await begin(journal, "a")
    ended = await begin(journal, "b")
    await journal.append("b", RunLoopIdle(), RunLoopCompleted())
    before = await journal.read()
    HEARD.clear()
    with pytest.raises(ConflictError):
        await journal.append_together(
            Append("a", [received("x")]),
            Append("b", [received("y")], if_last_seq=ended.state.last_seq),
        )
    assert (await journal.read(), HEARD) == (before, []), "nothing of it is there, nobody heard"
    new = Append("c", [RunLoopStarted(goal="c"), received("c")], "me")
    commits = await journal.append_together(Append("a", [received("x")]), new)
    assert [each.run_loop_id for each in commits] == ["a", "c"]
    assert commits == HEARD


async def test_what_must_not_be_appended_is_refused_and_leaves_nothing(journal: Journal) -> None:
    first = await begin(journal)
    before = await journal.read()
    with pytest.raises(ValueError, match="transient"):
        await journal.append("a", MessageDelta(text="..."))
    with pytest.raises(ValueError, match="nothing"):
        await journal.append("new", owner="me")
    await journal.append("a", received("meanwhile"))
    with pytest.raises(ConflictError):
        await journal.append("a", received("late"), if_last_seq=first.state.last_seq)
    with pytest.raises(ConflictError):
        await journal.append("unknown", received("nobody's"))
    assert (await journal.read())[: len(before)] == before
    assert len(await journal.read()) == len(before) + 1


async def test_those_who_live_off_changes_are_told_in_order(open_journal: Open) -> None:
    journal, _ = await open_journal()
    with journal.changes.subscribe("reader", lambda change: change.owner == "me") as reader:
        await begin(journal, "a")
        await begin(journal, "b", owner="她")
        assert await reader.changed() == 1
        assert HEARD[0].run_loop_id == "a"
        assert reader.lag == 2
        reader.done(2)
        assert reader.lag == 0
    changes = journal.changes.read(after=0, limit=9)
    assert [(c.number, c.kind, c.run_loop_id) for c in changes] == [
        (1, "appended", "a"),
        (2, "appended", "b"),
    ]
    place = journal.changes.checkpoint(1)
    journal, _ = await open_journal()
    assert journal.changes.matches(place)
    assert not journal.changes.matches(place._replace(hash=b"other"))
    assert await journal.trim_changes(before=2) == 1
    assert journal.changes.read(after=0, limit=9) == changes[1:]


async def test_a_message_leaves_the_inbox_with_the_events_that_hold_it(journal: Journal) -> None:
    await journal.inbox.accept(InboxEntry("m", "me", Message.user("hello")))
    opening = (RunLoopStarted(goal="hello"), received("hello"))
    await journal.append("a", *opening, owner="me", delivering="m")
    before = await journal.read()
    with pytest.raises(ConflictError):
        await journal.append("a", received("again"), delivering="m")
    assert await journal.read() == before
    assert journal.state("a") == fold(before), "what was not written is not told"


async def test_a_yes_for_good_is_written_with_its_answer(open_journal: Open) -> None:
    journal, _ = await open_journal()
    await begin(journal)
    at = datetime.now(UTC).replace(microsecond=0)
    approval = StandingApproval("me", "rm *", "shell", at, "a")
    await journal.append("a", received("yes, always"), granting=[approval], durable=True)
    assert journal.standing_approvals.scopes("me") == {"rm *"}
    assert journal.standing_approvals.scopes("她") == frozenset()
    journal, _ = await open_journal()
    assert journal.standing_approvals.of("me") == (approval,)
    with pytest.raises(NotFoundError):
        await journal.standing_approvals.revoke("rm *", owner="她")
    assert await journal.standing_approvals.revoke("rm *", owner="me") == approval
    journal, _ = await open_journal()
    assert journal.standing_approvals.of("me") == ()


async def test_usage_is_counted_with_its_events(journal: Journal) -> None:
    await begin(journal)
    used = Usage(model="m", purpose="answer", input_tokens=3, output_tokens=4)
    await journal.append("a", used, used)
    await journal.usage.add(used, owner="me", at=datetime.now(UTC))
    total = await journal.usage.total(owner="me")
    assert (total.calls, total.input_tokens, total.output_tokens) == (3, 9, 12)
    assert (await journal.usage.total(owner="她")).calls == 0
    await journal.usage.add(used, owner="她", at=datetime.now(UTC), run_loop_id="theirs")
    together = await journal.usage.total(owner=None)
    assert together.calls == total.calls + 1
    (theirs,) = await journal.usage.lines(owner="她", by="run_loop")
    assert theirs.key == "theirs"
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    assert await journal.usage.spent("answer", since=hour_ago) == 28
    lines = await journal.usage.lines(owner="me", by="run_loop")
    assert {line.key: line.calls for line in lines} == {"a": 2, "": 1}


async def test_imports_are_no_news_and_are_written_once(journal: Journal) -> None:
    body = RunLoopImported(run_loop=run_loop("old", ("q", "a"), at=WHOLE_SECOND), source="a file")
    new = Import("old", body, body.model_dump_json())
    written = await journal.imports.append([new], owner="me")
    assert [state.id for state in written.states] == ["old"]
    assert HEARD[-1].kind == "imported"
    assert await journal.read(news=True) == []
    assert (await journal.replay("old")).run_loop() == body.run_loop
    assert (await journal.imports.existing(["old", "new"]))["old"].owner == "me"
    again = await journal.imports.append([new], owner="me")
    assert (again.states, again.missed) == ((), (new,))
    assert journal.histories.imported(["old"]) == {"old"}


def receipt(**fields: object) -> Record:
    forget_receipt = ForgetReceipt.model_validate(
        {
            "id": "f1",
            "at": WHOLE_SECOND,
            "by": ("run_loops",),
            "pending": ("ledger",),
            **{"run_loops": (), "iterations": {}, "copies": {}},
            **fields,
        }
    )
    return Record("me", forget_receipt, ("a",))


async def test_words_leave_in_one_transaction_with_the_receipt(open_journal: Open) -> None:
    journal, _ = await open_journal()
    await begin(journal, "whole", "zwibbelquast")
    await begin(journal, "part", "zwibbelquast too")
    await journal.inbox.accept(InboxEntry("m", "me", Message.user("zwibbelquast")))
    await journal.append("whole", received("more"), delivering="m")
    [opening, message] = await journal.read(run_loop_id="part")
    assert isinstance(message.body, MessageReceived)
    bare = RunLoopStarted(goal="[forgotten]")
    gone = message.body.model_copy(update={"message": Message.user("[forgotten]")})
    left = [opening.model_copy(update={"body": bare}), message.model_copy(update={"body": gone})]
    after = fold(left)
    assert after is not None
    outcomes: list[str] = []

    def work(rewriter: Rewriter) -> str:
        assert rewriter.remove_loop("whole", owner="me").messages == 1
        bodies: dict[int, EventBody] = {opening.seq or 0: bare, message.seq or 0: gone}
        rewriter.rewrite_loop(after, bodies, {})
        rewriter.keep(receipt(run_loops=("whole",)))
        return "done"

    HEARD.clear()
    assert await journal.rewrite(work, outcomes.append) == "done"
    assert outcomes == ["done"]
    assert [(c.kind, c.run_loop_id) for c in HEARD] == [
        ("rewritten", "part"),
        ("removed", "whole"),
    ]
    assert journal.lost_words_at == journal.changes.last
    assert journal.state("whole") is None
    assert journal.state("part") == after == await journal.replay("part")
    assert await journal.read() == left
    with pytest.raises(NotFoundError):
        await journal.inbox.delivery("m")
    assert journal.receipts.unfinished() == [receipt(run_loops=("whole",))]
    assert journal.receipts.forgotten_whole() == {("me", "whole")}
    await journal.receipts.keep(receipt(run_loops=("whole",), pending=()))
    assert journal.receipts.unfinished() == []
    assert [each.id for each in journal.receipts.of("me", limit=9)] == ["f1"]
    assert journal.receipts.of("她", limit=9) == []
    assert await journal.scrub()


async def test_a_rewriting_that_fails_takes_nothing(journal: Journal) -> None:
    await begin(journal, "a", "stays")
    before = await journal.read()
    HEARD.clear()

    def fail(rewriter: Rewriter) -> None:
        rewriter.remove_loop("a", owner="me")
        rewriter.keep(receipt())
        raise ConflictError("something went on just now")

    with pytest.raises(ConflictError):
        await journal.rewrite(fail)
    assert (await journal.read(), HEARD) == (before, [])
    assert journal.receipts.find("f1") is None
    assert journal.state("a") == fold(before)
    assert journal.lost_words_at == 0


async def test_a_huge_event(journal: Journal) -> None:
    await begin(journal, goal="长" * 2_000_000)
    [opening, _] = await journal.read(run_loop_id="a")
    assert isinstance(opening.body, RunLoopStarted)
    assert opening.body.goal == "长" * 2_000_000


async def test_many_append_while_others_read(journal: Journal) -> None:
    seen: list[list[int]] = []

    async def talk(name: str) -> None:
        await begin(journal, name)
        for number in range(5):
            await journal.append(name, received(f"{number}"), durable=number % 2 == 0)

    async def look() -> None:
        for _ in range(10):
            events = await journal.read()
            seen.append([event.seq or 0 for event in events])

    async with anyio.create_task_group() as group:
        for name in "abcdef":
            group.start_soon(talk, name)
            group.start_soon(look)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seen), "no gap"
    assert len(await journal.read()) == 6 * 7 == journal.last_seq
    for name in "abcdef":
        assert fold(await journal.read(run_loop_id=name)) == journal.state(name)


@pytest.mark.slow
async def test_what_was_appended_outlives_a_kill(open_journal: Open, tmp_path: Path) -> None:
    appended = killed_after(20, "journal", tmp_path)
    journal, active = await open_journal()
    assert appended <= len(active) <= appended + 1
    for number in range(appended):
        state = journal.state(f"第{number}")
        assert state is not None
        assert state.goal == f"goal 第{number}"
        assert fold(await journal.read(run_loop_id=state.id)) == state
    assert journal.changes.last == len(active)
