"""Text on its way to a model: well-formed, and no longer than it can use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from service.domain.text import well_formed as well_formed

_ASK_FOR_LESS = (
    "To see them, call again for less at a time: a narrower question, a smaller range, fewer"
    " results"
)


def fitted(text: str, limit: int, *, how: str = "") -> str:
    """At most `limit` characters of the text, its start and its end, and a notice in between.

    The notice comes on top of the limit. `how` says how to get what was cut out.
    """
    if len(text) <= limit:
        return text
    tail = limit // 4
    head = limit - tail
    notice = (
        f"\n\n[… {len(text) - limit:,} of {len(text):,} characters were cut out here, from"
        f" character {head:,} on. {how or _ASK_FOR_LESS}. …]\n\n"
    )
    return text[:head] + notice + text[len(text) - tail :]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Words that name what may have been meant, or nothing.

    >>> did_you_mean("calculater", ["calculator", "current_time"])
    ' Did you mean `calculator`?'
    """
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""
