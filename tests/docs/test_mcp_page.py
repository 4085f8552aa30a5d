"""docs/mcp.md tells of all that can be set for a server, and shows what is there."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.rondo_command import rondo
from service.config import Settings
from service.tool_server_settings import McpServerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")


def test_its_example_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "rondo.toml"
    file.write_text(example)
    monkeypatch.setenv("RONDO_CONFIG", str(file))
    assert list(Settings().tools.mcp) == list(tomllib.loads(example)["tools"]["mcp"])


def test_each_setting_has_a_row() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    told = {name.split(".")[0] for row in rows for name in re.findall(r"`([a-z_A-Z.]+)`", row)}
    assert told == set(McpServerSettings.model_fields)


def test_its_commands_are_there() -> None:
    commands = re.findall(r"^\$ rondo (.*)$", PAGE, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        words = [word for word in shlex.split(command) if word not in ("clock", "linear")]
        shown = CliRunner().invoke(rondo, [*words, "--help"])
        assert shown.exit_code == 0, command
