"""Documents are read by what they say, in the sandbox; hostile ones come to an answer in words."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.tools.documents.document_reader import DocumentReader
from service.tools.files.granted_folders import GrantedFolders
from service.tools.sandbox.levels import NO_SANDBOX, Sandbox, sandbox_for
from tests.support.tools.documents import archive, pdf, spreadsheet, word
from tests.support.tools.reading import reading
from tests.support.tools.tool_calls import result_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TEA = (
    '<row r="3"><c r="B3" t="inlineStr"><is><t>茶</t></is></c><c r="C3"><v>4.5</v></c>'
    '<c r="D3"><v>7</v></c></row>'
)
SHEETS = {"一月": TEA, "Feb": '<row r="1"><c r="A1"><v>12</v></c></row>'}


async def read(
    folder: Path, data: bytes, /, reader: DocumentReader | None = None, **arguments: object
) -> tuple[str, bool]:
    """What the model is given when it reads a file that holds this."""
    (folder / "document").write_bytes(data)
    granted = GrantedFolders((folder,))
    result = await result_of(reading(granted, reader), path="document", **arguments)
    return result.content, result.is_error


async def test_a_pdf_is_read_by_pages(tmp_path: Path) -> None:
    data = pdf(["第一页 hello", "two", "three"])
    content, is_error = await read(tmp_path, data)
    assert not is_error, content
    assert content.endswith("[page 1]\n第一页 hello\n[page 2]\ntwo\n[page 3]\nthree")
    assert "pages 1 to 3 of 3" in content
    content, _ = await read(tmp_path, data, pages="2")
    assert content.endswith("\n\n[page 2]\ntwo")
    assert 'pages 2 to 2 of 3. It goes on: pages="3-3".' in content
    content, _ = await read(tmp_path, data, pages="2-", start_line=4)
    assert content.endswith("\n\nthree")


async def test_a_word_document_is_read_in_its_order(tmp_path: Path) -> None:
    data = word("计划", ["Dear Ada,\tfirst", "second"], [["茶", "4.5"], ["milk", "2"]])
    content, is_error = await read(tmp_path, data)
    assert not is_error, content
    assert content.endswith("## 计划\nDear Ada,\tfirst\nsecond\n茶 | 4.5\nmilk | 2")


async def test_a_spreadsheet_is_read_by_sheets(tmp_path: Path) -> None:
    data = spreadsheet(SHEETS)
    content, is_error = await read(tmp_path, data)
    assert not is_error, content
    assert content.endswith("\n\n3\t\t茶\t4.5\t7")
    assert "sheet= one of 'Feb'" in content
    for sheet in ("Feb", "2"):
        content, _ = await read(tmp_path, data, sheet=sheet)
        assert content.endswith("\n\n1\t12")
    content, is_error = await read(tmp_path, data, sheet="March")
    assert is_error
    assert "it has no sheet 'March', but '一月', 'Feb'" in content


@pytest.mark.parametrize(
    ("data", "arguments", "words"),
    [
        (pdf(["", ""]), {}, "hold no text"),
        (pdf(["a"]), {"pages": "5"}, "it has 1 pages"),
        (pdf(["a"]), {"pages": "7-3"}, "names no pages"),
        (b"%PDF-1.7 cut off", {}, "it is broken"),
        (b"PK\x03\x04 cut off", {}, "it is broken"),
        (archive({"a.txt": "b"}), {}, "it is an archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), {}, "of an old kind"),
    ],
)
async def test_what_cannot_be_read_is_told(
    tmp_path: Path, data: bytes, arguments: dict[str, Any], words: str
) -> None:
    content, is_error = await read(tmp_path, data, **arguments)
    assert is_error
    assert words in content


def packed(raw: bytes) -> bytes:
    return b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(raw), raw)


def inflating(size: int) -> bytes:
    """Compressed blanks."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(b" " * 10_000_000) for _ in range(size // 10_000_000)]
    return b"".join(parts) + packer.flush()


