"""Writing and editing in granted folders: what is written, what is kept, and what is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from service.memory.file_changes import FileChanges
from service.tools.builtins.file_writing import NAMES, file_writing_tools
from service.tools.files.file_writer import Caller, FileWriter
from service.tools.files.granted_folders import GrantedFolders
from service.tools.protocol import ToolFailure
from tests.support.tools.tool_calls import CONTEXT, call_of, registry_of, result_of

pytestmark = pytest.mark.anyio

SECRET = "the token 4711"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    folder = tmp_path / "granted"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "token").write_text(SECRET)
    (folder / "笔记").mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return folder


def writer_of(home: Path, **options: int) -> FileWriter:
    granted = GrantedFolders((home,), hidden=(home / "data",), setting="tools.files_write")
    return FileWriter(granted, FileChanges(home.parent / "changes"), **options)


async def told(home: Path, name: str, /, **arguments: object) -> tuple[str, bool]:
    by_name = dict(zip(NAMES, file_writing_tools(writer_of(home)), strict=True))
    result = await result_of(by_name[name], **arguments)
    return result.content, result.is_error


def left_over(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob(".rondo-*")]


async def test_a_new_file_is_written_and_another_content_put_in_its_place(home: Path) -> None:
    content, is_error = await told(home, "write_file", path="笔记/牙医.txt", content="王大夫\n")
    assert not is_error, content
    assert f"{home}/笔记/牙医.txt is written, a new file: 10 bytes" in content
    assert (home / "笔记" / "牙医.txt").read_text("utf-8") == "王大夫\n"
    content, is_error = await told(home, "write_file", path=f"{home}/笔记/牙医.txt", content="")
    assert not is_error, content
    assert (home / "笔记" / "牙医.txt").read_bytes() == b""
    assert left_over(home) == []


async def test_a_piece_is_replaced_where_it_stands_once_or_wherever_it_stands(home: Path) -> None:
    content, is_error = await told(home, "edit_file", path="a.txt", old_text="two", new_text="2")
    assert not is_error, content
    assert (home / "a.txt").read_text() == "one\n2\nthree\n"
    content, is_error = await told(home, "edit_file", path="a.txt", old_text="e", new_text="E")
    assert is_error
    assert "stands in a.txt 3 times" in content
    await told(home, "edit_file", path="a.txt", old_text="e", new_text="E", replace_all=True)
    assert (home / "a.txt").read_text() == "onE\n2\nthrEE\n"
    for old, words in (("nowhere", "does not hold that old_text"), ("onE", "holds exactly that")):
        content, is_error = await told(home, "edit_file", path="a.txt", old_text=old, new_text=old)
        assert is_error
        assert words in content
    content, is_error = await told(home, "edit_file", path="b.txt", old_text="a", new_text="b")
    assert is_error
    assert "There is no b.txt. write_file" in content


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-8-sig", "utf-32"])
async def test_a_file_stays_in_its_encoding(home: Path, encoding: str) -> None:
    old, new = "牙医在北京路。电话五五五一二三四", "牙医在上海路。电话五五五一二三四"
    (home / "e.txt").write_bytes(f"{old}\r\n".encode(encoding))
    content, is_error = await told(
        home, "edit_file", path="e.txt", old_text=old[3:-5], new_text=new[3:-5]
    )
    assert not is_error, content
    assert (home / "e.txt").read_bytes() == f"{new}\r\n".encode(encoding)
    content, is_error = await told(home, "write_file", path="e.txt", content="plain\n")
    assert not is_error, content
    assert (home / "e.txt").read_bytes() == "plain\r\n".encode(encoding)


async def test_what_an_encoding_lacks_is_not_written(home: Path) -> None:
    data = "Où est le café très agréable de la forêt ?".encode("cp1252")
    (home / "w.txt").write_bytes(data)
    content, is_error = await told(home, "edit_file", path="w.txt", old_text="for", new_text="何")
    assert is_error
    assert "has no '何'" in content
    assert (home / "w.txt").read_bytes() == data


async def test_line_ends_are_kept(home: Path) -> None:
    (home / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await told(home, "edit_file", path="crlf.txt", old_text="one\ntwo", new_text="1\n2\n2a")
    assert (home / "crlf.txt").read_bytes() == b"1\r\n2\r\n2a\r\nthree\r\n"
    await told(home, "write_file", path="crlf.txt", content="a\nb\r\n")
    assert (home / "crlf.txt").read_bytes() == b"a\r\nb\r\n"
    (home / "mixed.txt").write_bytes(b"one\r\ntwo\nthree\r\n")
    await told(home, "edit_file", path="mixed.txt", old_text="one\n", new_text="1\n")
    assert (home / "mixed.txt").read_bytes() == b"1\r\ntwo\nthree\r\n"
    await told(home, "write_file", path="new.txt", content="a\r\nb\n")
    assert (home / "new.txt").read_bytes() == b"a\r\nb\n"


async def test_rights_are_kept(home: Path) -> None:
    (home / "a.txt").chmod(0o640)
    await told(home, "edit_file", path="a.txt", old_text="two", new_text="2")
    assert stat.S_IMODE((home / "a.txt").stat().st_mode) == 0o640
    await told(home, "write_file", path="new.txt", content="x")
    (home / "by-hand.txt").write_text("x")
    new, by_hand = ((home / each).stat().st_mode for each in ("new.txt", "by-hand.txt"))
    assert new == by_hand


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "笔记/../../outside/new.txt",
        "{outside}/secret.txt",
        "link",
        "absolute",
        "dangling",
        "folder/secret.txt",
        "folder/new.txt",
        "short/new.txt",
        "data/token",
        "data/new",
        "{home}/data/token",
        "/etc/passwd",
        "~/../etc/new",
        "a.txt/../../outside/secret.txt",
        "a.txt/new.txt",
        ".",
        "笔记",
        "{home}",
        "none/new.txt",
        "pipe",
        "/dev/null",
        "two",
        "binary",
        "a\0b",
        "x" * 300,
    ],
)
async def test_nothing_else_is_written(
    home: Path, monkeypatch: pytest.MonkeyPatch, path: str, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(sys, "platform", "other")
    outside = home.parent / "outside"
    (home / "link").symlink_to("../outside/secret.txt")
    (home / "absolute").symlink_to(outside / "secret.txt")
    (home / "dangling").symlink_to(outside / "new.txt")
    (home / "folder").symlink_to("../outside")
    (home / "short").symlink_to("笔记")
    (home / "one").write_text("x")
    (home / "two").hardlink_to(home / "one")
    (home / "binary").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(home / "pipe")

    def all_that_is_there() -> dict[str, object]:
        return {
            str(each): each.read_bytes() if each.is_file() else each.is_symlink()
            for each in home.parent.rglob("*")
            if "changes" not in each.parts
        }

    before = all_that_is_there()
    path = path.format(home=home, outside=outside)
    for name, arguments in (
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_text": "token", "new_text": "y"}),
    ):
        content, is_error = await told(home, name, path=path, **arguments)
        assert is_error, content
        assert SECRET not in content
        assert all_that_is_there() == before


async def test_what_is_read_only_is_told(home: Path) -> None:
    (home / "a.txt").chmod(0o440)
    if os.access(home / "a.txt", os.W_OK):
        pytest.skip("nothing is read only for root")
    content, is_error = await told(home, "write_file", path="a.txt", content="x")
    assert is_error
    assert "read only" in content
    (home / "笔记").chmod(0o500)
    content, is_error = await told(home, "write_file", path="笔记/new.txt", content="x")
    assert is_error
    assert "this is not allowed there" in content
    assert not (home.parent / "changes").exists() or not list((home.parent / "changes").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a small file system")
@pytest.mark.slow
async def test_a_full_disk_leaves_the_file_as_it_was(home: Path) -> None:
    # The limit of a file's size stands for a full disk: it comes in the middle of the content, too.
    script = f"""
