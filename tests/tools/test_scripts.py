from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest

from service.tools.scripts.script_folder import find_script, list_scripts


def put(folder: Path, name: str, text: str, *, mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_executable_files_and_those_with_an_interpreter_are_scripts(tmp_path: Path) -> None:
    put(tmp_path, "run", "#!/bin/sh\n")
    put(tmp_path, "a.py", "", mode=0o644)
    put(tmp_path, "b.sh", "", mode=0o644)
    put(tmp_path, "notes.txt", "", mode=0o644)
    put(tmp_path, ".hidden.sh", "")
    (tmp_path / "folder.sh").mkdir()
    assert [script.name for script in list_scripts(tmp_path)] == ["a.py", "b.sh", "run"]


def test_a_folder_that_is_empty_or_not_there_has_no_scripts(tmp_path: Path) -> None:
    assert list_scripts(tmp_path) == ()
    assert list_scripts(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("name", "text", "description"),
    [
        ("a.py", '#!/usr/bin/env python3\n"""备份 the house.\n\nMore."""\n', "备份 the house."),
        ("a.py", "# -*- coding: utf-8 -*-\n# Counts  words.\nimport os\n", "Counts words."),
        ("a.py", "this is no Python\n", ""),
        ("a.py", "x = 1\n# not at the top\n", ""),
        ("a.sh", "#!/bin/bash\n#\n# Sends a letter.\necho\n", "Sends a letter."),
        ("a.sh", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n\n# 打扫\n", "打扫"),
        ("a.sh", "echo hello\n", ""),
        ("a.sh", "", ""),
        ("a.sh", "# " + "long " * 100, ("long " * 40)),
    ],
)
def test_the_description_is_the_first_line_of_docstring_or_comment(
    tmp_path: Path, name: str, text: str, description: str
) -> None:
    put(tmp_path, name, text)
    assert list_scripts(tmp_path)[0].description == description


def test_bytes_that_are_no_utf8_do_not_disturb_the_listing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"# \xff\xfe\x00\n")
    (tmp_path / "b.sh").write_bytes(b"\x7fELF\x00\xff")
    assert [script.name for script in list_scripts(tmp_path)] == ["a.py", "b.sh"]


@pytest.mark.parametrize(
    "name", ["../x.sh", "/bin/sh", "./a.sh", "sub/a.sh", "..", ".", "", "a.sh\x00", "A.SH", "a"]
)
def test_a_name_that_is_not_in_the_folder_finds_nothing(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "scripts"
    (folder / "sub").mkdir(parents=True)
    put(tmp_path, "x.sh", "")
    put(folder, "a.sh", "")
    put(folder / "sub", "a.sh", "")
    assert find_script(folder, name) is None


def test_links_that_lead_out_of_the_folder_or_nowhere_are_no_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    inside = put(folder, "real.sh", "")
    (folder / "out.sh").symlink_to(put(tmp_path, "x.sh", ""))
    (folder / "dangling.sh").symlink_to(tmp_path / "nowhere")
    (folder / "circle.sh").symlink_to(folder / "circle.sh")
    (folder / "alias.sh").symlink_to(inside)
    assert [script.name for script in list_scripts(folder)] == ["alias.sh", "real.sh"]


def test_a_repository_may_itself_be_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    put(folder, "a.sh", "")
    (tmp_path / "link").symlink_to(folder)
    assert find_script(tmp_path / "link", "a.sh") is not None


def test_names_are_compared_in_composed_form(tmp_path: Path) -> None:
    put(tmp_path, unicodedata.normalize("NFD", "café 备份.sh"), "")
    assert [script.name for script in list_scripts(tmp_path)] == ["café 备份.sh"]
    assert find_script(tmp_path, unicodedata.normalize("NFD", "café 备份.sh")) is not None


def test_a_name_that_cannot_be_shown_is_left_out(tmp_path: Path) -> None:
    for name in ("a\n.sh", "b\x1b[31m.sh", "c\udcff.sh"):
        (tmp_path / name).touch()
    assert list_scripts(tmp_path) == ()


def test_the_first_line_says_who_runs_an_executable(tmp_path: Path) -> None:
    own = put(tmp_path, "own.py", "#!/usr/bin/env python3\n")
    bare = put(tmp_path, "bare.py", "", mode=0o644)
    by_name = {script.name: script.command for script in list_scripts(tmp_path)}
    assert by_name["own.py"] == (str(own),)
    assert by_name["bare.py"] == (sys.executable, str(bare))
