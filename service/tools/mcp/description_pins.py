"""What a server's tools said of themselves when a person took them, kept on disk.

The model is only ever told what is pinned here. See docs/decisions/0045-pinned-descriptions.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import StorageError
from service.storage.whole_file import write_whole
from service.tool_server_settings import McpServerSettings

_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


Definitions = Mapping[str, ToolDefinition]
"""By a server's own names for its tools."""


class DescriptionPins:
    """The pins of one server. Both methods block."""

    def __init__(self, folder: Path, name: str, settings: McpServerSettings) -> None:
        """Name the server.

        Args:
            folder: of all pins.
            name: of the server.
            settings: how it is reached: with another program or address the settings name another
                server, of which nothing is pinned yet.
        """
        self._file = folder / f"{name}.json"
        place = [settings.command, *settings.args, settings.url]
        self._server = hashlib.sha256(json.dumps(place).encode()).hexdigest()

    def read(self) -> dict[str, ToolDefinition] | None:
        """What is pinned; None where nothing is yet.

        Raises:
            StorageError: the file cannot be read, or is not as it was written.
        """
        try:
            kept = json.loads(self._file.read_bytes())
            if kept["server"] != self._server:
                return None
            pinned = {
                name: ToolDefinition.model_validate(each) for name, each in kept["tools"].items()
            }
            if kept["digest"] != digest_of(pinned):
                raise ValueError("its digest is not that of its tools")
        except FileNotFoundError:
            return None
        except (*_DAMAGED, OSError) as error:
            raise StorageError(
                f"{self._file} cannot be read, or is not as it was written",
                advice="Look at all tools of the server, and accept them anew.",
            ) from error
        return pinned

    def write(self, definitions: Definitions) -> None:
        """Pin these, in place of all others.

        Raises:
            StorageError: the disk refuses.
        """
        kept = {
            "server": self._server,
            "digest": digest_of(definitions),
            "tools": {name: each.model_dump(mode="json") for name, each in definitions.items()},
        }
        try:
            write_whole(self._file, json.dumps(kept, ensure_ascii=False, indent=1).encode())
        except (OSError, UnicodeEncodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not well-formed text"
            raise StorageError(
                f"{self._file} cannot be written: {reason}",
                advice="Free some space, or correct the permissions of the data folder.",
            ) from error


def digest_of(definitions: Definitions) -> str:
    """A hash (SHA-256) of names, descriptions and schemas, whatever their order."""
    sorted_by_name = {name: definitions[name].model_dump(mode="json") for name in definitions}
    written = json.dumps(sorted_by_name, sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()
