"""Where the same words stand without anybody having been shown them: said again, or imported.

Nothing tells there where the words came from, so they are looked for to the letter, and what is
found is told to the person, who can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from service.domain.anchors import Segment
from service.domain.forgetting_terms import Repetition
from service.memory.forgetting.pieces import Ref
from service.memory.forgetting.plan import Plan
from service.memory.forgetting.recognition import folded, readable, stands_in
from service.memory.forgetting.words import clipped
from service.memory.journal.protocol import Journal
from service.memory.ledger.terms import terms
from service.memory.memory_tuning import FORGOTTEN_LOOKED_FOR


def repetitions(
    plan: Plan, journal: Journal, find: Callable[[str, Iterable[str]], Iterable[Segment]]
) -> list[Repetition]:
    """Each place that repeats a sentence or a number of what goes, and stays. Blocks.

    Args:
        plan: what goes.
        journal: knows what is open, and what was imported.
        find: gives an owner's segments that hold all of some terms.

    Raises:
        StorageError: long-term memory or the journal cannot be read.
    """
    if plan.selection.everything:
        return []
    listed = {(each.run_loop_id, each.iteration) for each in (*plan.answers, *plan.saw)}
    repeated: dict[Ref, tuple[bool, str]] = {}
    phrases = _phrases(plan)
    remembered = _remembered(plan.owner, phrases, find)
    for ref, by_person, text in (*remembered, *_open(plan.owner, phrases, journal)):
        if not plan.goes(*ref) and (by_person or ref not in listed):
            repeated.setdefault(ref, (by_person, text))
    from_files = journal.histories.imported({run_loop_id for run_loop_id, _ in repeated})

    def by(ref: Ref, by_person: bool) -> Literal["person", "import", "other"]:
        if ref[0] in from_files:
            return "import"
        return "person" if by_person else "other"

    return [
        Repetition(run_loop_id=ref[0], iteration=ref[1], by=by(ref, said), words=clipped(text))
        for ref, (said, text) in sorted(repeated.items())
    ]


def _phrases(plan: Plan) -> list[str]:
    """What is looked for; numbers first, then the sentences that say most."""
    sentences = sorted(plan.traits.sentences, key=lambda each: (-len(each), each))
    return [*sorted(plan.traits.numbers), *sentences][:FORGOTTEN_LOOKED_FOR]


def _remembered(
    owner: str,
    phrases: Iterable[str],
    find: Callable[[str, Iterable[str]], Iterable[Segment]],
) -> Iterator[tuple[Ref, bool, str]]:
    for each in phrases:
        for piece in find(owner, dict.fromkeys(terms(each))):
            if _holds(piece.content, each):
                by_person = piece.anchor.segment_type == "user_message"
                yield piece.anchor.ref[:2], by_person, piece.content


def _open(owner: str, phrases: Sequence[str], journal: Journal) -> Iterator[tuple[Ref, bool, str]]:
    """What long-term memory may not know yet."""
    for state in journal.states(owner):
        for index, iteration in enumerate(state.iterations):
            said = iteration.user_message or ""
            if any(_holds(said, each) for each in phrases):
                yield (state.id, index), True, said


def _holds(text: str, phrase: str) -> bool:
    if phrase.isalnum() and any(map(str.isdecimal, phrase)):
        return phrase in set(terms(readable(text)))
    return stands_in(phrase, folded(readable(text)))
