"""Archives of ChatGPT and Claude become run loops: their branches, tools, files and oddities."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from service.domain.errors import InvalidInputError
from service.domain.history.imported import standing
from service.memory.exchange.importers.archives import Archive
from service.memory.run_loop_lines import Line, line_of, parse
from tests.support.memory.archives import CHATGPT, CLAUDE, chatgpt, loops, read, said, written

GARDEN = "chatgpt-0f3c6d1e-0000-4000-8000-00000000a001"
POWER = "chatgpt-0f3c6d1e-0000-4000-8000-00000000a002"
TRAIN = "claude-5b1d0000-0000-4000-8000-00000000c001"
POEM = "claude-5b1d0000-0000-4000-8000-00000000c002"


def test_the_branch_that_is_shown_is_a_run_loop_with_all_its_words() -> None:
    [garden] = [loop for loop in loops(read(CHATGPT)).values() if "-part-" not in loop.id][:1]
    assert garden.id.startswith(GARDEN)
    assert garden.goal == "Balcony tomatoes"
    assert said(garden) == [
        (
            "Which tomatoes grow well on a windy balcony?",
            "Dwarf varieties such as Maskotka stay low and stand wind well.",
        ),
        (
            "And how often should I water them?",
            "Once in the morning; twice when it is above thirty degrees.",
        ),
        ("Put it into a calendar, please. 🍅", "Every morning at seven, from May to September."),
    ]


def test_other_branches_are_run_loops_of_what_they_have_of_their_own() -> None:
    imported = loops(read(CHATGPT))
    shown, soil, water = [loop for loop in imported.values() if loop.id.startswith(GARDEN)]
    assert said(soil) == [("And which soil do they want?", "Loose compost with a third of sand.")]
    assert said(water) == [("And how often should I water them?", "Twice a day in July.")]
    # The question about soil was put in the place of another one: it came after what is shown.
    assert soil.predecessor_id == shown.id
    # The first answer about water was there before the one that is shown: it follows nothing.
    assert water.predecessor_id is None


def test_tools_thoughts_and_pictures_of_chatgpt_are_kept() -> None:
    power = loops(read(CHATGPT))[POWER]
    computed, answer, cat, searched, last = power.iterations
    assert computed.reasoning == "读取表格\n\n先把十二个月加起来，再除以十二。"
    [call] = computed.tool_calls
    assert (call.name, json.loads(call.arguments)["input"][:10]) == ("python", "import csv")
    assert [(result.id, result.content) for result in computed.tool_results] == [
        (call.id, "300.0\n")
    ]
    assert answer.user_message is None
    assert answer.response == "每月平均约 300 千瓦时。"
    assert cat.tool_results[0].content == "[image: a cat that saves power]"
    [result] = searched.tool_results
    assert result.is_error
    assert result.content.endswith("The connection broke.")
    assert "https://example.org/tariff" in result.content
    assert last.response == "夜间电价更低，但查询中断了。"


def test_files_stand_in_the_message_by_their_text_or_their_name() -> None:
    message = loops(read(CHATGPT))[POWER].iterations[0].user_message
    assert message == (
        "[image: 电表.png]\n\n请根据附件算出每月平均用电量。\n\n[file: 用电.csv]\n\n"
        "[attachment: 说明.txt]\n单位：千瓦时\n[end of attachment: 说明.txt]"
    )
    first = next(loop for loop in loops(read(CLAUDE)).values() if loop.id.startswith(TRAIN))
    assert first.iterations[0].user_message == (
        "Is there a night train to Vienna on Fridays?\n\n[attachment: wishes.txt]\n"
        "A lower berth, please.\n[end of attachment: wishes.txt]\n\n[file: map.png]"
    )


def test_a_broken_conversation_is_told_and_the_others_are_read() -> None:
    conversations = read(CHATGPT)
    assert [(each.number, each.title, each.problem is not None) for each in conversations] == [
        (1, "Balcony tomatoes", False),
        (2, "年度用电分析", False),
        (3, "Half a conversation", True),
        (4, "", False),
        (5, "Nothing said", False),
    ]
    assert "mapping" in (conversations[2].problem or "")
    assert conversations[4].run_loops == ()
    assert [each.title for each in read(CLAUDE) if each.problem] == ["Torn"]


def test_what_has_no_times_no_title_and_an_unknown_form_is_kept_all_the_same() -> None:
    odd = loops(read(CHATGPT))["chatgpt-0f3c6d1e-0000-4000-8000-00000000a003"]
    assert odd.goal == "No clock was running here."
    assert odd.iterations[0].response == '{"body": "A form that came later"}'
    assert odd.created_at == odd.completed_at


def test_claude_thinks_calls_tools_and_branches() -> None:
    imported = loops(read(CLAUDE))
    shown, other = [loop for loop in imported.values() if loop.id.startswith(TRAIN)]
    looked, answer, booked = shown.iterations
    assert looked.reasoning == "I should look at the timetable."
    assert looked.response == "Let me look."
    assert json.loads(looked.tool_calls[0].arguments) == {"to": "Vienna", "day": "Friday"}
    assert looked.tool_results[0].content == "NJ 40467, 22:10"
    assert answer.response == "Yes, at 22:10."
    assert booked.user_message == "Book the lower berth."
    [attempt] = other.iterations
    assert attempt.user_message == "Book the upper berth."
    assert attempt.tool_results[0].id == attempt.tool_calls[0].id
    assert attempt.tool_results[0].is_error


def test_times_keep_their_zone_to_the_millisecond() -> None:
    poem = loops(read(CLAUDE))[POEM]
    assert poem.iterations[0].timestamp.utcoffset() == timedelta(hours=8)
    garden = next(iter(loops(read(CHATGPT)).values()))
    assert garden.iterations[0].timestamp.isoformat() == "2026-01-01T09:00:01.123000+00:00"


def test_an_older_claude_export_without_parents_is_one_branch() -> None:
    poem = loops(read(CLAUDE))[POEM]
    assert said(poem) == [("写一句关于春天的诗。🌸", "春风又绿江南岸旁的小巷。")]


@pytest.mark.parametrize("source", [CHATGPT, CLAUDE])
def test_every_run_loop_of_an_archive_survives_its_line(source: Path) -> None:
    for loop in loops(read(source)).values():
        assert parse(Line(1, line_of(loop).strip()), owner="me") == loop


def test_a_conversation_that_grew_extends_its_run_loop(tmp_path: Path) -> None:
    first = [("q1", None, "user", "One?"), ("a1", "q1", "assistant", "Uno.")]
    [early] = loops(read(written(tmp_path, chatgpt(*first)))).values()
    grown = chatgpt(*first, ("q2", "a1", "user", "Two?"), ("a2", "q2", "assistant", "Due."))
    [late] = loops(read(written(tmp_path, grown))).values()
    assert early.id == late.id
    assert standing(early, late, labels_may_change=True) == "extended"
    assert standing(late, early, labels_may_change=True) == "unchanged"


def test_no_id_ever_gets_other_words_when_another_branch_is_shown(tmp_path: Path) -> None:
    first = [("q1", None, "user", "One?"), ("a1", "q1", "assistant", "Uno.")]
    edited = [("q1e", None, "user", "One, in French?"), ("a1e", "q1e", "assistant", "Un.")]
    archives = [
        chatgpt(*first),
        chatgpt(*first, *edited, current="a1e"),
        chatgpt(*first, *edited, ("q2", "a1", "user", "Two?"), current="q2"),
        chatgpt(*first, *edited, ("q2", "a1", "user", "Two?"), current="a1e"),
    ]
    earlier: dict[str, Any] = {}
    for conversation in archives:
        for loop_id, loop in loops(read(written(tmp_path, conversation))).items():
            if loop_id in earlier:
                assert standing(earlier[loop_id], loop, labels_may_change=True) != "conflict"
            earlier[loop_id] = loop
    everything = {turn for loop in earlier.values() for turn in said(loop)}
    assert everything >= {("One?", "Uno."), ("One, in French?", "Un."), ("Two?", None)}


def test_a_second_answer_that_never_came_makes_no_run_loop(tmp_path: Path) -> None:
    conversation = chatgpt(
        ("q1", None, "user", "One?"),
        ("a1", "q1", "assistant", ""),
        ("a1b", "q1", "assistant", "Uno."),
    )
    [loop] = loops(read(written(tmp_path, conversation))).values()
    assert said(loop) == [("One?", "Uno.")]


def test_branches_of_branches_are_all_there(tmp_path: Path) -> None:
    conversation = chatgpt(
        ("q1", None, "user", "One?"),
        ("a1", "q1", "assistant", "Uno."),
        ("q2", "a1", "user", "Two?"),
        ("a2", "q2", "assistant", "Due."),
        ("a2b", "q2", "assistant", "Deux."),
        ("q1e", None, "user", "Three?"),
        ("a3", "q1e", "assistant", "Tre."),
        current="a3",
    )
    shown, part, inner = loops(read(written(tmp_path, conversation))).values()
    assert said(shown) == [("Three?", "Tre.")]
    assert said(part) == [("One?", "Uno."), ("Two?", "Due.")]
    assert said(inner) == [("Two?", "Deux.")]
    assert (part.predecessor_id, inner.predecessor_id) == (None, part.id)


def test_messages_that_go_round_in_a_circle_are_told(tmp_path: Path) -> None:
    conversation = chatgpt(("q1", None, "user", "One?"), ("a1", "q1", "assistant", "Uno."))
    conversation["mapping"]["q1"]["parent"] = "a1"
    fine = chatgpt(("q9", None, "user", "Nine?"), conversation_id="c9")
    circle, after = read(written(tmp_path, conversation, fine))
    assert "circle" in (circle.problem or "")
    assert len(after.run_loops) == 1


def test_values_of_the_wrong_kind_break_nothing(tmp_path: Path) -> None:
    odd: list[Any] = [
        {"conversation_id": "x", "mapping": {"a": None, "b": 7, "c": {"message": "no"}}},
        {"conversation_id": "y", "title": 5, "mapping": {"a": {"message": {"content": []}}}},
        {"conversation_id": 5, "mapping": {}},
        "not a conversation",
        {"conversation_id": "z", "mapping": {"a": {"parent": 3, "children": "no", "message": {
            "author": {"role": "user"}, "create_time": "late", "metadata": {"attachments": [1]},
            "content": {"content_type": "text", "parts": ["Still here", None, 4, {"a": 1}]}}}}},
    ]  # fmt: skip
    conversations = read(written(tmp_path, *odd), "chatgpt")
    assert [each.problem is None for each in conversations] == [True, True, False, False, True]
    [loop] = conversations[-1].run_loops
    assert (loop.iterations[0].user_message or "").startswith("Still here")


def test_one_that_is_nested_without_end_keeps_none_of_the_others_out(tmp_path: Path) -> None:
    deep = chatgpt(("q1", None, "user", "DEEP"), conversation_id="deep")
    deep["mapping"]["q1"]["message"]["content"] = {"content_type": "new", "body": "DEEP"}
    fine = chatgpt(("q9", None, "user", "Nine?"), conversation_id="c9")
    path = written(tmp_path, deep, fine)
    path.write_text(path.read_text().replace('"DEEP"', "[" * 5_000 + "]" * 5_000))
    first, second = read(path, "chatgpt")
    assert "not known" in (first.problem or "")
    assert len(second.run_loops) == 1


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CLAUDE.read_bytes(),))
    writer.start()
    assert loops(read(pipe)) == loops(read(CLAUDE))
    writer.join()


def test_half_characters_become_replacement_marks(tmp_path: Path) -> None:
    conversation = chatgpt(("q1", None, "user", "cut \ud83c off 🍅"))
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))  # escapes, as some exports have them
    [loop] = loops(read(path)).values()
    assert line_of(loop)
    assert "🍅" in (loop.iterations[0].user_message or "")


def test_a_zip_is_read_without_unpacking_it(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("chat.html", "<p>mapping</p>")
        file.writestr("__MACOSX/conversations.json", b"junk")
        file.write(CHATGPT, "export/conversations.json")
    assert loops(read(archive)) == loops(read(CHATGPT))
    assert list(tmp_path.iterdir()) == [archive]


def test_an_archive_in_several_files_is_read_whole(tmp_path: Path) -> None:
    conversations = json.loads(CHATGPT.read_text())
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("conversations-000.json", json.dumps(conversations[:1]))
        file.writestr("conversations-001.json", json.dumps(conversations[1:]))
    assert [each.number for each in read(archive)] == [1, 2, 3, 4, 5]
    assert loops(read(archive)) == loops(read(CHATGPT))
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    assert loops(read(folder)) == loops(read(CHATGPT))


def test_a_file_that_breaks_off_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(CLAUDE.read_bytes()[:-200])
    conversations = read(path, "claude")
    assert loops(conversations).keys() == loops(read(CLAUDE)).keys()
    assert "breaks off" in (conversations[-1].problem or "")


def test_a_damaged_zip_is_refused_in_words(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(CHATGPT, "conversations.json")
    raw = bytearray(archive.read_bytes())
    raw[200:260] = bytes(60)
    archive.write_bytes(raw)
    with pytest.raises(InvalidInputError, match="ZIP cannot be read"):
        read(archive)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (CHATGPT.read_bytes(), "chatgpt"),
        (b"\xef\xbb\xbf" + CHATGPT.read_bytes(), "chatgpt"),
        (CLAUDE.read_bytes(), "claude"),
        (b'{"conversations": [{"uuid": "u", "chat_messages": []}]}', "claude"),
        (b'{"id": "a", "goal": "the \\"mapping\\": of it", "iterations": []}\n', "rondo"),
        (b"\xef\xbb\xbf\r\n" + b'{"id": "a", "iterations": []}\r\n', "rondo"),
        (b"", "rondo"),
    ],
)
def test_the_contents_tell_the_format(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "anything"
    path.write_bytes(content)
    with Archive(path, sys.stdin.buffer, None) as archive:
        assert archive.format == expected
    with Archive(None, io.BytesIO(content), None) as archive:
        assert archive.format == expected


def test_what_cannot_be_told_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text("[1, 2, 3]")
    with pytest.raises(InvalidInputError, match="neither an export"):
        read(path)
    with pytest.raises(InvalidInputError, match="No such file"):
        read(tmp_path / "missing.json")
    with pytest.raises(InvalidInputError, match="holds no conversations"):
        read(tmp_path)


@pytest.mark.slow
def test_a_long_archive_is_never_held_as_a_whole(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "conversations.json"
    text = "A long answer. " * 2_000
    with path.open("w") as file:
        for number in range(1_000):
            file.write("[" if number == 0 else ",")
            talk = chatgpt(("a", None, "assistant", text), conversation_id=str(number))
            file.write(json.dumps(talk))
        file.write("]")
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    try:
        with Archive(path, sys.stdin.buffer, None) as archive:
            assert (
                sum(len(conversation.run_loops) for conversation in archive.conversations())
                == 1_000
            )
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
