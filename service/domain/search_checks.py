"""What comes of asking a store for what it holds: how much is found, and how much was before."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

QUESTIONS = 200
"""How many are asked unless it is said."""
MOST_QUESTIONS = 2000
FIRST = 5
"""A segment is found where it is among so many first hits."""

QuestionKind = Literal["answer", "quote"]
"""An answer, by what was asked; a quote, by a few of its words."""


class SearchComparison(BaseModel):
    """An earlier check beside this one, over the questions that both have asked."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    version: str
    embedder: str | None
    asked: int
    gained: int
    """Found now, and not then."""
    lost: int
    """Found then, and not now."""
    lost_anchors: tuple[str, ...]
    """The first of them."""
    finds_less: bool
    """Whether chance would hardly lose as many more than it gains."""


class SearchCheck(BaseModel):
    """What a check has come to."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    version: str
    embedder: str | None
    """None: words alone were searched."""
    asked: int
    found: int
    """Of these, among the first hits."""
    by_kind: dict[QuestionKind, tuple[int, int]]
    """Found and asked, of each kind."""
    earlier: SearchComparison | None = None
    """None at the first check."""
