"""The reader of event streams: what comes out does not depend on how the bytes were cut."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from service.cli.sse import Frame, SSEDecoder

LINE_ENDS = ("\n", "\r\n", "\r")
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)
NAMES = VALUES.filter(lambda name: name != "" and not name.startswith(" "))


def read(chunks: Sequence[bytes]) -> list[Frame]:
    decoder = SSEDecoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """A stream with comments, and the events and data that it holds."""
    text, frames = "", []
    end = draw(st.sampled_from(LINE_ENDS))
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            text += f": {draw(VALUES)}{end}"
        name, lines = draw(NAMES), draw(st.lists(VALUES, min_size=1, max_size=3))
        text += f"event: {name}{end}"
        for line in lines:
            text += f"data: {line}{end}"
        text += end
        frames.append((name, "\n".join(lines)))
    return text, frames


@given(streams(), st.data())
def test_frames_do_not_depend_on_how_the_bytes_are_cut(
    stream: tuple[str, list[tuple[str, str]]], data: st.DataObject
) -> None:
    text, expected = stream
    raw = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    for cut in (chunks, [raw], [bytes([byte]) for byte in raw]):
        assert [(frame.event, frame.data) for frame in read(cut)] == expected


def test_several_data_lines_are_one_text_with_line_feeds() -> None:
    assert read([b"data: one\ndata\ndata: three\n\n"]) == [Frame("message", "one\n\nthree", "")]


def test_a_chinese_character_that_is_cut_in_the_middle_arrives_whole() -> None:
    raw = "data: 番茄\n\n".encode()
    assert read([raw[:8], raw[8:10], raw[10:]])[0].data == "番茄"


def test_a_line_end_that_is_cut_between_cr_and_lf_is_one_line_end() -> None:
    assert read([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [Frame("message", "a\nb", "")]


def test_comments_and_unknown_fields_are_left_out() -> None:
    assert read([b": heartbeat\n\nretry: 10\nfoo: bar\ndata: x\n\n"])[0].data == "x"


def test_the_id_stays_until_another_one_comes() -> None:
    raw = b"id: 7\ndata: a\n\ndata: b\n\nid: 8\ndata: c\n\n"
    assert [frame.id for frame in read([raw])] == ["7", "7", "8"]


def test_only_one_space_after_the_colon_belongs_to_the_format() -> None:
    assert read([b"data:  x\n\n"])[0].data == " x"


def test_what_is_not_ended_by_an_empty_line_is_no_event() -> None:
    assert read([b"data: cut off\n"]) == []


def test_a_byte_order_mark_at_the_beginning_is_no_part_of_the_first_field() -> None:
    assert read([b"\xef\xbb", b"\xbfdata: x\n\n"])[0].data == "x"
