"""Files of this machine that go with a message."""

from __future__ import annotations

import base64
from pathlib import Path

from service.domain.conversation.file_attachments import LARGEST_FILES
from service.domain.errors import InvalidInputError
from service.wire.send_bodies import FileContent


def file_content(path: str | Path) -> FileContent:
    """A file as a part of a message.

    Raises:
        InvalidInputError: it cannot be read, or is too large.
    """
    file = Path(path).expanduser()
    try:
        if file.exists() and not file.is_file():
            raise OSError(None, "it is no file")
        with file.open("rb") as opened:
            data = opened.read(LARGEST_FILES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInputError(
            f"{file} cannot be read: {why}", advice="Give the path of a file."
        ) from error
    if len(data) > LARGEST_FILES:
        raise InvalidInputError(
            f"{file} has more than {LARGEST_FILES:,} bytes",
            advice="Put it into a folder that you grant with tools.files_read.",
        )
    return FileContent(type="file", name=file.name, data=base64.b64encode(data).decode())
