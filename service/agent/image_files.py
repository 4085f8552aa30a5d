"""Images of files, as parts of messages."""

from __future__ import annotations

from pathlib import Path

from service.domain.conversation.images import LARGEST_IMAGE, image_part
from service.domain.conversation.messages import ImageUrlPart
from service.domain.errors import InvalidInputError


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