def declaring(size: int) -> bytes:
    """An archive that says of what is in it that it is so large."""
    made = bytearray(archive({"word/document.xml": "x"}))
    listed = made.index(b"PK\x01\x02")  # the header of a file in the archive's list
    made[listed + 24 : listed + 28] = struct.pack("<I", size)
    return bytes(made)


def laughing() -> bytes:
    """A Word document of a few hundred bytes that says a billion words."""
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "<w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body>"
    text = (
        f'<!DOCTYPE d [<!ENTITY a0 "ha">{entities}]>'
        f'<w:document xmlns:w="{namespace}">{body}</w:document>'
    )
    plain = word("x", [])
    with zipfile.ZipFile(io.BytesIO(plain)) as opened:
        files: dict[str, str | bytes] = {each: opened.read(each) for each in opened.namelist()}
    return archive({**files, "word/document.xml": text})


FAR = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pdf(["a"], extra={7: packed(inflating(200_000_000))}), "Limit reached"),
        (
            lambda: pdf(["a"], extra={2: b"<< /Type /Pages /Kids [2 0 R 6 0 R] /Count 2 >>"}),
            "it is broken",
        ),
        (lambda: declaring(1_000_000_000), "too large"),
        (laughing, "it is broken"),
        (lambda: spreadsheet({"a": FAR}), "too much memory"),
    ],
    ids=["inflating stream", "pages in a circle", "inflating archive", "a billion laughs", "far"],
)
async def test_a_hostile_document_comes_to_an_answer_in_words(
    tmp_path: Path, make: object, words: str
) -> None:
    assert callable(make)
    content, is_error = await read(tmp_path, make())
    assert is_error
    assert words in content
    assert len(content) < 1_000


async def test_endless_work_is_ended_and_endless_text_is_cut(tmp_path: Path) -> None:
    def long(times: int) -> bytes:
        words = b"BT /F 12 Tf " + b"<00610061> Tj " * times + b"ET"
        return pdf(["a", "a"], extra={7: packed(zlib.compress(words, 9))})

    short = DocumentReader(partial(sandbox_for, "auto"), seconds=0.01)
    content, is_error = await read(tmp_path, long(1_000), short)
    assert not is_error, content
    assert "pages 1 to 1 of 2, not to the end: it takes too long to read" in content
    endless = DocumentReader(partial(sandbox_for, "auto"), seconds=0.5, starting_seconds=0.1)
    content, is_error = await read(tmp_path, long(3_000_000), endless)
    assert is_error
    assert "it takes more than 0.5 seconds" in content
    few = DocumentReader(partial(sandbox_for, "auto"), most_characters=25)
    content, _ = await read(tmp_path, word("x", ["y" * 15, "z" * 15]), few)
    assert content.endswith("y" * 15)
    assert "not to the end: it is too long to be given whole" in content


async def test_it_is_read_in_the_sandbox_which_sees_nothing_else(tmp_path: Path) -> None:
    best = sandbox_for("auto")
    if best.level == "none":
        pytest.skip("there is no sandbox here")
    seen = tmp_path / "seen"
    wrapper = tmp_path / "bwrap"
    wrapper.write_text(f'#!/bin/sh\necho "$@" > {seen}\nexec {best.program} "$@"\n')
    wrapper.chmod(0o755)
    reader = DocumentReader(lambda: Sandbox("bubblewrap", str(wrapper), best.options))
    content, is_error = await read(tmp_path, pdf(["a"]), reader)
    assert not is_error, content
    assert "--unshare-all" in seen.read_text()
    assert "--share-net" not in seen.read_text()
    assert str(tmp_path) not in seen.read_text()


async def test_without_a_sandbox_it_is_read_in_bounds_all_the_same(tmp_path: Path) -> None:
    content, is_error = await read(tmp_path, pdf(["茶"]), DocumentReader(lambda: NO_SANDBOX))
    assert not is_error, content
    far = spreadsheet({"a": FAR})
    content, is_error = await read(tmp_path, far, DocumentReader(lambda: NO_SANDBOX))
    assert is_error
    assert "too much memory" in content
