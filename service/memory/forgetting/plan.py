"""A plan of what forgetting will take out of the journal, before anything is taken."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.forgetting_terms import CopyKind, PlaceThatSaw
from service.domain.history.events import EventBody
from service.domain.history.references import Quotation
from service.domain.history.state import RunLoopState
from service.memory.forgetting.recognition import Traits


@dataclass(frozen=True, slots=True)
class Selection:
    """What an owner has named: whole run loops, and single iterations of others."""

    run_loop_ids: frozenset[str] = frozenset()
    iterations: Mapping[str, frozenset[int]] = field(default_factory=dict)
    everything: bool = False
    """Whether that is all that the owner has."""
    with_answers: bool = False
    """Whether what tells the words goes as well, where it was said by those who had seen them."""
    with_all_that_saw: bool = False
    """Whether all goes that was said by those who had seen them."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to forget."""
        return not (self.run_loop_ids or self.iterations)


@dataclass(slots=True)
class Change:
    """A run loop that stays, and what is rewritten in it."""

    before: RunLoopState
    after: RunLoopState
    bodies: dict[int, EventBody] = field(default_factory=dict)
    """By their numbers: events that lose words, as they will be."""
    rendered: frozenset[int] = frozenset()
    """Those of them that only refer to what goes: they are read without it, and not written."""
    quotations: Mapping[int, Sequence[Quotation]] = field(default_factory=dict)
    """Of those that are written: which texts are left that stand elsewhere."""
    kinds: set[CopyKind] = field(default_factory=set)
    """Why it holds copies; nothing where only what was named goes."""
    message_ids: set[str] = field(default_factory=set)
    """Messages whose words go."""
    approvals: set[str] = field(default_factory=set)
    """Scopes of standing approvals that were given in what goes."""
    copies: int = 0
    """How many of `bodies` are copies."""


@dataclass(slots=True)
class Plan:
    """All that goes."""

    owner: str
    seen_seq: int
    """The newest event when the plan was made."""
    selection: Selection
    whole: dict[str, RunLoopState] = field(default_factory=dict)
    """Run loops that go whole."""
    single: dict[str, dict[int, str]] = field(default_factory=dict)
    """Of others: the iterations that were named, each with its first words."""
    changes: dict[str, Change] = field(default_factory=dict)
    """Run loops that stay and lose words: those of `single`, and those that hold copies."""
    answers: list[PlaceThatSaw] = field(default_factory=list)
    """What tells the words, of those who had seen them."""
    saw: list[PlaceThatSaw] = field(default_factory=list)
    """What else those said."""
    traits: Traits = field(default_factory=Traits)
    """What tells the words."""
    events: int = 0
    """How many events `whole` has."""

    @property
    def in_the_way(self) -> list[RunLoopState]:
        """The run loops that are active, and would have to end first.

        One that rests may lose words; one that is at work, or waits for a person, may not: who
        knows in what it is about to say they are.
        """
        whole = [state for state in self.whole.values() if state.is_active]
        at_work = [
            change.before
            for change in self.changes.values()
            if change.before.status in ("running", "waiting_for_human_input")
            and not change.before.asks_where  # then no work has begun
        ]
        return whole + at_work

    def answers_taken(self) -> list[PlaceThatSaw]:
        """The places of those who had seen the words that lose something."""
        answers = self.answers if self.selection.with_answers else []
        return answers + (self.saw if self.selection.with_all_that_saw else [])

    def goes(self, run_loop_id: str, iteration: int) -> bool:
        """Whether an iteration goes whole, as it was named or as a copy."""
        if run_loop_id in self.whole:
            return True
        change = self.changes.get(run_loop_id)
        if change is None:
            return False
        there = change.after.run_loop().iterations[iteration : iteration + 1]
        return any(each.forgotten for each in there)

    def code(self, *, grown: bool = True) -> str:
        """A hash over exactly this selection, with all its copies.

        Args:
            grown: whether iterations that have come since make it another selection.
        """
        whole = {each.id: each.iteration_count if grown else 0 for each in self.whole.values()}
        changes = {key: sorted(change.bodies) for key, change in self.changes.items()}
        single = {key: sorted(words) for key, words in self.single.items()}
        answers = [self.selection.with_answers, self.selection.with_all_that_saw]
        canonical = json.dumps([self.owner, whole, single, changes, answers], sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]
