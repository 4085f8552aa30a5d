"""Labelled replies: what a run loop asked, and messages that answer it, or are about other things.

A file has one scene a line, JSON: a run loop that its `goal` opened waits with a question (`asks`,
for ``prompt`` and ``select``) or with `calls` that are to be allowed (``approve``), and `others`
are open, too: pairs of a message and its answer. Each of `replies` is one message to that subject,
on its own: what it is (`LABELS`), its words, and, for a choice, the options that it names,
separated by ``|``, or an empty text where it names none and is to be asked back about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from service.bench.parameters import BenchmarkError

Label = Literal["answer", "refusal", "side", "new"]
"""An answer; words that decline to give one; a question about what was asked; another topic."""
LABELS: tuple[Label, ...] = get_args(Label)


class Scene(BaseModel):
    """A run loop that waits, others beside it, and what may be said next."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    language: str
    kind: Literal["prompt", "select", "approve"]
    goal: str
    asks: str = ""
    options: tuple[str, ...] = ()
    multiple: bool = False
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    replies: tuple[tuple[Label, str] | tuple[Label, str, str], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One reply to one scene."""

    scene: Scene
    label: Label
    words: str
    choices: tuple[str, ...] | None
    """The options that it names; None: nothing is said about them."""

    @property
    def belongs(self) -> bool:
        """Whether it is said to the loop that waits."""
        return self.label != "new"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of scenes."""

    name: str
    sha256: str
    scenes: tuple[Scene, ...]

    def cases(self) -> Iterator[Case]:
        """Every reply."""
        for scene in self.scenes:
            for label, words, *more in scene.replies:
                named = tuple(filter(None, more[0].split("|"))) if more else None
                yield Case(scene, label, words, named)


def read_parts(folder: Path) -> list[Part]:
    """All files of a folder, or one file.

    Raises:
        BenchmarkError: there are none, or a line is not of the form.
    """
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl"))
    if not paths:
        raise BenchmarkError(
            f"there is no .jsonl file in {folder}", advice="docs/benchmarks.md tells the form."
        )
    return [_read(path) for path in paths]


def _read(path: Path) -> Part:
    raw = path.read_bytes()
    scenes = []
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        try:
            scenes.append(Scene.model_validate_json(line))
        except ValidationError as error:
            raise BenchmarkError(
                f"{path.name}, line {number}: {error.errors()[0]['msg']}",
                advice="docs/benchmarks.md tells the form.",
            ) from error
    return Part(path.stem, hashlib.sha256(raw).hexdigest(), tuple(scenes))
