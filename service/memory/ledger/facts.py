"""Facts: what a person asked to be remembered, and which newer fact corrects an older one.

A fact is a call of `remember` that succeeded, so it comes from the journal as all else does, has an
anchor, and goes when that is forgotten. A call can name what it corrects; that stays, word for
word, and is marked wherever memory gives it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from service.domain.anchors import AnchorRef, RememberedFact, Segment
from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import REMEMBER
from service.domain.errors import BadAnchorError
from service.domain.run_loops import Iteration
from service.memory.ledger.terms import content_terms


class KeptFact(NamedTuple):
    """A fact as a call states it."""

    ref: AnchorRef
    """Of the call."""
    text: str
    replaces: AnchorRef | None


class Correction(NamedTuple):
    """A fact in the place of something older."""

    old: AnchorRef
    old_text: str
    """The older fact; of another segment its words; empty when it is forgotten."""
    new: RememberedFact


class FactStore(Protocol):
    """The facts of all owners. The methods block; all raise StorageError when the disk refuses."""

    def of(self, owner: str) -> list[RememberedFact]:
        """All facts of an owner, the newest first, with those that were corrected."""
        ...

    def superseding(
        self, contents: Mapping[AnchorRef, str], *, owner: str
    ) -> Mapping[AnchorRef, RememberedFact]:
        """For each of these segments that a fact corrects, see `superseded`: the newest that does.

        Args:
            contents: the words of each segment.
            owner: whose.
        """
        ...


def facts_of(iteration: Iteration, segments: Iterable[Segment]) -> Iterator[KeptFact]:
    """The facts that the calls of an iteration keep; `segments` are what it was cut into."""
    kept = {each.id for each in iteration.tool_results if not (each.is_error or each.notice)}
    firsts: dict[str, AnchorRef] = {}
    for each in segments:
        if each.anchor.segment_type == "tool_call" and each.call_id is not None:
            firsts.setdefault(each.call_id, each.anchor.ref)
    for call in iteration.tool_calls:
        ref = firsts.get(call.id)
        if call.name == REMEMBER and call.id in kept and ref is not None:
            yield from _stated(call, ref)


def _stated(call: ToolCall, ref: AnchorRef) -> Iterator[KeptFact]:
    try:
        arguments = json.loads(call.arguments)
        text, replaces = arguments["fact"], arguments.get("replaces")
        if isinstance(text, str) and text.strip():
            yield KeptFact(ref, " ".join(text.split()), _named(replaces))
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # a tool of the same name in a history that was brought in


def _named(replaces: object) -> AnchorRef | None:
    if not isinstance(replaces, str):
        return None
    try:
        return AnchorRef.parse(replaces)
    except BadAnchorError:
        return None  # such as "none"


def newest(corrections: Collection[Correction]) -> Mapping[AnchorRef, RememberedFact]:
    """For each address that is corrected: the last fact of the chain of corrections.

    Of several corrections of one thing the newest counts. A chain that comes back to where it began
    ends there.
    """
    by_old: dict[AnchorRef, RememberedFact] = {}
    for each in sorted(corrections, key=lambda each: _age(each.new)):
        by_old[each.old] = each.new
    last: dict[AnchorRef, RememberedFact] = {}
    for old, new in by_old.items():
        seen = {old}
        while new.anchor.ref in by_old and new.anchor.ref not in seen:
            seen.add(new.anchor.ref)
            new = by_old[new.anchor.ref]
        if new.anchor.ref != old:
            last[old] = new
    return last


def _age(fact: RememberedFact) -> tuple[float, AnchorRef]:
    return fact.anchor.timestamp.timestamp(), fact.anchor.ref


def superseded(
    contents: Mapping[AnchorRef, str], corrections: Sequence[Correction]
) -> dict[AnchorRef, RememberedFact]:
    """Which of some segments are corrected, and by which fact.

    Corrected is what a correction names; and in the same iteration what holds all that it changes,
    as the message does in which a person asked to have the older fact remembered.
    """
    last = newest(corrections)
    changed: dict[tuple[str, int], list[tuple[set[str], RememberedFact]]] = {}
    for each in corrections:
        if (new := last.get(each.old)) is not None:
            gone = content_terms(each.old_text) - content_terms(new.text)
            if gone and new.anchor.ref[:2] != each.old[:2]:
                changed.setdefault(each.old[:2], []).append((gone, new))
    found: dict[AnchorRef, RememberedFact] = {}
    for ref, content in contents.items():
        if ref in last:
            found[ref] = last[ref]
        elif ref[:2] in changed:
            words = content_terms(content)
            for gone, new in changed[ref[:2]]:
                if gone <= words:
                    found[ref] = new
    return found