import asyncio, resource, signal, sys
from pathlib import Path
from tests.tools.test_file_writing import told
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
print(*asyncio.run(told(Path({str(home)!r}), "write_file", path="a.txt", content="x" * 200_000)))
"""
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert "was not written: File too large. True" in ran.stdout, ran.stderr
    assert (home / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert left_over(home) == []
    assert list((home.parent / "changes").iterdir()) == []


async def test_a_disk_that_cannot_keep_what_was_there_has_nothing_written(home: Path) -> None:
    (home.parent / "changes").write_text("a file in the place of the folder")
    content, is_error = await told(home, "write_file", path="a.txt", content="x")
    assert is_error
    assert "cannot be kept" in content
    assert (home / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("笔记", "is a folder"),
        (".", "is a folder"),
        ("none/new.txt", "The folder of none/new.txt is not there"),
        ("link", "is a link"),
        ("short/new.txt", "without links"),
        ("a.txt/new.txt", "would lie in a file"),
        ("pipe", "not a file"),
        ("two", "hard links"),
        ("binary", "is no text file"),
        ("data/token", "is Rondo's own"),
        ("../b.txt", "grant with the setting tools.files_write"),
        ("x" * 300, "File name too long"),
    ],
)
async def test_why_it_is_not_written_is_told(home: Path, path: str, words: str) -> None:
    (home / "link").symlink_to("a.txt")
    (home / "short").symlink_to("笔记")
    (home / "one").write_text("x")
    (home / "two").hardlink_to(home / "one")
    (home / "binary").write_bytes(b"\x7fELF\0\0")
    os.mkfifo(home / "pipe")
    content, is_error = await told(home, "write_file", path=path, content="x")
    assert is_error
    assert words in content


async def test_huge_contents_are_bounded(home: Path) -> None:
    (home / "large").write_bytes(b"x" * 6_000_000)
    for name, path, arguments in (
        ("write_file", "large", {"content": "x"}),
        ("write_file", "new", {"content": "x" * 6_000_000}),
        ("edit_file", "large", {"old_text": "x", "new_text": "y" * 99, "replace_all": True}),
        ("edit_file", "a.txt", {"old_text": "o", "new_text": "y" * 4_000_000, "replace_all": True}),
    ):
        content, is_error = await told(home, name, path=path, **arguments)
        assert is_error
        assert "5,000,000" in content


async def test_only_what_the_yes_covers_is_written(home: Path) -> None:
    (write_file, _) = file_writing_tools(writer_of(home))
    call = call_of("write_file", path="a.txt", content="new\n")
    preview = write_file.preview(call.arguments)
    assert preview.text.endswith("@@ -1,3 +1 @@\n-one\n-two\n-three\n+new")
    assert preview.scope == write_file.approval_scope(call.arguments)
    context = replace(CONTEXT, approved=frozenset((f"write_file {preview.scope}",)))
    (home / "a.txt").write_text("what came in meanwhile\n")
    result = await registry_of(write_file).execute(call, context)
    assert result.is_error
    assert "is not what it was when the person was shown the difference" in result.content
    assert (home / "a.txt").read_text() == "what came in meanwhile\n"
    (home / "a.txt").write_text("one\ntwo\nthree\n")
    other = call_of("write_file", path="a.txt", content="something else\n")
    assert (await registry_of(write_file).execute(other, context)).is_error
    assert not (await registry_of(write_file).execute(call, context)).is_error
    assert (home / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("kernel", [True, False])
def test_what_somebody_writes_at_the_last_moment_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(sys, "platform", "other")
    writer = writer_of(home)
    changed = writer.plan("a.txt", lambda text, form: "new")
    created = writer.plan("b.txt", lambda text, form: "new")
    for name, planned in (("a.txt", changed), ("b.txt", created)):
        (home / name).write_text("what came in at the last moment")
        with pytest.raises(ToolFailure, match="is not what it was"):
            writer.carry_out(planned, Caller("me", "loop", "key"))
        assert (home / name).read_text() == "what came in at the last moment"
    assert left_over(home) == []
    assert list((home.parent / "changes").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [True, False])
async def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(sys, "platform", "other")
    (home / "deep").mkdir()
    swapping = f"""
