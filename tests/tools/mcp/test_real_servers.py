"""Servers that others have written, from the registries: where they are installed.

`mcp-server-time` comes with what `make setup` installs; `mcp-server-everything`, of an older
protocol and another SDK, with ``npm install -g @modelcontextprotocol/server-everything``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from service.config_sections import McpServerSettings
from tests.support.tools.connections import called, connected

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def program(name: str) -> str:
    """The path of a server's program; skips the test where it is not installed."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


async def test_the_time_server_tells_the_time_and_what_is_wrong(tmp_path: Path) -> None:
    settings = McpServerSettings(
        command=program("mcp-server-time"), args=("--local-timezone", "Europe/Lisbon")
    )
    async with connected(settings, tmp_path) as connection:
        assert connection.registry.names == ("clock__convert_time", "clock__get_current_time")
        result = await called(connection, "get_current_time", timezone="Asia/Shanghai")
        assert not result.is_error
        assert "+08:00" in result.content
        wrong = await called(connection, "get_current_time", timezone="Nowhere/Land")
        assert wrong.is_error
        assert "Nowhere/Land" in wrong.content


async def test_the_server_of_everything_is_spoken_to_by_its_older_protocol(tmp_path: Path) -> None:
    settings = McpServerSettings(command=program("mcp-server-everything"))
    async with connected(settings, tmp_path) as connection:
        assert (await called(connection, "echo", message="再见")).content == "Echo: 再见"
        names = (await called(connection, "get-env")).content
        assert "PYTHONPATH" not in names
        asked = await called(connection, "trigger-elicitation-request")
        assert "cancel" in asked.content
