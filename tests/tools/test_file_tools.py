"""Files in granted folders: what is read, and that nothing leads out of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.tools.builtins.file_tools import NAMES, file_tools
from service.tools.files.granted_folders import GrantedFolders
from service.tools.protocol import Tool
from tests.support.tools.reading import reading
from tests.support.tools.tool_calls import result_of

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
    (folder / "笔记" / "牙医.txt").write_text("牙医：王大夫\n电话 5551234\n", "utf-8")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return folder


async def told(home: Path, name: str, /, **arguments: object) -> tuple[str, bool]:
    granted = GrantedFolders((home,), hidden=(home / "data",))
    by_name: dict[str, Tool] = dict(zip(NAMES, file_tools(granted), strict=True))
    by_name["read_file"] = reading(granted)
    result = await result_of(by_name[name], **arguments)
    return result.content, result.is_error


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "笔记/../a.txt", "{home}/a.txt"])
async def test_a_file_is_read_by_lines(home: Path, path: str) -> None:
    content, is_error = await told(home, "read_file", path=path.format(home=home))
    assert not is_error
    assert content.endswith("\none\ntwo\nthree")
    content, _ = await told(home, "read_file", path="a.txt", start_line=2, lines=1)
    assert content.endswith("\n\ntwo")
    assert "lines 2 to 2 of 3" in content
    assert "start_line=3" in content
    content, is_error = await told(home, "read_file", path="a.txt", start_line=4)
    assert is_error
    assert "has 3 lines" in content


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("牙医在北京路".encode(), "utf-8"),
        ("牙医在北京路".encode("utf-8-sig"), "utf-8-sig"),
        ("牙医在北京路".encode("utf-16"), "utf-16"),
        ("牙医在北京路".encode("utf-32"), "utf-32"),
        ("牙医在北京路".encode("gb18030"), "gb18030"),
        ("牙医在北京路".encode("gbk"), "gb18030"),
    ],
)
async def test_common_encodings_are_read(home: Path, data: bytes, encoding: str) -> None:
    (home / "e.txt").write_bytes(data)
    content, is_error = await told(home, "read_file", path="e.txt")
    assert not is_error
    assert content.endswith("牙医在北京路")
    assert encoding in content
    content, _ = await told(home, "search_files", query="北京路")
    assert "e.txt:1: 牙医在北京路" in content


async def test_western_text_and_bytes_cut_in_half_are_read(home: Path) -> None:
    (home / "w.txt").write_bytes("Où est le café très agréable de la forêt ?".encode("cp1252"))
    content, is_error = await told(home, "read_file", path="w.txt")
    assert not is_error
    assert "café" in content
    (home / "cut.txt").write_bytes("牙医在北京路很多字".encode("gb18030")[:-1])
    content, is_error = await told(home, "read_file", path="cut.txt")
    assert "牙医在北京路很多" in content
    assert not is_error


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "笔记/../../outside/secret.txt",
        "{outside}/secret.txt",
        "link",
        "absolute",
        "folder/secret.txt",
        "magic/root{outside}/secret.txt",
        "data/token",
        "{home}/data/token",
        "into",
        "/etc/passwd",
        "/proc/self/environ",
        "~/../etc/passwd",
        "a.txt/../../outside/secret.txt",
    ],
)
async def test_nothing_leads_out(home: Path, path: str) -> None:
    outside = home.parent / "outside"
    (home / "link").symlink_to("../outside/secret.txt")
    (home / "absolute").symlink_to(outside / "secret.txt")
    (home / "folder").symlink_to("../outside")
    (home / "magic").symlink_to("/proc/self")
    (home / "into").symlink_to("data/token")
    for name, argument in (("read_file", "path"), ("list_files", "folder")):
        content, is_error = await told(
            home, name, **{argument: path.format(home=home, outside=outside)}
        )
        assert is_error
        assert SECRET not in content
        assert "root:" not in content


@pytest.mark.parametrize("kernel", [True, False])
async def test_a_link_that_is_swapped_while_it_is_read_leads_nowhere_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(sys, "platform", "other")
    (home / "deep").mkdir()
    (home / "deep" / "secret.txt").write_text("harmless")
    swapping = f"""
