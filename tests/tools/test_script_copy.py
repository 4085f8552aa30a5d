from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tools.protocol import ToolFailure
from service.tools.scripts import script_folder as script_copy
from service.tools.scripts.script_folder import contents_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "scripts"
    (made / "lib").mkdir(parents=True)
    (made / "a.sh").write_text("echo a")
    (made / "a.sh").chmod(0o755)
    (made / "备注.txt").write_bytes(b"\xff\x00")
    (made / "lib" / "__init__.py").touch()
    (made / ".env").write_text("X=1")
    return made


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_copy_has_what_the_folder_has_and_the_same_digest(folder: Path, tmp_path: Path) -> None:
    copied = contents_of(folder, tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(folder)
    assert copied == contents_of(folder)
    assert copied.left_out == ()
    assert os.access(tmp_path / "copy" / "a.sh", os.X_OK)
    # nobody may write in it: what a script put there would be lost without a word
    assert not any(path.stat().st_mode & 0o222 for path in (tmp_path / "copy").rglob("*"))


CHANGES: dict[str, Callable[[Path], object]] = {
    "words": lambda folder: (folder / "a.sh").write_text("echo b"),
    "a new file": lambda folder: (folder / "lib" / "new.py").touch(),
    "a file less": lambda folder: (folder / ".env").unlink(),
    "another name": lambda folder: (folder / "a.sh").rename(folder / "b.sh"),
    "another folder": lambda folder: (folder / "lib").rename(folder / "lob"),
    "an empty folder": lambda folder: (folder / "empty").mkdir(),
    "the right to run": lambda folder: (folder / "a.sh").chmod(0o644),
    "a link nowhere": lambda folder: (folder / "link").symlink_to("nowhere"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_changes_the_digest(folder: Path, change: str) -> None:
    before = contents_of(folder).digest
    CHANGES[change](folder)
    assert contents_of(folder).digest != before


@given(st.dictionaries(st.text("ab1:2", min_size=1, max_size=4), st.binary(max_size=5), max_size=4))
def test_other_contents_never_have_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    for name, words in files.items():
        (one / name).write_bytes(words)
        (other / name).write_bytes(words)
    assert contents_of(one) == contents_of(other)
    (other / "more").touch()
    assert contents_of(one) != contents_of(other)


def test_what_others_put_there_for_themselves_is_not_copied(folder: Path, tmp_path: Path) -> None:
    before = contents_of(folder)
    for name in (".git", ".venv", "__pycache__", "lib/__pycache__"):
        (folder / name).mkdir()
        (folder / name / "helper.cpython-311.pyc").write_bytes(b"stale")
    assert contents_of(folder, tmp_path / "copy") == before
    assert ".git" not in tree(tmp_path / "copy")


def test_links_are_followed_and_their_targets_are_part_of_what_is_looked_at(
    folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "far.py").write_text("1")
    (folder / "near.sh").symlink_to("a.sh")
    (folder / "far.py").symlink_to(outside / "far.py")
    (folder / "farther").symlink_to(outside)
    before = contents_of(folder, tmp_path / "copy")
    copied = tree(tmp_path / "copy")
    assert (copied["near.sh"], copied["farther/far.py"]) == (b"echo a", b"1")
    assert not any(path.is_symlink() for path in (tmp_path / "copy").rglob("*"))
    (outside / "far.py").write_text("2")
    assert contents_of(folder).digest != before.digest


def test_what_cannot_be_copied_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "lost").symlink_to("nowhere")
    (folder / "self").symlink_to("self")
    (folder / "lib" / "up").symlink_to("..")
    (folder / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(folder)  # the path of a socket must be short
        try:
            listener.bind("socket")
        finally:
            os.chdir(before)
        copied = contents_of(folder, tmp_path / "copy")
    assert dict(each.split(" ", 1) for each in copied.left_out) == {
        "lib/up/": "(a link that leads back to a folder around it)",
        "lost": "(a link that leads nowhere)",
        "null": "(a pipe, a socket or a device)",
        "pipe": "(a pipe, a socket or a device)",
        "self": "(a link that leads in a circle)",
        "socket": "(a pipe, a socket or a device)",
    }


def test_a_folder_that_is_too_large_is_refused_with_what_to_do(folder: Path) -> None:
    with (folder / "video.mp4").open("wb") as file:
        file.truncate(script_copy.MOST_BYTES + 1)
    with pytest.raises(ToolFailure, match=r"more than 20 MB.*video\.mp4.*move out of it"):
        contents_of(folder)
    (folder / "video.mp4").unlink()
    for number in range(script_copy.MOST_ENTRIES):
        (folder / f"{number}.txt").touch()
    with pytest.raises(ToolFailure, match="more than 2,000 files and folders"):
        contents_of(folder)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="cannot be read"):
        contents_of(tmp_path / "nowhere")
