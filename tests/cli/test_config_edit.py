"""Changing `rondo.toml` leaves what a person wrote in it as it was."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from service.cli.settings_edit import edited
from service.domain.errors import ConfigurationError

MINE = """\
# How Ada has it.
log_level = "info"   # not too much

[agent]
system_prompt = "Call me Ada."

[llm]  # the one at work
model = "old"        # good enough
temperature = 0.2
api_key = "sk-secret-1"

[llm.prices]
input = 2.0
output = 8.0

[models.fast]
model = "小"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rondo.toml"
    path.write_text(MINE)
    return path


def test_comments_order_and_other_tables_stay(file: Path) -> None:
    edit = edited(file, "llm", {"model": "new", "base_url": "http://x/v1", "api_key": None})
    expected = MINE.replace('"old"', '"new"').replace('api_key = "sk-secret-1"\n', "")
    lines = [line for line in edit.after.splitlines() if line != 'base_url = "http://x/v1"']
    assert lines == expected.splitlines()
    read = tomllib.loads(edit.after)
    assert read["llm"]["base_url"] == "http://x/v1"
    assert read["llm"]["prices"] == {"input": 2.0, "output": 8.0}


def test_the_old_file_is_kept_and_the_mode_stays(file: Path) -> None:
    file.chmod(0o644)
    backup = edited(file, "llm", {"model": "new"}).write()
    assert backup is not None
    assert backup.read_text() == MINE
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert tomllib.loads(file.read_text())["llm"]["model"] == "new"
    assert sorted(each.name for each in file.parent.iterdir()) == ["rondo.toml", "rondo.toml.bak"]


def test_a_file_with_a_key_is_closed_to_others(file: Path) -> None:
    file.chmod(0o644)
    edited(file, "llm", {"api_key": "sk-new"}).write(private=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    edited(link, "llm", {"model": "new"}).write()
    assert link.is_symlink()
    assert tomllib.loads(file.read_text())["llm"]["model"] == "new"


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "rondo.toml"
    assert edited(path, "llm", {"model": "m"}).write() is None
    assert tomllib.loads(path.read_text()) == {"llm": {"model": "m"}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "written",
    [
        'llm = { model = "old", temperature = 0.1 }\n',
        'llm.model = "old"\nllm.temperature = 0.1\n',
        "[llm.prices]\ninput = 1.0\noutput = 1.0\n[agent]\nmax_iterations = 3\n"
        '[llm]\nmodel = "a"\n',
        '[models.a]\nmodel = "x"\n',
        "# nothing but words",
        '[llm]\r\nmodel = "old"\r\n\r\n[agent]\r\nmax_iterations = 3\r\n',
        "",
    ],
)
def test_every_way_to_write_a_table_can_be_changed(tmp_path: Path, written: str) -> None:
    path = tmp_path / "rondo.toml"
    path.write_bytes(written.encode())
    before: dict[str, Any] = tomllib.loads(written)
    edited(path, "llm", {"model": "new", "base_url": "http://x", "temperature": None}).write()
    after = tomllib.loads(path.read_bytes().decode())
    llm = {**before.pop("llm", {}), "model": "new", "base_url": "http://x"}
    llm.pop("temperature", None)
    assert after == {**before, "llm": llm}


def test_what_changes_is_shown_without_secrets(file: Path) -> None:
    lines = edited(file, "llm", {"model": "new", "api_key": "sk-secret-2"}).diff()
    assert '-model = "old"        # good enough' in lines
    assert '+model = "new"        # good enough' in lines
    assert "secret" not in "\n".join(lines)
    assert "+api_key = …" in lines


def test_the_name_of_a_variable_is_no_secret(file: Path) -> None:
    assert '+api_key_env = "MY_KEY"' in edited(file, "llm", {"api_key_env": "MY_KEY"}).diff()


def test_nothing_is_written_over_what_somebody_else_wrote_meanwhile(file: Path) -> None:
    edit = edited(file, "llm", {"model": "new"})
    file.write_text(MINE + "# and this\n")
    with pytest.raises(ConfigurationError, match="has changed meanwhile"):
        edit.write()
    assert file.read_text() == MINE + "# and this\n"


@pytest.mark.parametrize("wrong", [b"[llm\n", b"\xff\xfe", b'llm = "words"\n'])
def test_a_file_that_cannot_be_read_is_left_as_it_is(tmp_path: Path, wrong: bytes) -> None:
    path = tmp_path / "rondo.toml"
    path.write_bytes(wrong)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        edited(path, "llm", {"model": "new"})
    assert path.read_bytes() == wrong


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    edit = edited(tmp_path / "elsewhere" / "rondo.toml", "llm", {"model": "m"})
    (tmp_path / "elsewhere").write_text("a file by now")
    with pytest.raises(ConfigurationError, match="cannot be"):
        edit.write()


def test_no_change_is_none(file: Path) -> None:
    assert not edited(file, "llm", {"model": "old", "base_url": None}).is_change
