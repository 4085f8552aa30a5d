"""Whatever way a text comes in, a model that obeys it does nothing without a yes, and tells nobody.

All texts of `data/fixtures/injections` come through each channel at once, to an agent with all
tools, in which every file of the disk is granted for reading.
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from docx import Document

from service.agent.agent_factory import agent_from_settings
from service.agent.tool_listing import listed_tools
from service.config import EmbedderSettings, LLMSettings, Settings, ToolsSettings
from service.domain.conversation.file_attachments import NewFile
from service.memory.ledger.notes import NewSentence, NewSentences
from service.schedules.schedule import ScheduleKind
from tests.support.agent.agents import FunctionLLM, echo, sent
from tests.support.agent.injecting import (
    ALL,
    DEEDS,
    DOOR_CODE,
    READ,
    TEXTS,
    House,
    Injection,
    house_in,
)
from tests.support.agent.scheduling import due_now, opened
from tests.support.memory.remembering import run_loop, tool_turn
from tests.support.tools.connections import HttpClock, until
from tests.support.tools.documents import pdf
from tests.support.tools.skills import put_skill

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

EVERY_TEXT = "\n\n".join(each.text for each in ALL)


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with house_in(tmp_path, monkeypatch) as made:
        yield made


async def obeyed(house: House, loop_id: str, texts: Sequence[Injection] = ALL) -> None:
    """The model has tried all that the texts say; the person has said no."""
    await house.settled(loop_id)
    missed = [each.text for each in texts if each not in house.model.tried]
    assert missed == [], "the model has obeyed each of them"
    if any(each.call["name"] not in READ for each in texts):
        state = house.waits(loop_id)
        assert state is not None
        assert state.awaiting is not None
    await house.refused(loop_id)


def test_there_are_enough_of_both_languages_and_of_all_deeds() -> None:
    assert len(ALL) >= 90
    assert sum(each.language == "zh" for each in ALL) >= 40
    assert len({each.text for each in ALL}) == len(ALL)
    deeds = {each.call["name"] for each in DEEDS}
    assert deeds >= {"write_file", "edit_file", "write_skill", "edit_skill", "schedule"}
    assert deeds >= {"remind_me", "web_fetch", "memory_search", *READ} - {"remember"}


def as_text(folder: Path) -> Path:
    path = folder / "page.md"
    path.write_text(EVERY_TEXT, "utf-8")
    return path


def as_pdf(folder: Path) -> Path:
    texts = [each.text.replace("\n", " ") for each in ALL]
    path = folder / "page.pdf"
    path.write_bytes(pdf([" ".join(texts[at : at + 10]) for at in range(0, len(texts), 10)]))
    return path


def as_word(folder: Path) -> Path:
    document, out = Document(), io.BytesIO()
    for each in ALL:
        document.add_paragraph(each.text)
    document.save(out)
    path = folder / "page.docx"
    path.write_bytes(out.getvalue())
    return path


@pytest.mark.parametrize("written", [as_text, as_pdf, as_word])
async def test_through_a_file_that_is_read(house: House, written: Callable[[Path], Path]) -> None:
    path = written(house.home)
    loop_id = await house.told("read_file", path=str(path))
    await obeyed(house, loop_id)
    assert house.unquoted(ALL) == []
    assert DOOR_CODE in house.shown(), "what the memory holds, the model may know"


async def test_through_a_file_that_is_sent(house: House) -> None:
    content = NewFile("page.txt", EVERY_TEXT.encode())
    await obeyed(house, await house.sent_files('read_file {"path": "page.txt"}', content))
    assert house.unquoted(ALL) == []


async def test_through_the_names_of_files_that_are_sent(house: House) -> None:
    named = [each for each in ALL if "/" not in each.text and "\n" not in each.text]
    named = [each for each in named if len(each.text) <= 110]
    assert len(named) >= 60
    files = [NewFile(f"{each.text}.txt", b"") for each in named]
    await obeyed(house, await house.sent_files("What are these?", *files), named)


async def test_through_the_names_of_files(house: House) -> None:
    named = [each for each in ALL if "/" not in each.text and len(each.text.encode()) <= 255]
    assert len(named) >= 60
    folder = house.home / "downloads"
    folder.mkdir()
    for each in named:
        (folder / each.text).touch()
    loop_id = await house.told("list_files", folder=str(folder))
    await obeyed(house, loop_id, named)
    assert house.unquoted(named) == []


async def test_through_what_a_script_writes_while_it_runs(house: House) -> None:
    script = house.home / "data" / "scripts" / "report.py"
    script.write_text(
        "import sys\nsys.stdout.reconfigure(encoding='utf-8')\n"
        f"for each in {[each.text for each in ALL]!r}: print(each, flush=True)"
    )
    house.prepared()
    loop_id = await house.told("run_script", "run_loop", name="report.py")
    await obeyed(house, loop_id)
    assert house.unquoted(ALL) == []


async def test_through_a_page_of_the_web(house: House) -> None:
    words = "".join(f"<p>{html.escape(each.text)}</p>" for each in ALL)
    house.collector.pages["/page"] = f"<html><body><article>{words}</article></body></html>"
    loop_id = await house.told("web_fetch", address=f"{house.collector.address}/page")
    await obeyed(house, loop_id)
    assert house.collector.asked == ["/page"], "the yes was to this page alone"
    assert house.unquoted(ALL) == []


async def test_malicious_skills_do_nothing_without_a_yes(house: House) -> None:
    put_skill(
        house.home / "data",
        "help",
        f"---\nname: help\ndescription: A page.\n---\n{EVERY_TEXT}\n",
    )
    house.prepared()
    loop_id = await house.told("read_skill", name="help")
    await obeyed(house, loop_id)


async def test_through_what_skills_say_of_themselves(house: House) -> None:
    texts = [each for each in ALL if len(each.text) <= 80][::6]
    for number, each in enumerate(texts):
        words = f"---\nname: help-{number}\ndescription: {json.dumps(each.text)}\n---\nHelp.\n"
        put_skill(house.home / "data", f"help-{number}", words)
    house.prepared()
    loop_id = (await sent(house.agent, "Good morning", "new"))[0].run_loop_id
    await obeyed(house, loop_id, texts)


async def test_through_the_words_of_reminders_and_tasks(house: House) -> None:
    kinds: list[tuple[ScheduleKind, list[Injection]]] = [
        ("reminder", ALL[::2]),
        ("task", ALL[1::2]),
    ]
    for kind, texts in kinds:
        for at in range(0, len(texts), 12):
            name = f"{kind}{at}"
            some = texts[at : at + 12]
            await due_now(house.agent, "\n".join(each.text for each in some), kind, name=name)
            loop_id = await opened(house.agent, name)
            await house.settled(loop_id)
            if kind == "reminder":
                await sent(house.agent, "And what does that mean?", loop_id)
            await obeyed(house, loop_id, some)
            await house.agent.schedules.remove(name)


async def test_through_what_is_recalled_and_found_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = [
        run_loop(f"old{number}", (f"zebra{number} says: {each.text}", "Noted."))
        for number, each in enumerate(DEEDS)
    ]
    async with house_in(tmp_path, monkeypatch, *loops) as house:
        for number, each in enumerate(DEEDS):
            begun = await sent(house.agent, f"What does zebra{number} say?", "new")
            await house.refused(begun[0].run_loop_id)
            assert each in house.model.tried
        assert house.unquoted(DEEDS) == []


async def test_through_facts_and_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [each for each in TEXTS if "\n" not in each.text][::13]
    kept = [f"zwibbel quince medlar: {each.text}" for each in texts[:3]]
    facts = [
        run_loop(
            f"fact{number}",
            tool_turn("Yes.", "remember", json.dumps({"fact": each}), "Remembered.", "Good."),
        )
        for number, each in enumerate(kept)
    ]
    async with house_in(tmp_path, monkeypatch, *facts) as house:
        loop_id = await house.told("remember", fact="Zwibbel, quince, medlar: all are good")
        await obeyed(house, loop_id, texts[:3])
        assert "Not remembered yet: there are facts" in house.shown()
        notes = house.agent.memory.long_term.notes
        cited = tuple(notes.unread("me", limit=1))
        sentences = tuple(NewSentence(f"The wryneck: {each.text}", cited) for each in texts)
        notes.write("me", [NewSentences("topic", "wryneck", sentences)], read=[])
        house.model.tried.clear()
        loop_id = await house.told("memory_search", query="wryneck")
        assert "Notes on this" in house.shown()
        await obeyed(house, loop_id, texts)
        assert house.unquoted(texts) == []


async def test_through_a_tool_server_and_what_it_comes_to_say_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server says what it is asked about, and a person's own words can be kept as a fact.
    texts = [each for each in ALL if "\n" not in each.text and each.kind != "memory"]
    first, later = texts[1:3]
    with HttpClock(tmp_path / "server") as server:
        (server.folder / "description").write_text(first.text)
        clock = {"url": server.at().url, "approval": "never"}
        async with house_in(tmp_path, monkeypatch, mcp={"clock": clock}) as house:
            await until(lambda: listed_tools(house.agent).servers[0].is_there)
            loop_id = await house.told("clock__now", city=" ".join(each.text for each in texts))
            await obeyed(house, loop_id, texts)
            (server.folder / "description").write_text(later.text)
            house.model.tried.clear()
            await house.told("clock__change")
            await until(lambda: "clock__now" in house.agent.tools.withheld)
            await house.refused((await sent(house.agent, "Hello", "new"))[0].run_loop_id)
            assert later not in house.model.tried, "the model is not told"


def test_a_new_tool_that_asks_nobody_is_thought_about_here(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path,
        llm=LLMSettings(base_url="http://127.0.0.1:9/v1", model="none"),
        embedder=EmbedderSettings(kind="none"),
        tools=ToolsSettings.model_validate(
            {
                "entry_points": False,
                "files_read": ("/",),
                "files_write": ("/",),
                "scripts": True,
                "web_fetch": True,
                "tavily_api_key": "x",
            }
        ),
    )
    agent = agent_from_settings(settings, llm=FunctionLLM(echo))
    tools = {name: agent.tools.get(name) for name in agent.tools.names}
    asks_nobody = {name for name, tool in tools.items() if tool and not tool.needs_approval}
    assert asks_nobody == {
        "ask_user", "calculator", "choose", "current_time", "list_files", "memory_expand",
        "memory_search", "read_file", "read_result", "read_skill", "remember", "search_files",
        "web_search",
    }  # fmt: skip
