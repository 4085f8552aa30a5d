"""Files and lines that cannot go in are refused at once, in words that say what to do."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from service.domain.errors import InvalidInputError
from service.memory.exchange.importers.nesting import Nesting, TooDeepError
from service.memory.run_loop_lines import BadLineError, Line, parse
from tests.support.memory.archives import chatgpt, read, written
from tests.support.memory.exchanging import loop, turn


def test_a_file_of_brackets_is_refused_and_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(b"[" * 3_000_001)
    [conversation] = read(path)
    assert conversation.number == 1
    assert "nested" in (conversation.problem or "")


def test_a_zip_of_brackets_is_refused_and_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b'[{"a":' * 5_000_000)
    [conversation] = read(path, "chatgpt")
    assert "nested" in (conversation.problem or "")


def test_conversations_before_one_that_is_nested_too_deep_go_in(tmp_path: Path) -> None:
    talk = chatgpt(("q1", None, "user", "word " * 100_000))
    path = tmp_path / "conversations.json"
    path.write_text("[" + json.dumps(talk) + "," + "[" * 100_000)
    first, last = read(path)
    assert len(first.run_loops) == 1
    assert (last.number, last.run_loops) == (2, ())
    assert "nested" in (last.problem or "")


def test_brackets_in_what_was_said_are_no_nesting(tmp_path: Path) -> None:
    said = "[{" * 200_000 + '"\\' * 50_000 + "[" * 100_000
    [conversation] = read(written(tmp_path, chatgpt(("q1", None, "user", said))))
    assert conversation.problem is None
    assert conversation.run_loops[0].iterations[0].user_message == said


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_nesting_is_counted_alike_in_pieces_of_any_size(size: int) -> None:
    text = json.dumps({"a": ['"[[[[', "\\[[[", {'b\\"': "[[[["}]}).encode()
    flat, deep = Nesting(3), Nesting(2)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    for piece in pieces:
        flat.check(piece)
    with pytest.raises(TooDeepError) as raised:
        list(map(deep.check, pieces))
    assert text[: raised.value.before + 1].endswith(b"{") or size < len(text)


def test_a_zip_that_breaks_off_is_told_as_one(tmp_path: Path) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr(
            "conversations.json", json.dumps([chatgpt(("q1", None, "user", "Hi"))]) * 100
        )
    path = tmp_path / "half.zip"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(InvalidInputError) as raised:
        read(path)
    words = raised.value.problem().in_words()
    assert "damaged or not wholly downloaded" in words
    assert "Download it again" in words
    assert "standard input" not in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "nul\0x"}, "control character U+0000"),
        ({"id": "new\nline"}, "control character U+000A"),
        ({"id": "\x1b[31mred"}, "control character U+001B"),
        ({"id": "a\u202eb"}, "control character U+202E"),
        ({"id": " "}, "its id is blank"),
        ({"id": ""}, "its id is blank"),
        ({"id": "i" * 300}, "its id has 300 characters; at most 256 are taken"),
    ],
)
def test_an_id_that_cannot_be_used_is_refused_by_what_is_wrong_with_it(
    change: dict[str, Any], words: str
) -> None:
    line = json.dumps({**loop("x", turn("Hello")), **change}).encode()
    with pytest.raises(BadLineError, match=words.replace("+", r"\+")):
        parse(Line(1, line), owner="me")


@pytest.mark.parametrize("name", ["日本", "🙂👩‍👩‍👧", "with space", "x:0.1", "../../etc", "--all"])
def test_odd_ids_of_letters_and_marks_are_taken(name: str) -> None:
    line = json.dumps(loop(name, turn("Hello"))).encode()
    assert parse(Line(1, line), owner="me").id == name


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d\\n", "\\ud83d\\ud83d\\ude00"])
def test_half_a_character_is_told_with_what_to_do(half: str) -> None:
    line = json.dumps(loop("x", turn("HERE"))).replace("HERE", f"half {half} of it").encode()
    with pytest.raises(BadLineError, match=r"half of a character.*U\+FFFD"):
        parse(Line(1, line), owner="me")
