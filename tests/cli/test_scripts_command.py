"""`rondo scripts`: skills and scripts at the terminal, without a daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.cli.doctor_checks import check_scripts
from service.config import Settings
from tests.support.cli.commands import Terminal
from tests.support.tools.skills import TEA, put_file, put_skill


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "data", 1)


def test_what_there_is_is_listed_with_what_cannot_be_used(terminal: Terminal) -> None:
    assert "There are none yet" in terminal.run("scripts").stderr
    put_skill(terminal.data_dir)
    put_skill(terminal.data_dir, "other", TEA)
    put_file(terminal.data_dir / "scripts" / "备份.sh", "# Saves 照片.\n")
    result = terminal.run("scripts", "list")
    assert result.exit_code == 0
    assert "How tea is made." in result.stdout
    assert "Saves 照片." in result.stdout
    assert "other cannot be used" in result.stderr
    listed = json.loads(terminal.run("scripts", "list", "--json").stdout)
    assert [each["name"] for each in listed["scripts"]] == ["tea", "备份.sh"]
    finding = check_scripts(Settings(data_dir=terminal.data_dir))
    assert finding.verdict == "note"
    assert "1 skill, 1 script; some cannot be used\nother: SKILL.md names it" in finding.words


def test_a_skill_is_shown_with_its_scripts(terminal: Terminal) -> None:
    put_skill(
        terminal.data_dir,
        scripts__a_dot_sh="# Pours.\n",
        scripts__a_dot_sh_dot_toml="effect = 'read_only'\nparameters = {}\n",
    )
    shown = terminal.run("scripts", "show", "tea").stdout
    assert "Boil water." in shown
    assert "Pours. · read only" in shown
    assert "# Pours." in terminal.run("scripts", "show", "tea", "scripts/a.sh").stdout
    result = terminal.run("scripts", "show", "coffee")
    assert result.exit_code == 1
    assert "There is no skill 'coffee'" in result.stderr


def test_what_would_never_be_run_is_not_added_and_a_link_keeps_its_name(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no script")
    refused = terminal.run("scripts", "add", str(tmp_path / "notes.txt"))
    assert refused.exit_code == 1
    assert "would never be run" in refused.stderr
    (tmp_path / "long.sh").write_text("#!/bin/sh\n" + "true\n" * 5_000)
    (tmp_path / "short.sh").symlink_to(tmp_path / "long.sh")
    added = terminal.run("scripts", "add", str(tmp_path / "short.sh"))
    assert "short.sh is version 1 now." in added.stderr
    assert "lines more" in added.stderr
    assert added.stderr.count("true") < 500
    again = terminal.run("scripts", "add", str(tmp_path / "short.sh"))
    assert "--replace" in again.stderr
    terminal.run("scripts", "remove", "short.sh")


def test_what_is_added_edited_reverted_and_removed_is_a_version_each(
    terminal: Terminal, tmp_path: Path
) -> None:
    source = put_skill(tmp_path / "elsewhere", scripts__a_dot_sh="#!/bin/sh\n")
    added = terminal.run("scripts", "add", str(source))
    assert "+Boil water." in added.stderr
    assert "tea is version 1 now." in added.stderr
    assert terminal.run("scripts", "add", str(source)).exit_code == 1
    text = TEA.replace("Boil", "Heat")
    edited = terminal.run("scripts", "edit", "tea", "--from", "-", "--json", stdin=text)
    assert json.loads(edited.stdout)["version"] == 2
    compared = terminal.run("scripts", "history", "tea", "--from", "1", "--to", "2").stdout
    assert "-Boil water." in compared
    assert "+Heat water." in compared
    assert terminal.run("scripts", "revert", "tea", "1").exit_code == 0
    assert "removed" in terminal.run("scripts", "remove", "tea").stderr
    history = json.loads(terminal.run("scripts", "history", "tea", "--json").stdout)
    assert [each["version"] for each in history["versions"]] == [1, 2, 3, 4]
    assert history["versions"][3]["files"] == []
    assert "removed" in terminal.run("scripts", "history", "tea").stdout
    refused = terminal.run("scripts", "remove", "tea", "--versions", stdin="n\n")
    assert refused.exit_code == 1
    gone = terminal.run("scripts", "remove", "tea", "--versions", "--yes", "--json")
    assert json.loads(gone.stdout) == {"name": "tea", "version": None, "versions_removed": 4}
    assert "there was none" in terminal.run("scripts", "history", "tea").stderr


def test_a_skill_is_begun_in_an_editor(terminal: Terminal, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/What it is for/Makes tea/' \"$1\"\n")
    editor.chmod(0o755)
    result = terminal.run("scripts", "edit", "tea", EDITOR=str(editor), VISUAL="")
    assert result.exit_code == 0
    assert "Makes tea" in terminal.run("scripts", "list").stdout
    refused = terminal.run("scripts", "edit", "Tea!", EDITOR=str(editor), VISUAL="")
    assert "lower case letters" in refused.stderr


@pytest.mark.slow
def test_a_script_runs_with_arguments_or_parameters_and_fails_as_it_fails(
    terminal: Terminal,
) -> None:
    put_skill(
        terminal.data_dir,
        scripts__a_dot_sh='echo "$@"; cat; exit 3\n',
        scripts__b_dot_sh='echo "$@"',
        scripts__b_dot_sh_dot_toml="parameters.properties.n = {type = 'integer'}",
    )
    result = terminal.run("scripts", "run", "tea/a.sh", "--long", "x y", "--input", "in")
    assert result.stdout == "--long x y\nin"
    assert result.exit_code == 1
    assert "It ended with exit code 3." in result.stderr
    result = terminal.run("scripts", "run", "tea/b.sh", "--parameters", '{"n": 3}')
    assert (result.exit_code, result.stdout) == (0, "--n=3\n")
    refused = terminal.run("scripts", "run", "tea/b.sh", "--parameters", '{"n": "3"}')
    assert "is not of type 'integer'" in refused.stderr
    assert "several scripts" in terminal.run("scripts", "run", "tea").stderr


@pytest.mark.slow
def test_what_a_script_writes_is_shown_as_it_comes_and_ctrl_c_ends_all_of_it(
    tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    text = f"sleep 1000 &\necho $! > {note}\necho begun\nwait\n"
    put_file(tmp_path / "data" / "scripts" / "s.sh", text)
    variables = {**os.environ, "RONDO_DATA_DIR": str(tmp_path / "data")}
    variables |= {"RONDO_TOOLS__SANDBOX": "none"}
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "scripts", "run", "s.sh"],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"  # while it runs
    process.send_signal(signal.SIGINT)
    process.wait(60)
    process.stdout.close()
    assert process.returncode != 0
    status = Path(f"/proc/{int(note.read_text())}/stat")
    until = time.monotonic() + 60
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)
