"""Tool servers of the settings: brought by an agent at work, and gone with its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from service.agent.agent_factory import agent_from_settings
from service.agent.tool_listing import listed_tools
from service.config import EmbedderSettings, LLMSettings, Settings, ToolsSettings
from tests.support.tools import tool_server
from tests.support.tools.connections import is_running, numbers, until

pytestmark = pytest.mark.slow


def settings(folder: Path, *modes: str) -> Settings:
    (folder / "script").write_text("")
    server = {"command": sys.executable, "args": [tool_server.__file__, str(folder), *modes]}
    return Settings(
        data_dir=folder / "data",
        llm=LLMSettings(provider="scripted", model=str(folder / "script")),
        embedder=EmbedderSettings(kind="none"),
        tools=ToolsSettings.model_validate({"mcp": {"clock": server}}),
    )


async def work(folder: Path, *, until_killed: bool) -> None:
    """An agent at work until the tools of its server are offered, or for good."""
    agent = agent_from_settings(settings(folder, "stubborn"))
    away = {each.name: each.reason for each in listed_tools(agent).not_offered}
    assert "not started yet" in away["clock"]
    async with agent:
        await until(lambda: any(each.name == "clock__now" for each in listed_tools(agent).tools))
        [now] = [each for each in listed_tools(agent).tools if each.name == "clock__now"]
        assert now.needs_approval
        assert now.effect == "side_effects"
        if until_killed:
            (folder / "working").touch()
            await anyio.sleep_forever()


def test_an_agent_brings_the_tools_of_a_server_and_takes_it_along(tmp_path: Path) -> None:
    anyio.run(lambda: work(tmp_path, until_killed=False))
    processes = numbers(tmp_path, "starts") + numbers(tmp_path, "children")
    assert len(processes) == 2
    assert not any(map(is_running, processes))


def test_approval_for_a_tool_of_a_server_is_doubted_once_the_server_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configured = settings(tmp_path)
    approval = {"clock__now": "never", "clock__nwo": "always", "no_such": "always"}
    tools = configured.tools.model_copy(update={"approval_for": approval})

    async def look() -> None:
        async with agent_from_settings(configured.model_copy(update={"tools": tools})):
            assert "`no_such`" in caplog.text
            assert "clock__" not in caplog.text
            await until(lambda: "clock__nwo" in caplog.text)

    anyio.run(look)
    assert "Did you mean `clock__now`" in caplog.text
    assert "the tool `clock__now`" not in caplog.text


def test_a_server_and_what_it_started_end_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.test_tool_servers", str(tmp_path)],
        env={**os.environ, "HOME": str(tmp_path)},
    )

    async def gone() -> None:
        await until(lambda: (tmp_path / "working").exists() or daemon.poll() is not None)
        processes = numbers(tmp_path, "starts") + numbers(tmp_path, "children")
        assert all(map(is_running, processes))
        assert len(processes) == 2
        daemon.kill()
        await until(lambda: not any(map(is_running, processes)))

    try:
        anyio.run(gone)
    finally:
        daemon.kill()
        daemon.wait()


if __name__ == "__main__":
    anyio.run(lambda: work(Path(sys.argv[1]), until_killed=True))
