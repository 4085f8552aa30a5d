"""What a ledger promises: `Ledger` and its parts, whatever engine stands behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from service.domain.anchors import AnchorRef
from service.domain.errors import ConflictError, InvalidInputError
from service.domain.run_loops import RunLoop
from service.memory.journal.change_feed import Checkpoint
from service.memory.ledger.protocol import Gone, Ledger, Pending
from service.memory.ledger.segmenter import segment
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from service.memory.protocol import SearchFilters
from tests.support.memory.killed_store import killed_after
from tests.support.memory.remembering import NOON, run_loop, tool_turn

Open = Callable[[], Ledger]
"""Opens the ledger of a folder, as often as it is called; each is closed before the next."""


@pytest.fixture(params=["sqlite"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Ledger] = []

    def opens() -> Ledger:
        if opened:
            opened.pop().close()
        opened.append(SqliteLedger(tmp_path / "memory.sqlite3"))
        opened[-1].open()
        return opened[-1]

    yield opens
    for each in opened:
        each.close()


@pytest.fixture
def ledger(open_ledger: Open) -> Ledger:
    return open_ledger()


def texts(ledger: Ledger, owner: str = "me") -> list[str]:
    passing = ledger.segments.passing(owner, SearchFilters()).first(-1)
    pieces = ledger.segments.numbered(passing, owner=owner)
    return [pieces[number].content for number in sorted(pieces)]


def test_an_empty_ledger(ledger: Ledger) -> None:
    assert ledger.count() == (0, 0)
    assert ledger.run_loop("r", owner="me") is None
    assert ledger.summary("r", owner="me") is None
    assert ledger.successors("r", owner="me") == []
    assert ledger.outlines() == {}
    assert ledger.finished(["r"]) == frozenset()
    assert ledger.segments.at([AnchorRef("r", 0, 0)], owner="me") == {}
    assert ledger.archive() == 0
    assert ledger.forget("me", ["r"], [run_loop("s", ("a", "b"))]) == Gone(0, 0)
    assert texts(ledger) == []
    assert not ledger.notes.any()
    assert ledger.pending.all() == []
    assert ledger.pending.checkpoint() is None


def test_segments_are_read_by_their_time(ledger: Ledger) -> None:
    for name, days in (("b", 1), ("c", 2), ("a", 0)):
        ledger.archive(run_loop(name, (f"ask {name}", f"tell {name}"), at=NOON + timedelta(days)))
    ledger.archive(run_loop("theirs", ("x", "y"), at=NOON, owner="them"))
    answers = SearchFilters(types=frozenset({"response"}), since=NOON, until=NOON + timedelta(9))
    for newest, expected in ((False, ["tell a", "tell b"]), (True, ["tell c", "tell b"])):
        numbers = ledger.segments.passing("me", answers).by_time(2, newest=newest)
        pieces = ledger.segments.numbered(numbers, owner="me")
        assert [pieces[number].content for number in numbers] == expected


def test_a_run_loop_is_read_back_equal_at_once_and_after_a_restart(open_ledger: Open) -> None:
    ledger = open_ledger()
    loop = run_loop("r", tool_turn("问？\0", "look", '{"a": "b"}', "result", "答。"), owner="她")
    assert ledger.archive(loop) == len(segment(loop))
    for is_new in (False, True):
        opened = open_ledger() if is_new else ledger
        assert opened.run_loop("r", owner="她") == loop
        assert opened.summary("r", owner="她") == loop.summary()
        segments = {each.anchor.ref: each for each in segment(loop)}
        assert opened.segments.at(segments, owner="她") == segments
        assert opened.outlines()["她", "r"].iterations == 1
        assert opened.finished(["r"]) == {"r"}
        assert opened.archive(loop) == 0, "archiving again changes nothing"


def test_a_loop_that_grows_or_shrinks_changes_just_that(ledger: Ledger) -> None:
    short = run_loop("r", ("one", "eins"), status="idle")
    long = run_loop("r", ("one", "eins"), ("two", "zwei"), status="idle")
    assert [ledger.archive(each) for each in (short, long, short)] == [2, 2, 0]
    assert ledger.run_loop("r", owner="me") == short
    assert texts(ledger) == ["one", "eins"]
    assert ledger.count() == (1, 2)


def test_all_of_a_call_is_archived_or_nothing(ledger: Ledger) -> None:
    before = run_loop("old", ("one", "eins"))
    ledger.archive(before)
    broken = run_loop("broken", ("\ud83d", ""))
    changed = run_loop("old", ("another", "thing"))
    with pytest.raises(InvalidInputError):
        ledger.archive(run_loop("new", ("a", "b")), changed, broken)
    assert ledger.count() == (1, 2)
    assert ledger.run_loop("old", owner="me") == before


def test_owners_see_nothing_of_each_other(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("mine", "all mine")), run_loop("r", ("yours", "so"), owner="她"))
    assert texts(ledger) == ["mine", "all mine"]
    assert texts(ledger, "她") == ["yours", "so"]
    numbers = ledger.segments.passing("她", SearchFilters()).first(-1)
    assert ledger.segments.numbered(numbers, owner="me") == {}
    assert ledger.segments.neighbours(numbers, owner="me", before=1, after=1) == {}
    assert ledger.segments.passing("me", SearchFilters()).among(numbers) == frozenset()
    assert ledger.run_loop("r", owner="nobody") is None
    ledger.forget("me", ["r"], [])
    assert texts(ledger, "她") == ["yours", "so"]


def test_what_stands_around_a_segment(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("one", "eins"), ("two", "zwei"), ("three", "drei")))
    ref = AnchorRef("r", 1, 0)
    around = ledger.segments
    assert [each.content for each in around.before(ref, owner="me")] == ["eins", "one"]
    assert [each.content for each in around.after(ref, owner="me")] == ["zwei", "three", "drei"]
    numbers = around.passing("me", SearchFilters()).first(-1)
    beside = around.neighbours(numbers, owner="me", before=1, after=2)
    [two] = [each for each in beside.values() if each.segment.text == "two"]
    assert [each.text for each in two.before] == ["eins"]
    assert [each.text for each in two.after] == ["zwei", "three"]


def test_a_call_and_its_result_are_partners(ledger: Ledger) -> None:
    loop = run_loop("r", tool_turn("look it up", "look", "{}", "found", "there"))
    ledger.archive(loop)
    pieces = {each.anchor.segment_type: each.anchor for each in segment(loop)}
    call, result = pieces["tool_call"], pieces["tool_result"]
    partners = ledger.segments.partners([call.ref, result.ref], owner="me")
    assert partners == {call.ref: (result,), result.ref: (call,)}


def test_successors_are_told(ledger: Ledger) -> None:
    first = run_loop("first", ("one", "eins"))
    ledger.archive(first)
    ledger.archive(run_loop("then", ("two", "zwei")).model_copy(update={"predecessor_id": "first"}))
    assert [each.id for each in ledger.successors("first", owner="me")] == ["then"]
    assert ledger.successors("first", owner="她") == []


def test_what_is_forgotten_is_nowhere(open_ledger: Open, tmp_path: Path) -> None:
    ledger = open_ledger()
    ledger.archive(
        run_loop("whole", ("the zwibbelquast", "noted")),
        run_loop("part", ("first things", "zwibbelquast again"), ("second", "stays")),
    )
    left = run_loop("part", ("first things", "[forgotten]"), ("second", "stays"))
    gone = ledger.forget("me", ["whole"], [left, run_loop("unknown", ("never", "archived"))])
    assert gone.segments == 3
    assert ledger.run_loop("whole", owner="me") is None
    assert ledger.run_loop("part", owner="me") == left
    assert ledger.run_loop("unknown", owner="me") is None
    assert texts(ledger) == ["first things", "second", "stays"], "a mark is no memory"
    assert ledger.scrub()
    open_ledger().close()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"zwibbel" in p.read_bytes()]


def test_vectors_are_kept_beside_their_segments(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("one", "eins")), run_loop("s", ("two", "zwei")))
    store = ledger.embedding
    by = store.embedder("words dimension=2")
    assert store.embedder("words dimension=2") == by != store.embedder("others dimension=2")
    waiting = store.pending(by, beyond=0, limit=9)
    assert [each.text for each in waiting] == ["one", "eins", "two", "zwei"]
    unit = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=np.float32)
    store.store(by, waiting, unit)
    assert store.pending(by, beyond=0, limit=9) == []
    numbers = [each.number for each in waiting]
    vectors = store.vectors_of(by, [*reversed(numbers), 999], 2)
    assert vectors.present.tolist() == [True] * 4 + [False]
    assert np.allclose(vectors.matrix[:4], unit[::-1], atol=1e-3)
    ledger.forget("me", ["r"], [])
    assert store.count_vectors(by) == store.count_segments() == 2
    assert not store.vectors_of(by, numbers[:2], 2).present.any()


def test_codes_of_tokens_are_kept_beside_the_vectors(ledger: Ledger) -> None:
    ledger.archive(run_loop("r", ("one", "eins")), run_loop("s", ("two", "zwei")))
    store, codes = ledger.embedding, ledger.embedding.codes
    by, coding = store.embedder("words dimension=2"), store.embedder("tokens of words")
    waiting = store.pending(by, beyond=0, limit=9)
    assert codes.pending(coding, by, beyond=0, limit=9) == [], "none has its vector"
    numbers = [each.number for each in waiting]
    store.store(by, waiting[:3], np.eye(3, 2, dtype=np.float32) + 0.1)
    assert codes.pending(coding, by, beyond=0, limit=9) == waiting[:3]
    assert codes.pending(coding, by, beyond=numbers[0], limit=1) == waiting[1:2]
    codes.store(coding, [*numbers[:2], 999], [b"\x01", b"", b"of nothing"])
    assert codes.pending(coding, by, beyond=0, limit=9) == waiting[2:3]
    assert codes.of(coding, [*numbers, 999]) == {numbers[0]: b"\x01", numbers[1]: b""}
    assert codes.of(store.embedder("others"), numbers) == {}
    ledger.forget("me", ["r"], [])
    assert codes.of(coding, numbers) == {}
    codes.store(coding, numbers[2:3], [b"\x02"])
    while store.drop_vectors_of_others([by]):
        pass
    assert codes.of(coding, numbers) == {}
    assert store.count_vectors(by) == 1


def test_a_place_and_what_is_pending_move_on_together(open_ledger: Open) -> None:
    pending = open_ledger().pending
    one, two = Pending("me", "a", 3), Pending("她", "b", 4, lost_words=True)
    pending.take_in([one, two], Checkpoint("j", 4, b"hash"))
    pending.take_in([Pending("她", "b", 6)], Checkpoint("j", 6, b"later"))
    pending.failed(("me", "a"), "no room")
    pending = open_ledger().pending
    assert pending.all() == [one, two._replace(change=6)], "that words were lost is not forgotten"
    assert pending.checkpoint() == Checkpoint("j", 6, b"later")
    pending.settle({("me", "a"): 3, ("她", "b"): 5})
    assert [each.key for each in pending.all()] == [("她", "b")], "it has changed since"
    pending.take_in([], None, anew=True)
    assert pending.all() == []
    assert pending.checkpoint() is None


def test_huge_texts(ledger: Ledger) -> None:
    loop = run_loop("r", ("长" * 500_000, "word " * 200_000))
    ledger.archive(loop)
    assert ledger.run_loop("r", owner="me") == loop
    assert sum(map(len, texts(ledger))) >= 1_400_000


def test_a_reader_sees_whole_loops_while_another_writes(ledger: Ledger) -> None:
    stages = [run_loop("r", *[(f"q{i}", f"a{i}")] * i, status="idle") for i in range(1, 20)]
    ledger.archive(stages[0])
    seen: list[RunLoop | None] = []
    began, done = threading.Event(), threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(ledger.run_loop("r", owner="me"))
            began.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert began.wait(60)
    for stage in stages:
        ledger.archive(stage)
    done.set()
    reader.join()
    assert all(each in stages for each in seen), "no half of a transaction was read"
    assert ledger.run_loop("r", owner="me") == stages[-1]


def test_a_closed_ledger_says_so(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(ConflictError):
        ledger.count()


@pytest.mark.slow
def test_what_was_archived_outlives_a_kill(open_ledger: Open, tmp_path: Path) -> None:
    reported = killed_after(20, "ledger", tmp_path)
    ledger = open_ledger()
    loops, segments = ledger.count()
    assert reported <= loops <= reported + 1
    assert segments == 2 * loops
    for number in range(reported):
        name = f"第{number}"
        assert ledger.run_loop(name, owner="me") == run_loop(
            name, (f"question {name}", f"answer {name}")
        )
        assert ledger.words.holding_all([str(number), "answer"], owner="me")
