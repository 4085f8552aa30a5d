"""Images that a person sends: what is taken, told by their bytes.

Both providers of vision models take PNG, JPEG, GIF and WebP, by an ``https:`` address or inline as
a ``data:`` URL (RFC 2397), and Anthropic's API up to 5 MB each.

>>> image_type(b"GIF89a...")
'image/gif'
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from service.domain.conversation.messages import ImageUrlPart
from service.domain.errors import InvalidInputError

LARGEST_IMAGE = 5_000_000
"""Bytes of one image (https://platform.claude.com/docs/en/build-with-claude/vision)."""
LARGEST_IMAGES = 10_000_000
"""Bytes of all images of one message: as base64 they fit into `server.max_body_bytes`."""
_LONGEST_ADDRESS = 8_000
_TYPES = "PNG, JPEG, GIF or WebP"
_DATA_URL = re.compile(r"(?is)data:(?P<type>[^;,]*)(?P<options>[^,]*),(?P<data>.*)")


def image_type(data: bytes) -> str | None:
    """The media type of an image, by its first bytes; None where it is none that models take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_part(data: bytes, *, name: str = "the image") -> ImageUrlPart:
    """An image as a part of a message.

    Args:
        data: the bytes of a PNG, JPEG, GIF or WebP file.
        name: what to call it in errors.

    Raises:
        InvalidInputError: it is of no such type, or larger than `LARGEST_IMAGE`.
    """
    media_type = image_type(data)
    if media_type is None:
        raise InvalidInputError(
            f"{name} is no {_TYPES} image", advice="Convert it to one of these, and send it again."
        )
    _check_size(len(data), name)
    encoded = base64.b64encode(data).decode()
    return ImageUrlPart(url=f"data:{media_type};base64,{encoded}")


def check_image(part: ImageUrlPart, *, name: str = "the image") -> int:
    """See to it that an image can be sent to a model; how many bytes it brings along.

    Raises:
        InvalidInputError: it cannot; says why and what to do.
    """
    scheme = part.url.partition(":")[0].lower()
    if scheme == "data":
        return _check_data(part.url, name)
    if scheme != "https":
        raise InvalidInputError(
            f"{name} is not at an https: address, nor a data: URL",
            advice="Give an address that begins with https://, or the image itself as"
            " data:image/png;base64,…",
        )
    try:
        host = urlsplit(part.url).hostname
    except ValueError:
        host = None
    if not host or len(part.url) > _LONGEST_ADDRESS or re.search(r"[\s\x00-\x1f]", part.url):
        raise InvalidInputError(
            f"the address of {name} cannot be used",
            advice=f"Give a whole https: address of at most {_LONGEST_ADDRESS:,} characters.",
        )
    return 0


def _check_data(url: str, name: str) -> int:
    match = _DATA_URL.fullmatch(url)
    if match is None or not match["options"].lower().endswith(";base64"):
        raise InvalidInputError(
            f"{name} is not in base64", advice="Write it as data:image/png;base64,…"
        )
    # Before decoding: what is far too large need not be held twice.
    _check_size(len(match["data"]) * 3 // 4 - 2, name)
    try:
        data = base64.b64decode(match["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(
            f"the base64 of {name} cannot be read: {error}",
            advice="Encode the whole file, without line breaks.",
        ) from error
    actual, declared = image_type(data), match["type"].lower()
    if actual is None:
        raise InvalidInputError(
            f"{name} is no {_TYPES} image", advice="Convert it to one of these, and send it again."
        )
    if declared != actual:
        raise InvalidInputError(
            f"{name} is declared as {declared or 'nothing'}, and is {actual}",
            advice=f"Begin its URL with data:{actual};base64,",
        )
    _check_size(len(data), name)
    return len(data)


def _check_size(size: int, name: str) -> None:
    if size > LARGEST_IMAGE:
        raise InvalidInputError(
            f"{name} has {size:,} bytes; at most {LARGEST_IMAGE:,} are taken",
            advice="Make it smaller: models scale down what is larger than about 1,500 pixels.",
        )
