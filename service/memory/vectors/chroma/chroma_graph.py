"""Whether the graph files of an embedded Chroma hold together.

Chroma reads them without a check: a number out of range ends the whole process, and a file that is
cut short loses vectors in silence. So they are looked at first when they are not as they were left.

The format is hnswlib's, as in Chroma 1.x's fork of it (github.com/chroma-core/hnswlib,
``HierarchicalNSW::saveIndex``), little-endian:

- ``header.bin``: version, then offset of level 0, most and present elements, bytes an element,
  offsets of label and vector, highest level, entry point, links an element above and on level 0,
  M, a factor, ef_construction.
- ``data_level0.bin``, for each element: how many links (16 bits, then 16 of flags), the links, the
  vector, its label.
- ``link_lists.bin``, for each element: how many bytes follow; for each of its upper levels how many
  links (as above), and the links.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

_HEADER = struct.Struct("<i6QiI3QdQ")
_VERSION = 1
_FILES = ("header.bin", "data_level0.bin", "link_lists.bin", "length.bin")
_ELEMENTS_AT_ONCE = 10_000


class _Header(NamedTuple):
    version: int
    offset_of_level_0: int
    most: int
    present: int
    bytes_each: int
    offset_of_label: int
    offset_of_vector: int
    highest_level: int
    entry_point: int
    links_above: int
    links_on_level_0: int
    m: int
    factor: float
    ef_construction: int


def damage_in_graphs(folder: Path) -> str | None:
    """What is wrong with the graphs in a Chroma folder, in words; None when they hold together.

    Takes a tenth of a second for 100,000 vectors. What a later Chroma may write in another format
    is not judged.
    """
    for header in folder.glob("*-*-*-*-*/"):
        wrong = _damage_in(header) if header.is_dir() else None
        if wrong is not None:
            return f"{header.name}: {wrong}"
    return None


def _damage_in(folder: Path) -> str | None:
    if not (folder / "index_metadata.pickle").is_file():
        return None  # Chroma has written no graph yet, or takes it so: it reads none of the others
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        return f"{missing[0]} is missing"
    written = (folder / "header.bin").read_bytes()
    if len(written) < _HEADER.size:
        return "header.bin is cut short"
    if len(written) > _HEADER.size:
        return None
    header = _Header(*_HEADER.unpack(written))
    if header.version != _VERSION:
        return f"header.bin says version {header.version}" if header.version >> 16 else None
    links_bytes = 4 * header.links_on_level_0 + 4
    fits = (
        header.offset_of_level_0 == 0
        and header.offset_of_vector == links_bytes
        and header.offset_of_vector < header.offset_of_label
        and header.bytes_each == header.offset_of_label + 8
        and 0 < header.m <= header.links_above <= header.links_on_level_0 <= 4096
        and header.present <= header.most < 1 << 40
        and (header.entry_point < header.present or not header.present)
        and header.highest_level < 64
    )
    if not fits:
        return "header.bin contradicts itself"
    if (folder / "data_level0.bin").stat().st_size != header.present * header.bytes_each:
        return "data_level0.bin has another length than its header says"
    return _damage_on_level_0(folder, header) or _damage_above(folder, header)


def _damage_on_level_0(folder: Path, header: _Header) -> str | None:
    if not header.present:
        return None
    shape = (header.present, header.bytes_each)
    stored = np.memmap(folder / "data_level0.bin", dtype=np.uint8, mode="r", shape=shape)
    places = np.arange(header.links_on_level_0)
    for start in range(0, header.present, _ELEMENTS_AT_ONCE):
        lists = stored[start : start + _ELEMENTS_AT_ONCE, : header.offset_of_vector]
        counts = np.ascontiguousarray(lists[:, :2]).view("<u2")
        links = np.ascontiguousarray(lists[:, 4:]).view("<u4")
        if (counts > header.links_on_level_0).any():
            return "data_level0.bin holds too many links"
        if ((links >= header.present) & (places < counts)).any():
            return "data_level0.bin has links to nowhere"
    return None


def _damage_above(folder: Path, header: _Header) -> str | None:
    written = (folder / "link_lists.bin").read_bytes()
    level_bytes = 4 * header.links_above + 4
    at = 0
    for _ in range(header.present):
        if at + 4 > len(written):
            return "link_lists.bin is cut short"
        size = int.from_bytes(written[at : at + 4], "little")
        at += 4
        if size % level_bytes or at + size > len(written):
            return "link_lists.bin contradicts itself"
        for level in range(at, at + size, level_bytes):
            count = int.from_bytes(written[level : level + 2], "little")
            if count > header.links_above:
                return "link_lists.bin holds too many links"
            links = np.frombuffer(written, dtype="<u4", count=count, offset=level + 4)
            if (links >= header.present).any():
                return "link_lists.bin has links to nowhere"
        at += size
    return None if at == len(written) else "link_lists.bin is too long"