import os
here, away, outside = {str(home / "deep")!r}, {str(home / "away")!r}, "../outside"
while True:
    os.rename(here, away); os.symlink(outside, here); os.unlink(here); os.rename(away, here)
"""
    swapper = subprocess.Popen([sys.executable, "-c", swapping])  # noqa: ASYNC220
    try:
        seen = set()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            content, is_error = await told(home, "read_file", path="deep/secret.txt")
            assert SECRET not in content
            seen.add(is_error)
            content, _ = await told(home, "search_files", query="token 4711")
            assert "outside" not in content.replace(str(home), "")
            assert "Nothing was found" in content
        assert False in seen, "it was read at times"
    finally:
        swapper.kill()
        swapper.wait()


@pytest.mark.parametrize("kernel", [True, False])
async def test_links_within_stay_usable_or_are_refused_in_words(
    home: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    (home / "short").symlink_to("笔记")
    if not kernel:
        monkeypatch.setattr(sys, "platform", "other")
    content, is_error = await told(home, "read_file", path="short/牙医.txt")
    assert is_error is not (kernel and sys.platform == "linux")
    assert "王大夫" in content or "link" in content
    content, is_error = await told(home, "read_file", path="笔记/牙医.txt")
    assert not is_error
    assert "王大夫" in content


async def test_a_grant_that_is_a_link_works_by_both_names(tmp_path: Path, home: Path) -> None:
    (tmp_path / "Documents").symlink_to(home)
    granted = GrantedFolders((tmp_path / "Documents",))
    read_file = reading(granted)
    for path in ("a.txt", str(tmp_path / "Documents" / "a.txt"), str(home / "a.txt")):
        result = await result_of(read_file, path=path)
        assert not result.is_error, result.content


async def test_what_is_no_file_blocks_nobody(home: Path) -> None:
    os.mkfifo(home / "pipe")
    (home / "binary").write_bytes(b"\x7fELF\0\0")
    (home / "empty").touch()
    for path, words in (
        ("pipe", "not a file"),
        ("binary", "no text file"),
        ("笔记", "is a folder"),
        ("none.txt", "There is no none.txt"),
        ("a\0b", "NUL"),
    ):
        content, is_error = await told(home, "read_file", path=path)
        assert is_error
        assert words in content
    assert (await told(home, "read_file", path="empty")) == ("empty is empty.", False)
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(home)
        listening.bind("s")
        content, is_error = await told(home, "read_file", path="s")
        assert is_error
    content, is_error = await told(home, "search_files", query="ELF")
    assert "only by name" in content


async def test_listing_and_searching(home: Path) -> None:
    (home / ".git").mkdir()
    (home / ".git" / "config").write_text("two")
    (home / b"\xff.txt".decode("utf-8", "surrogateescape")).write_text("two")
    content, is_error = await told(home, "list_files")
    assert not is_error
    assert "a.txt  14  " in content
    assert "笔记/" in content
    assert "data" not in content, "what is hidden is not even named"
    content, _ = await told(home, "list_files", folder="笔记")
    assert "牙医.txt" in content
    content, _ = await told(home, "search_files", query="TWO")
    assert f"{home}/a.txt:2: two" in content
    assert ".git" not in content
    content, _ = await told(home, "search_files", query="牙医")
    assert "笔记/牙医.txt\n" in content
    assert "牙医.txt:1: 牙医：王大夫" in content
    content, is_error = await told(home, "search_files", query="zebra")
    assert not is_error
    assert "Nothing was found" in content
    content, is_error = await told(home, "search_files", query=" ")
    assert is_error


async def test_large_files_are_bounded(home: Path) -> None:
    with (home / "large").open("wb") as file:
        file.truncate(3_000_000_000)
    content, is_error = await told(home, "read_file", path="large")
    assert is_error
    assert "larger than 20 MB" in content
    (home / "long.txt").write_text("x" * 100_000 + "needle\n")
    content, _ = await told(home, "search_files", query="needle")
    assert len(content) < 2_000
