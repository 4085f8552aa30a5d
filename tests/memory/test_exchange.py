"""Run loops go out as JSON Lines and come in again, whole, once, and however often it is tried."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from service.domain.anchors import AnchorRef
from service.domain.conversation.messages import Message, TextPart, ThinkPart, ToolCall
from service.domain.history.events import (
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RunLoopCancelled,
    RunLoopIdle,
    RunLoopStarted,
    ToolFinished,
)
from service.memory.exchange.importing import Importing
from service.memory.memory import Memory
from service.memory.run_loop_lines import lines_of
from tests.support.memory.exchanging import (
    MOMENT,
    at_work,
    bring_in,
    counts,
    exported,
    lines,
    loop,
    pieces,
    turn,
)
from tests.support.memory.journal_file import writing
from tests.support.memory.remembering import WordEmbedder, anchors

pytestmark = pytest.mark.anyio

WEATHER = turn(
    "Will it rain in 成都 tomorrow? ☔",
    "Yes, from noon. 下午有雨。",
    reasoning="I should look.",
    tool_calls=[{"id": "c1", "name": "weather", "arguments": '{"city": "成都"}'}],
    tool_results=[{"id": "c1", "content": "rain from noon", "is_error": False}],
    metadata={"channel": "phone"},
)


def received(text: str) -> MessageReceived:
    return MessageReceived(
        message_id=f"m {text}", message=Message.user(text), metadata={"place": "home"}
    )


async def live_a_little(memory: Memory) -> None:
    """A completed loop with a tool and its predecessor, a cancelled one, and one that is open."""
    journal = memory.journal
    asked = Message(
        role="assistant",
        content=(ThinkPart(think="计算"), TextPart(text="One moment.")),
        tool_calls=(ToolCall(id="c", name="calculator", arguments='{"expression": "6 * 7"}'),),
    )
    answered = (
        MessageCompleted(message=asked),
        ToolFinished(call_id="c", name="calculator", content="42"),
        IterationStarted(index=1, message_ids=()),
        MessageCompleted(message=Message.assistant("It is 42. 🐇")),
        RunLoopIdle(),
    )
    for name, before in (("first", None), ("second", "first")):
        words = f"What is six times seven, {name}? 六乘七"
        await journal.append(
            name,
            RunLoopStarted(goal=words, predecessor_id=before),
            received(words),
            IterationStarted(index=0),
            *answered,
            owner="me",
        )
    await journal.append("second", RunLoopCancelled())
    await journal.append(
        "open",
        RunLoopStarted(goal="Begun"),
        received("Begun"),
        IterationStarted(index=0),
        MessageCompleted(message=Message.assistant("")),
        received("and not answered"),
        IterationStarted(index=1),
        owner="me",
    )
    await journal.append("theirs", RunLoopStarted(goal="Not mine"), owner="somebody else")
    await journal.append("theirs", RunLoopCancelled())
    await memory.archivist.drain()


@pytest.mark.slow
async def test_an_export_into_an_empty_folder_gives_equal_loops_anchors_and_hits(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path / "a", WordEmbedder()) as here:
        await live_a_little(here)
        await here.journal.append("first", RunLoopCancelled())
        await here.journal.append("open", received("nor seen"), RunLoopCancelled())
        await bring_in(here, loop("weather", WEATHER), loop("empty"))
        await here.archivist.drain()
        out = await exported(here)
        async with at_work(tmp_path / "b", WordEmbedder()) as there:
            report = await Importing(there, owner="me").take(pieces(out, 7))
            assert counts(report) == (5, 0, 0, 0)
            await there.archivist.drain()
            again = await exported(there)
            assert again == out
            for query in ("six times seven", "六乘七", "计算", "rain 成都", "calculator"):
                responses = [
                    await memory.long_term.search(query, owner="me") for memory in (here, there)
                ]
                assert responses[0].mode == responses[1].mode == "hybrid"
                assert anchors(responses[0]) == anchors(responses[1])
                assert [hit.content for hit in responses[0].hits] == [
                    hit.content for hit in responses[1].hits
                ]
            ref = AnchorRef.parse("weather:0.0")
            assert await here.long_term.expand(ref, owner="me", after=9) == (
                await there.long_term.expand(ref, owner="me", after=9)
            )


async def test_an_open_loop_goes_out_with_what_is_done_and_comes_in_completed(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path / "a") as here:
        await live_a_little(here)
        [line] = (await exported(here, run_loop_id="open")).splitlines()
        assert json.loads(line)["status"] == "running"
        async with at_work(tmp_path / "b") as there:
            await Importing(there, owner="me").take(pieces(line))
            state = await there.journal.replay("open")
            assert state.status == "completed"
            assert [each.user_message for each in state.iterations] == ["Begun"]
            assert state.completed_at == state.iterations[-1].timestamp
        # Where it is at work, its own export is nothing new.
        report = await Importing(here, owner="me").take(pieces(line))
        assert counts(report) == (0, 0, 1, 0)


async def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        file = [loop("a", WEATHER), loop("b", status="failed"), loop("c", status="idle")]
        assert counts(await bring_in(memory, *file)) == (3, 0, 0, 0)
        before, seq = await exported(memory), memory.journal.last_seq
        assert counts(await bring_in(memory, *file)) == (0, 0, 3, 0)
        assert counts(await Importing(memory, owner="me").take(pieces(before))) == (0, 0, 3, 0)
        assert (await exported(memory), memory.journal.last_seq) == (before, seq)


async def test_the_statuses_stay_and_what_was_open_is_completed(tmp_path: Path) -> None:
    late = {**turn("Later"), "timestamp": "2026-05-05T08:00:00+08:00"}
    async with at_work(tmp_path) as memory:
        ended = ("completed", "failed", "cancelled")
        opened = ("running", "waiting_for_human_input", "idle")
        await bring_in(
            memory,
            *(loop(status, status=status) for status in ended),
            *(loop(status, turn("Hm"), late, status=status) for status in opened),
        )
        for status in ended:
            assert (await memory.journal.replay(status)).status == status
        for status in opened:
            state = await memory.journal.replay(status)
            assert state.status == "completed"
            assert state.completed_at == datetime(2026, 5, 5, tzinfo=UTC)
        assert memory.short_term.states() == []


async def test_a_loop_that_grew_in_the_file_is_extended_and_found(tmp_path: Path) -> None:
    async with at_work(tmp_path, WordEmbedder()) as memory:
        early = loop("a", turn("One?", "Uno."), turn("Two?"))
        late = loop("a", turn("One?", "Uno."), turn("Two?", "Due."), turn("Three?", "Tre."))
        await bring_in(memory, early)
        assert counts(await bring_in(memory, late)) == (0, 1, 0, 0)
        await memory.archivist.drain()
        assert anchors(await memory.long_term.search("Tre", owner="me"))[0].startswith("a:2.")
        # An older file has nothing new.
        assert counts(await bring_in(memory, early)) == (0, 0, 1, 0)
        state = await memory.journal.replay("a")
        assert [each.response for each in state.iterations] == ["Uno.", "Due.", "Tre."]


async def test_other_words_under_a_known_id_are_a_conflict_and_stay_out(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?", "Uno.")))
        before = await exported(memory)
        report = await bring_in(
            memory,
            loop("b", turn("Fine")),
            "",
            loop("a", turn("One?", "Un.")),
            loop("a", turn("One?", "Uno."), goal="Another goal"),
            loop("a", turn("One?", "Uno."), status="failed"),
        )
        assert counts(report) == (1, 0, 0, 3)
        assert [each.line for each in report.failed] == [3, 4, 5]
        assert "the id 'a' is that of a run loop with other words here" in report.failed[0].problem
        assert await exported(memory, run_loop_id="a") == before


@pytest.mark.slow
async def test_conversations_of_other_services_may_be_renamed(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?", "Uno.")), source="chatgpt")
        renamed = loop("a", turn("One?", "Uno."), goal="Numbers")
        assert counts(await bring_in(memory, renamed, source="chatgpt")) == (0, 1, 0, 0)
        [summary] = await memory.journal.run_loops.summaries(owner="me")
        assert summary.goal == "Numbers"
        other = loop("a", turn("One?", "Un."), goal="Numbers")
        assert counts(await bring_in(memory, other, source="chatgpt")) == (0, 0, 0, 1)


async def test_ids_of_somebody_else_or_of_a_loop_at_work_are_conflicts(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await live_a_little(memory)
        report = await bring_in(memory, loop("theirs", turn("Mine now")), loop("open", turn("No")))
        assert [(each.line, each.run_loop_id) for each in report.failed] == [
            (1, "theirs"),
            (2, "open"),
        ]
        assert "somebody else" in report.failed[0].problem
        assert "at work" in report.failed[1].problem


async def test_bad_lines_are_told_with_their_numbers_and_the_others_go_in(tmp_path: Path) -> None:
    bad: list[tuple[Any, str]] = [
        ("no json", "not JSON"),
        ("[1]", "not a JSON object"),
        ({**loop("x"), "status": "asleep"}, "status"),
        ({**loop("x"), "id": "  "}, "its id"),
        ({**loop("x"), "id": "i" * 300}, "its id"),
        (loop("x", {"user_message": "no time"}), "iterations.0.timestamp"),
        (loop("x", {**turn("early"), "timestamp": "0001-01-01T00:00:00Z"}), "no moment"),
        ('{"id": "x", "metadata": NaN}', "not JSON"),
        (json.dumps(loop("x", turn("half \ud800"))), "not JSON"),
        ('{"problem": "the disk was full", "id": "x"}', "was not exported: the disk was full"),
        ("[" * 100_000, "not JSON"),
    ]
    async with at_work(tmp_path) as memory:
        objects = [part for each, _ in bad for part in (each, loop(f"good {len(str(each))}"))]
        report = await bring_in(memory, *objects)
        assert [each.line for each in report.failed] == list(range(1, 2 * len(bad), 2))
        for failure, (_, words) in zip(report.failed, bad, strict=True):
            assert words in failure.problem
        assert report.imported + report.unchanged == len(bad)
        latin = Importing(memory, owner="me").take(pieces('{"id": "caf\xe9"}'.encode("latin-1")))
        assert "not UTF-8" in (await latin).failed[0].problem


async def test_marks_line_ends_and_blank_lines_of_any_kind_are_taken(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf\r\n" + lines(loop("a"), loop("b")).replace(b"\n", b"\r\n\r\n \t\n")
    async with at_work(tmp_path) as memory:
        for size in (1, 2, 3, 10_000):
            report = await Importing(memory, owner="me").take(pieces(data.rstrip(), size))
            assert report.failures == 0
            assert report.imported + report.unchanged == 2


async def test_a_line_that_is_too_long_is_told_and_never_held() -> None:
    data = b"x" * 50 + b"\nshort\n" + b"y" * 11 + b"\nend"
    pairs = [(line.number, line.content) async for line in lines_of(pieces(data, 4), longest=10)]
    assert pairs == [(1, None), (2, b"short"), (3, None), (4, b"end")]


@pytest.mark.slow
async def test_an_import_in_many_batches_is_the_same_as_in_one(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path) as memory:
        file = [loop(f"loop {number}", turn(f"Number {number}")) for number in range(50)]
        twice = [*file[:30], loop("loop 3", turn("Number 3"), turn("grown")), *file[30:]]
        assert counts(await bring_in(memory, *twice, batch_loops=7)) == (50, 1, 0, 0)
        assert len((await exported(memory)).splitlines()) == 50


async def test_a_dry_run_reports_and_writes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", turn("One?")))
        before = memory.journal.last_seq
        report = await bring_in(
            memory, loop("a", turn("One?"), turn("Two?")), loop("b"), "?", dry_run=True
        )
        assert (counts(report), report.dry_run) == ((1, 1, 0, 1), True)
        assert memory.journal.last_seq == before


async def test_an_export_can_be_narrowed_to_a_time(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        for month in (1, 2, 3):
            await bring_in(memory, loop(f"m{month}", created_at=f"2026-0{month}-01T00:00:00Z"))
        february = datetime(2026, 2, 1, tzinfo=UTC)

        async def ids(**filters: Any) -> list[str]:
            return [
                json.loads(line)["id"] for line in (await exported(memory, **filters)).splitlines()
            ]

        assert await ids() == ["m1", "m2", "m3"]
        assert await ids(since=february) == ["m2", "m3"]
        assert await ids(until=february) == ["m1"]
        assert await ids(run_loop_id="m2") == ["m2"]
        assert await exported(memory, owner="nobody") == b""


async def test_a_history_that_cannot_be_read_leaves_a_line_that_says_so(tmp_path: Path) -> None:
    async with Memory(tmp_path, None) as memory:  # nothing is archived: no copy of it is elsewhere
        memory.append_imports = memory.journal.imports.append  # type: ignore[method-assign]
        await bring_in(memory, loop("a"), loop("b"))

        with writing(tmp_path / "journal.sqlite3") as db:
            db.execute("""UPDATE events SET body = '{"type": "odd"}' WHERE run_loop_id = 'a'""")
        first, second = (json.loads(line) for line in (await exported(memory)).splitlines())
        assert (first["id"], second["id"]) == ("a", "b")
        assert "cannot be read" in first["problem"]


async def test_the_line_that_the_page_shows_goes_in(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text()
    shown = page.partition("```json\n")[2].partition("```")[0]
    async with at_work(tmp_path) as memory:
        assert counts(await bring_in(memory, json.loads(shown))) == (1, 0, 0, 0)
        [line] = (await exported(memory)).splitlines()
        assert json.loads(line) == json.loads(shown)


async def test_lines_hold_what_the_format_promises(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await bring_in(memory, loop("a", WEATHER))
        [line] = (await exported(memory)).splitlines()
        written = json.loads(line)
        assert "成都".encode() in line
        assert {
            key: written[key] for key in ("id", "goal", "status", "created_at", "completed_at")
        } == {
            "id": "a",
            "goal": "Goal of a",
            "status": "completed",
            "created_at": MOMENT,
            "completed_at": MOMENT,
        }
        assert written["iterations"] == [WEATHER]