import os
here, away, outside = {str(home / "deep")!r}, {str(home / "away")!r}, "../outside"
while True:
    os.rename(here, away); os.symlink(outside, here); os.unlink(here); os.rename(away, here)
"""
    swapper = subprocess.Popen([sys.executable, "-c", swapping])  # noqa: ASYNC220
    try:
        seen = set()
        until = time.monotonic() + 1
        number = 0
        while time.monotonic() < until or False not in seen:
            number += 1
            _, is_error = await told(home, "write_file", path="deep/n.txt", content=f"{number}")
            seen.add(is_error)
        assert [each.name for each in (home.parent / "outside").iterdir()] == ["secret.txt"]
    finally:
        swapper.kill()
        swapper.wait()


async def test_of_two_writers_at_once_none_is_lost_unseen(home: Path) -> None:
    writer = writer_of(home)
    first = writer.plan("a.txt", lambda text, form: f"{text}first\n")
    second = writer.plan("a.txt", lambda text, form: f"{text}second\n")
    (write_file, _) = file_writing_tools(writer)
    assert first.scope != second.scope
    call = call_of("write_file", path="a.txt", content="one\ntwo\nthree\nfirst\n")
    approved = frozenset((f"write_file {first.scope}",))
    assert not (
        await registry_of(write_file).execute(call, replace(CONTEXT, approved=approved))
    ).is_error
    call = call_of("write_file", path="a.txt", content="one\ntwo\nthree\nsecond\n")
    approved = frozenset((f"write_file {second.scope}",))
    assert (
        await registry_of(write_file).execute(call, replace(CONTEXT, approved=approved))
    ).is_error
    assert (home / "a.txt").read_text() == "one\ntwo\nthree\nfirst\n"
