"""What is said elsewhere, by who has not seen the forgotten words: it tells nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache

from service.domain.anchors import Segment
from service.domain.history.state import RunLoopState
from service.memory.forgetting.pieces import Ref
from service.memory.forgetting.recognition import Traits, folded, has_pair, stands_in

FindSegments = Callable[[Iterable[str]], Iterable[Segment]]
"""Gives an owner's segments that hold all of some terms; not more than a few dozen."""


class SaidElsewhere:
    """The words of a person's that stay, and those of models and tools that have seen nothing."""

    def __init__(
        self,
        find: FindSegments,
        active: Iterable[RunLoopState],
        *,
        is_gone: Callable[[Ref], bool],
        have_seen: Container[str],
        traits: Traits,
    ) -> None:
        """Learn where to look.

        Args:
            find: looks in long-term memory.
            active: run loops of which that may not know everything yet.
            is_gone: whether an iteration goes.
            have_seen: run loops whose models have seen some of the words.
            traits: of all that goes: who repeats a sentence of it says nothing of their own.
        """
        self._find = find
        self._active = list(active)
        self._is_gone = is_gone
        self._have_seen = have_seen
        self._sentences = traits.sentences
        self.is_common = cache(self._is_common)
        """See `recognition.IsCommon`. Blocks."""

    def _is_common(self, *words: str) -> bool:
        traits = Traits(words=frozenset(words))
        return any(
            not self._is_repeated(text)
            and (
                has_pair(text, *words)
                if len(words) == 2
                else bool(traits.words & Traits.of([text]).words)
            )
            for text in self._texts(words)
        )

    def _texts(self, words: Iterable[str]) -> Iterator[str]:
        for piece in self._find(words):
            anchor = piece.anchor
            by_person = anchor.segment_type == "user_message"
            if (by_person or anchor.run_loop_id not in self._have_seen) and not self._is_gone(
                anchor.ref[:2]
            ):
                yield piece.content
        for state in self._active:
            for index, iteration in enumerate(state.iterations):
                if iteration.user_message and not self._is_gone((state.id, index)):
                    yield iteration.user_message
            yield from (each.message.text for each in state.unseen)

    def _is_repeated(self, text: str) -> bool:
        line = folded(text)
        return any(stands_in(sentence, line) for sentence in self._sentences)
