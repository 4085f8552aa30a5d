"""Images in the library: of a file, through an agent, and in what a conversation is held to be."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from service.agent.message_check import image_from_file
from service.domain.conversation.images import LARGEST_IMAGE, image_part, image_type
from service.domain.conversation.messages import ImageUrlPart, Message, TextPart
from service.domain.errors import InvalidInputError
from service.loop.context.model_context import messages_tokens
from tests.support.agent.agents import running_agent
from tests.support.agent.conversations import Conversation

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
JPEG = b"\xff\xd8\xff\xe0" + bytes(100)
WEBP = b"RIFF" + struct.pack("<I", 100) + b"WEBPVP8 " + bytes(80)


async def test_an_image_of_a_file_is_asked_about_through_the_library(tmp_path: Path) -> None:
    (tmp_path / "照片.txt").write_bytes(JPEG)
    image = image_from_file(tmp_path / "照片.txt")
    assert image.url.startswith("data:image/jpeg;base64,")
    message = Message(role="user", content=(TextPart(text="What is this?"), image))
    async with running_agent(tmp_path / "data", lambda messages: "A lemur.") as agent:
        assert await agent.ask(message) == "A lemur."
        shown = agent.models.of(None).llm.calls[0][-1]  # type: ignore[attr-defined]
        assert shown.images == (image,)


@pytest.mark.parametrize("data", [PNG, JPEG, WEBP, b"GIF89a" + bytes(20)])
def test_the_type_of_an_image_is_told_by_its_bytes(data: bytes) -> None:
    kind = image_type(data)
    assert kind is not None
    assert image_part(data).url.startswith(f"data:{kind};base64,")


def test_files_that_are_no_images_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("<html>")
    (tmp_path / "huge.png").write_bytes(PNG + bytes(LARGEST_IMAGE))
    (tmp_path / "empty.png").touch()
    expected = {
        "notes.png": "no PNG",
        "huge.png": f"{len(PNG) + LARGEST_IMAGE:,} bytes",
        "empty.png": "no PNG",
        "missing.png": "No such file",
        ".": "directory",
    }
    for name, why in expected.items():
        with pytest.raises(InvalidInputError) as refused:
            image_from_file(tmp_path / name)
        assert why in refused.value.detail
        assert str(tmp_path) in refused.value.detail


def test_words_keep_the_place_of_an_image() -> None:
    image = ImageUrlPart(url="https://x.example/a.png")
    parts = (TextPart(text="比较"), image, TextPart(text="和"), image, TextPart(text="\nWhich?"))
    assert Message(role="user", content=parts).words == "比较 (an image) 和 (an image)\nWhich?"
    assert Message(role="user", content=(image,)).words == "(an image)"
    assert Message.user("a  b ").words == "a  b "


def test_an_image_counts_in_the_window_and_its_base64_does_not() -> None:
    small = Message(role="user", content=(image_part(PNG),))
    large = Message(role="user", content=(image_part(PNG + bytes(1_000_000)),))
    assert messages_tokens([small]) == messages_tokens([large])
    assert 1000 < messages_tokens([small]) < 2000
    assert Message.model_validate_json(small.model_dump_json()) == small


def test_an_older_journal_has_images_without_ids() -> None:
    old = '{"role":"user","content":[{"type":"image_url","url":"https://x.example/a.png"}]}'
    assert Message.model_validate_json(old).images[0].id is None


def test_a_summary_keeps_a_word_for_an_image_that_was_shown() -> None:
    conversation = Conversation()
    for number in range(6):
        conversation.show(f"Question {number} " + "about this one " * 200)
        conversation.answer("It is a lemur. " * 200)
    conversation.compact(12_000)
    first = conversation.state.history[0]
    assert first.images == ()
    assert "(an image)" in first.text
