"""Documents as programs write them, small, and made by hand where they are to be hostile."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

from docx import Document

_WORKBOOK = (
    '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r='
    '"http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>{}</sheets>'
    "</workbook>"
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}'
    "</Relationships>"
)
_OF_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def pdf(pages: Sequence[str], *, extra: Mapping[int, bytes] | None = None) -> bytes:
    """A PDF whose pages say these words, in any script.

    Args:
        pages: the words of each.
        extra: objects that stand in the place of those of these numbers.
    """
    used = sorted({ord(character) for page in pages for character in page})
    names = "\n".join(f"<{code:04X}> <{code:04X}>" for code in used)
    to_unicode = (
        "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{len(used)} beginbfchar\n{names}\nendbfchar endcmap"
    ).encode()
    kids = " ".join(f"{number} 0 R" for number in range(6, 6 + 2 * len(pages), 2))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        3: b"<< /Type /Font /Subtype /Type0 /BaseFont /F /Encoding /Identity-H"
        b" /DescendantFonts [4 0 R] /ToUnicode 5 0 R >>",
        4: b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /F /DW 1000"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        5: b"<< /Length %d >>\nstream\n%s\nendstream" % (len(to_unicode), to_unicode),
    }
    for at, words in enumerate(pages):
        codes = "".join(f"{ord(character):04X}" for character in words)
        content = f"BT /F 12 Tf 50 700 Td <{codes}> Tj ET".encode() if words else b""
        number = 6 + 2 * at
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R"
            b" /Resources << /Font << /F 3 0 R >> >> >>" % (number + 1)
        )
        objects[number + 1] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)
    objects |= extra or {}
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n")
    places = {}
    for number, body in sorted(objects.items()):
        places[number] = out.tell()
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for number in sorted(objects):
        out.write(b"%010d 00000 n \n" % places[number])
    out.write(
        b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    )
    return out.getvalue()


def word(heading: str, paragraphs: Sequence[str], table: Sequence[Sequence[str]] = ()) -> bytes:
    """A Word document with a heading, paragraphs and a table."""
    document = Document()
    document.add_heading(heading, level=2)
    for each in paragraphs:
        document.add_paragraph(each)
    if table:
        made = document.add_table(rows=0, cols=len(table[0]))
        for row in table:
            for cell, words in zip(made.add_row().cells, row, strict=True):
                cell.text = words
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def spreadsheet(sheets: Mapping[str, str]) -> bytes:
    """An Excel workbook.

    Args:
        sheets: by their names, the XML of their rows.
    """
    listed = enumerate(sheets, 1)
    files = {
        "_rels/.rels": _RELATIONS.format(
            f'<Relationship Id="r1" Type="{_OF_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
        ),
        "xl/workbook.xml": _WORKBOOK.format(
            "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in listed)
        ),
        "xl/_rels/workbook.xml.rels": _RELATIONS.format(
            "".join(
                f'<Relationship Id="r{n}" Type="{_OF_OFFICE}/worksheet"'
                f' Target="worksheets/sheet{n}.xml"/>'
                for n in range(1, len(sheets) + 1)
            )
        ),
    }
    for number, rows in enumerate(sheets.values(), 1):
        files[f"xl/worksheets/sheet{number}.xml"] = (
            '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
            f"<sheetData>{rows}</sheetData></worksheet>"
        )
    return archive(files)


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """A ZIP archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return out.getvalue()
