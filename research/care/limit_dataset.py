"""Sentences that tell a limit or do not, and limits beside messages to which they matter or do not.

``train.jsonl`` and its like have a sentence a line: ``{"text", "care", "kind"}``. A line of
``pairs-train.jsonl`` and its like is either a topic, ``{"matter", "fields", "said", "asked"}``:
sentences that tell it, messages to which it matters, and the fields of life that these ask about;
or messages, ``{"field", "asked"}``: to all topics of that field, or (null) to none. A topic of
several fields may have a line for the messages of each: it touches the fields of all of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from service.bench.parameters import BenchmarkError

How = Literal["own", "field", "elsewhere", "none"]
"""Messages of a limit's own topic, of its field, of another field, and of none."""


class Sentence(NamedTuple):
    """Something that a person says."""

    text: str
    care: bool
    """Whether it tells a limit, or takes one back."""
    kind: str


class Pair(NamedTuple):
    """A limit, and a message."""

    topic: str
    said: str
    asked: str
    how: How

    @property
    def matters(self) -> bool:
        """Whether the limit matters to the message."""
        return self.how in ("own", "field")


@dataclass(frozen=True, slots=True)
class Part:
    """The sentences and pairs of one part."""

    sentences: tuple[Sentence, ...]
    pairs: tuple[Pair, ...]

    def texts(self) -> set[str]:
        """All that is said in it."""
        both = {text for pair in self.pairs for text in (pair.said, pair.asked)}
        return both | {each.text for each in self.sentences}


def read_part(folder: Path, name: str) -> Part:
    """A part by its name: ``train``, ``dev`` or ``test``.

    Raises:
        BenchmarkError: a file cannot be read.
    """
    try:
        sentences = [Sentence(**each) for each in _lines(folder / f"{name}.jsonl")]
        return Part(tuple(sentences), tuple(_pairs(list(_lines(folder / f"pairs-{name}.jsonl")))))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BenchmarkError(f"{folder} has no readable part {name}: {error}") from error


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def _pairs(lines: list[Mapping[str, Any]]) -> Iterator[Pair]:
    """All pairs of which it is known whether the limit matters.

    Not a limit with messages of another topic of the same field: who is allergic to shellfish and
    asks about a peanut sauce may well want to be asked what else is in it.
    """
    topics = [each for each in lines if "matter" in each]
    touched = defaultdict[str, set[str]](set)
    for topic in topics:
        touched[topic["matter"]].update(topic["fields"])
    for name, fields in touched.items():
        asked = [
            (words, how)
            for line in lines
            if (how := _how(name, fields, line))
            for words in line["asked"]
        ]
        for topic in topics:
            if topic["matter"] == name:
                yield from (Pair(name, said, *each) for said in topic["said"] for each in asked)


def _how(name: str, fields: set[str], line: Mapping[str, Any]) -> How | None:
    """How the messages of a line belong to a topic; None where that is open."""
    if line.get("matter") == name:
        return "own"
    if "matter" in line:
        return None if fields & set(line["fields"]) else "elsewhere"
    if line["field"] is None:
        return "none"
    return "field" if line["field"] in fields else "elsewhere"
