"""Reasoning that a model writes into its answer, between ``<think>`` and ``</think>``.

DeepSeek-R1, Qwen and their distillations do so where an endpoint does not take it out. Only tags
that lead the answer count: what has streamed as words cannot be taken back, and a tag later on may
be code, or a quotation. For the same reason a ``</think>`` without a ``<think>`` before it, from an
endpoint whose template opens the tag itself, stays text: let such an endpoint parse the reasoning
(vLLM and SGLang: ``--reasoning-parser``, llama.cpp: ``--reasoning-format deepseek``).

>>> tags = ThinkTags()
>>> [*tags.feed("<thi"), *tags.feed("nk>2 + 2</th"), *tags.feed("ink>\\n\\n4"), *tags.finish()]
[ThinkDelta(think='2 + 2', signature=None), TextDelta(text='4')]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from service.domain.conversation.stream_parts import TextDelta, ThinkDelta

_OPEN = "<think>"
_CLOSE = "</think>"
_LEADING = 64
"""How much white space may stand before the tag. It is held back meanwhile."""


class ThinkTags:
    """Parts the content of one answer into reasoning and words, as it comes.

    How the content is cut into pieces makes no difference. What is held back, because it may be
    the beginning of a tag, is never longer than some dozens of characters.
    """

    def __init__(self) -> None:
        self._place: Literal["start", "thinking", "after", "text"] = "start"
        self._held = ""

    def feed(self, content: str) -> Iterator[TextDelta | ThinkDelta]:
        """What the next piece of content adds."""
        self._held += content
        while self._held:
            match self._place:
                case "start" | "after":
                    if not self._opens():
                        return
                case "thinking":
                    think, closed, rest = self._held.partition(_CLOSE)
                    if not closed:
                        kept = _beginning_of(_CLOSE, at_the_end_of=think)
                        think, rest = think[: len(think) - kept], think[len(think) - kept :]
                    self._held = rest
                    if think:
                        yield ThinkDelta(think)
                    if not closed:
                        return
                    self._place = "after"
                case "text":
                    yield TextDelta(self._held)
                    self._held = ""
                case place:
                    assert_never(place)

    def finish(self) -> Iterator[TextDelta | ThinkDelta]:
        """What was held back. The content that may still follow is words."""
        held, self._held = self._held, ""
        if self._place == "thinking":
            if held:
                yield ThinkDelta(held)
            return  # it was never closed: more of it may come
        if self._place == "after":
            held = held.lstrip()
        self._place = "text"
        if held:
            yield TextDelta(held)

    def _opens(self) -> bool:
        """Look for the tag at the beginning of what is held; whether it is clear what this is."""
        words = self._held.lstrip()
        if self._place == "after":
            self._held = words  # white space between the reasoning and the answer
        if len(self._held) - len(words) <= _LEADING:
            if words.startswith(_OPEN):
                self._held, self._place = words[len(_OPEN) :], "thinking"
                return True
            if _OPEN.startswith(words):
                return False
        self._place = "text"
        return True


def _beginning_of(tag: str, *, at_the_end_of: str) -> int:
    """How many characters at the end of a text may be the beginning of a tag."""
    for length in range(min(len(tag) - 1, len(at_the_end_of)), 0, -1):
        if at_the_end_of.endswith(tag[:length]):
            return length
    return 0
