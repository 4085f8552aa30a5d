"""Infinities and what is no number: refused at each door, and harmless where they came in once."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import InvalidInputError
from service.domain.history.events import MessageReceived, RunLoopStarted
from service.memory.exchange.importers.nesting import Nesting, TooLongNumberError
from service.memory.memory import Memory
from service.memory.protocol import SearchFilters
from service.memory.run_loop_lines import BadLineError, Line, parse
from service.tools.arguments import json_object
from service.tools.decorator import tool
from service.tools.protocol import ToolFailure
from tests.support.agent.agents import running_agent, sent
from tests.support.memory.archives import chatgpt, read, written
from tests.support.memory.exchanging import loop, turn
from tests.support.memory.remembering import remembering, run_loop
from tests.support.tools.tool_calls import CONTEXT

pytestmark = pytest.mark.anyio

NUMBERS = [math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("number", NUMBERS)
async def test_metadata_with_a_number_that_json_cannot_hold_is_refused(
    tmp_path: Path, number: float
) -> None:
    async with running_agent(tmp_path) as agent:
        for metadata in ({"a": number}, {"a": {"b": [1, number]}}, {"天气": (number,)}):
            with pytest.raises(InvalidInputError, match="JSON cannot hold") as refused:
                await agent.accept("Hello", metadata=metadata)
            assert next(iter(metadata)) in refused.value.detail
        assert await agent.memory.journal.read() == []
        await sent(agent, "Hello")  # what was refused keeps nothing else out


@pytest.mark.parametrize("written", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_line_with_a_number_that_json_cannot_hold_is_refused(written: str) -> None:
    text = json.dumps(loop("r", turn("lamp", metadata={"a": 1.5})))
    assert parse(Line(1, text.encode()), owner="me").id == "r"
    with pytest.raises(BadLineError, match=r"metadata\.a is -?Infinity|not JSON"):
        parse(Line(1, text.replace("1.5", written).encode()), owner="me")


def test_an_archive_with_an_endless_number_is_told_where_it_breaks_off(tmp_path: Path) -> None:
    path = written(tmp_path, chatgpt(("q1", None, "user", "Hello")), {"n": 12345.5})
    path.write_text(path.read_text().replace("12345.5", "9" * 10_000))
    first, last = read(path)
    assert len(first.run_loops) == 1
    assert "a number of more than 4,300 digits" in (last.problem or "")


@pytest.mark.parametrize("piece", [1, 7, 4096, 100_000])
@pytest.mark.parametrize("digits", [4300, 4301])
def test_the_digits_of_a_number_are_counted_over_the_borders_of_what_is_read(
    piece: int, digits: int
) -> None:
    text = b'["' + b"1" * 9000 + b'", 2, ' + b"9" * digits + b"]"
    nesting = Nesting(9)

    def look() -> int:
        for start in range(0, len(text), piece):
            try:
                nesting.check(text[start : start + piece])
            except TooLongNumberError as error:
                return start + error.before
        return len(text)

    assert look() == (len(text) if digits == 4300 else len(text) - 2)


def test_an_archive_with_such_numbers_goes_in_with_their_names(tmp_path: Path) -> None:
    talk = chatgpt(("q1", None, "user", "Hello"), ("a1", "q1", "assistant", "Hi"))
    talk["create_time"] = 12345.5
    for node in talk["mapping"].values():
        if node.get("message"):
            node["message"]["create_time"] = 12345.5
    other = chatgpt(("q1", None, "user", "The next one"), conversation_id="c2")
    path = written(tmp_path, talk, other)
    text = path.read_text()
    path.write_text(text.replace("12345.5", "1e999"))
    assert path.read_text() != text
    conversations = read(path)
    assert any("The next one" in str(each.run_loops) for each in conversations)
    for each in conversations:
        for imported in each.run_loops:
            json.loads(imported.model_dump_json(), parse_constant=pytest.fail)


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": [NaN]}', '{"a": -Infinity}'])
def test_arguments_with_such_a_number_are_told_to_the_model(text: str) -> None:
    with pytest.raises(ToolFailure, match=r"a(\.0)? is (-?Infinity|NaN).*finite"):
        json_object(text)


async def test_a_result_with_such_a_number_is_valid_json() -> None:
    @tool()
    def measure() -> Any:
        """Measure."""
        return {"ratio": math.nan, "most": [math.inf]}

    words = await measure.run("{}", CONTEXT)
    assert json.loads(words, parse_constant=pytest.fail) == {"ratio": "NaN", "most": ["Infinity"]}


async def test_a_journal_that_holds_one_opens_and_tells_its_name(tmp_path: Path) -> None:
    """As earlier versions wrote it."""
    async with Memory(tmp_path, None) as memory:
        started = RunLoopStarted(goal="lamp")
        received = MessageReceived(
            message_id="m", message=Message.user("lamp"), metadata={"a": 12345.5}
        )
        await memory.journal.append("r", started, received, owner="me")
    for table in ("events",):
        with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as db, db:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            for column in columns:
                db.execute(
                    f"UPDATE {table} SET {column} = replace({column}, '12345.5', 'Infinity')"
                    f" WHERE typeof({column}) = 'text'"
                )
            assert "Infinity" in str(db.execute(f"SELECT * FROM {table}").fetchall())
    async with Memory(tmp_path, None) as memory:
        state = await memory.journal.replay("r")
        assert state.unseen[0].metadata == {"a": "Infinity"}
        assert len(await memory.journal.read(kind="message.received")) == 1


async def test_a_ledger_that_holds_one_is_searched_on(tmp_path: Path) -> None:
    answered = run_loop("r", ("Where is Bern?", "In Switzerland."))
    with_metadata = answered.model_copy(
        update={
            "iterations": tuple(
                each.model_copy(update={"metadata": {"a": 12345.5, "city": "Bern"}})
                for each in answered.iterations
            )
        }
    )
    async with remembering(tmp_path, None, with_metadata):
        pass
    with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db, db:
        db.execute("UPDATE segments SET metadata = replace(metadata, '12345.5', 'Infinity')")
    async with remembering(tmp_path, None) as memory:
        filters = SearchFilters(metadata={"city": "Bern"})
        assert (await memory.search("Where is Bern?", owner="me", filters=filters)).hits
        filters = SearchFilters(metadata={"city": "Rome"})
        assert not (await memory.search("Bern", owner="me", filters=filters)).hits
        filters = SearchFilters(metadata={"a": math.inf})
        with pytest.raises(InvalidInputError):
            await memory.search("Bern", owner="me", filters=filters)
