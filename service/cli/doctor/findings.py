"""What a check of `rondo doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "broken"]
"""``note``: it works without, only less well; ``broken``: the assistant cannot do its work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    verdict: Verdict
    words: str
    advice: str = ""
