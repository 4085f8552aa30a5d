"""What can be sent: a person's words and images, that can be stored and that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from service.domain.conversation.images import (
    LARGEST_IMAGE,
    LARGEST_IMAGES,
    check_image,
    image_part,
)
from service.domain.conversation.messages import ImageUrlPart, Message
from service.domain.errors import InvalidInputError
from service.domain.json_values import unwritable_number
from service.schedules.schedule import SCHEDULED

LONGEST_MESSAGE = 1_000_000
"""Characters of one message."""


def check_message(message: Message, metadata: dict[str, Any]) -> None:
    """See to it that a message can be accepted.

    Raises:
        InvalidInputError: it cannot; says why and what to do.
    """
    if message.role != "user" or message.tool_calls or message.tool_call_id:
        raise InvalidInputError(
            f"a message of role {message.role} cannot be sent",
            advice="Send what a person says; the rest is the assistant's.",
        )
    if not message.text.strip() and not message.images:
        raise InvalidInputError("the message is empty", advice="Write something.")
    if len(message.text) > LONGEST_MESSAGE:
        raise InvalidInputError(
            f"the message has {len(message.text):,} characters; at most {LONGEST_MESSAGE:,} fit",
            advice="Send a part of it, or put it into a file that a tool can read.",
        )
    if SCHEDULED in metadata:
        raise InvalidInputError(
            f"the metadata {SCHEDULED!r} is kept for what schedules send",
            advice="Send it by another name.",
        )
    if number := unwritable_number(metadata):
        raise InvalidInputError(
            f"the metadata cannot be stored: {number}, a number that JSON cannot hold",
            advice="Leave it out, or send it as text.",
        )
    _check_images(message)
    try:
        # Read back as deep as it will stand, within an event: what is written must be readable.
        within = {"event": {"body": {"message": message.model_dump(), "metadata": metadata}}}
        from_json(to_json(within))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the message or its metadata cannot be stored: {error}",
            advice="Send valid UTF-8, in which no character is cut in half, and plain JSON values"
            " that are not nested by hundreds.",
        ) from error


def _check_images(message: Message) -> None:
    sizes = [
        check_image(part, name=f"image {number}" if len(message.images) > 1 else "the image")
        for number, part in enumerate(message.images, 1)
    ]
    if sum(sizes) > LARGEST_IMAGES:
        raise InvalidInputError(
            f"the images have {sum(sizes):,} bytes together; at most {LARGEST_IMAGES:,} are taken",
            advice="Send them in several messages, or make them smaller.",
        )


def image_from_file(path: str | Path) -> ImageUrlPart:
    """An image file as a part of a message. Its type is told by its bytes, not by its name.

    Raises:
        InvalidInputError: it cannot be read, is no PNG, JPEG, GIF or WebP image, or has more than
            `LARGEST_IMAGE` bytes.
    """
    file = Path(path).expanduser()
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            # Whatever it is: no more is read than what is needed to refuse it.
            data = opened.read(LARGEST_IMAGE + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInputError(
            f"{file} cannot be read: {why}", advice="Give the path of an image file."
        ) from error
    if len(data) > LARGEST_IMAGE:
        raise InvalidInputError(
            f"{file} has {max(size, len(data)):,} bytes; at most {LARGEST_IMAGE:,} are taken",
            advice="Make it smaller: models scale down what is larger than about 1,500 pixels.",
        )
    return image_part(data, name=str(file))
