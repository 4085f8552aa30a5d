"""Whatever way a text comes in, a model that obeys it does nothing without a yes, and tells nothing.

All texts of `data/fixtures/injections` come through each channel at once, to an agent with all
tools, in which every file of the disk is granted for reading.
"""

from __future__ import annotations

import html
import io
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from docx import Document

from service.domain.conversation.file_attachments import NewFile
from tests.support.agent.injecting import (
    ALL,
    API_KEY,
    DEEDS,
    DOOR_CODE,
    READ,
    TOKEN,
    House,
    Injection,
    house_in,
)
from tests.support.tools.documents import pdf

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
