"""The page about skills: what it shows is a skill, and its commands do what they say."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.docs.test_pages import blocks
from tests.support.cli.commands import Terminal
from tests.support.tools.skills import put_file


def shown(language: str) -> str:
    return next(text for name, text in blocks(language) if name.startswith("docs/skills"))


@pytest.mark.slow
def test_the_skill_of_the_page_is_added_shown_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "water-plants"
    put_file(folder / "SKILL.md", shown("markdown"))
    put_file(folder / "scripts" / "next-watering.sh", shown("sh"))
    put_file(folder / "scripts" / "next-watering.sh.toml", shown("toml"))
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path / "data", 1)
    outputs = []
    for line in shown("console").splitlines():
        command = shlex.split(line.removeprefix("$ rondo "))
        result = terminal.run(*command, RONDO_TOOLS__SANDBOX="none")
        assert result.exit_code == 0, (line, result.stderr)
        outputs.append(result.stdout)
    assert "Which plants need water when." in outputs[1]
    assert "read only" in outputs[2]
    assert outputs[-1] == "water them tomorrow (--room=kitchen)\n"
