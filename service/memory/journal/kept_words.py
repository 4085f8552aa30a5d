"""Words that are kept once: an event that tells what stands in another one is given its words here.

The rows of events that quote hold references in the places of the words; all that read events read
them here, with their words, so that the fold, streams, prompts and exports know whole bodies only.
What is gone is rendered as the mark. A row that quotes nothing costs a look for one word.

A row may also be as another one throughout, but for when it happened: `SAME_AS`. While that one is
there, its body is the row's. One whose words were moved names where they are as well: `WENT_TO`.
What the router tells of other run loops is kept by their ids: whoever reads a decision, or a
question where a message belongs, is told what those run loops are about as of now.

The states of active loops, which the journal holds, hold words that were rendered once. They are
replaced by whatever takes words away, see `Rewriting`.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from service.domain.history.events import BODY, Event, EventBody, RouteDecided
from service.domain.history.human_input import InputRequired
from service.domain.history.redaction import without_words
from service.domain.history.references import (
    KEY,
    Goal,
    Quotation,
    Reference,
    Resolve,
    goals_in,
    in_words,
    quotations_as_rendered,
    quotations_in,
    references_in,
    rendered,
    stretch,
    text_at,
    texts_in,
    with_holes,
)
from service.domain.history.references import Words as Parts
from service.domain.routes import goal_as_named


def goal_quotations(body: EventBody) -> tuple[Quotation, ...]:
    """Where an event tells goals, as the router writes them.

    >>> from service.domain.routes import Route, RouteCandidate
    >>> garden = RouteCandidate(run_loop_id="a", goal="Plant tulips", probability=0.9)
    >>> reason = "it goes on with “Plant tulips”: it replies to what was said there last"
    >>> route = Route(decision="join", run_loop_id="a", confidence=0.9, method="words",
    ...     reason=reason, candidates=(garden,))
    >>> _, why = goal_quotations(RouteDecided(message_id="m", route=route))
    >>> why.field, why.words[:2]
    ('route.reason', ('it goes on with “', Goal(goal_of='a')))
    """
    if isinstance(body, RouteDecided):
        return tuple(_in_route(body))
    if isinstance(body, InputRequired) and body.about == "route":
        return tuple(_in_question(body))
    return ()


def _in_route(body: RouteDecided) -> Iterator[Quotation]:
    route = body.route
    for place, each in enumerate(route.candidates):
        yield Quotation(
            field=f"route.candidates.{place}.goal", words=(Goal(goal_of=each.run_loop_id),)
        )
    # Two may be about the same: the one that was chosen is quoted.
    for each in sorted(route.candidates, key=lambda c: c.run_loop_id != route.run_loop_id):
        before, quote, after = route.reason.partition(f"“{each.goal}”")
        if quote:
            words = (f"{before}“", Goal(goal_of=each.run_loop_id), f"”{after}")
            yield Quotation(field="route.reason", words=words)
            return


def _in_question(body: InputRequired) -> Iterator[Quotation]:
    # The last option is a new topic.
    for place, (option, its) in enumerate(zip(body.options, body.run_loop_ids, strict=False)):
        goal = Goal(goal_of=its)
        is_like_another = option.endswith(suffix := f" · {its}")
        words = (goal, suffix) if is_like_another else (goal,)
        yield Quotation(field=f"options.{place}", words=words)


SAME_AS = "same_as"
"""Under which a kept body names the event whose body it has."""
WENT_TO = "went_to"
"""Under which one names the event to which its words were moved: it is told by references."""
_MARKS = (f'"{KEY}":[', f'"{SAME_AS}":', f'"{WENT_TO}":')
"""Within a text of JSON the first quote would stand behind a stroke."""
_AT_ONCE = 500  # rows

KeptRow = tuple[int, str, str]
"""Number, owner, body as it is kept."""


class Copied(NamedTuple):
    """An event that has its words from another one, in another run loop."""

    seq: int
    run_loop_id: str
    original: int
    """The number of that one."""
    original_in: str
    """The run loop of that one."""
    is_same: bool
    """Whether it is as that one is throughout."""


class KeptRows(Protocol):
    """Reads rows as they are kept. The methods block."""

    def at(self, seqs: Sequence[int]) -> Sequence[tuple[int, str, str, str]]:
        """Number, owner, run loop and body of these events, as far as they are there."""
        ...

    def goals(self, run_loop_ids: Sequence[str]) -> Sequence[tuple[str, str, str]]:
        """Id, owner and goal of these run loops, as far as they are there."""
        ...

    def copies(self, owner: str) -> list[Copied]:
        """See `Words.copies`."""
        ...


class Words:
    """Renders references. Blocks; reads only."""

    def __init__(self, rows: KeptRows) -> None:
        self._rows = rows

    def of(self, words: Parts, owner: str) -> str:
        """A text of this owner's, whole; the mark stands for what is gone."""
        rendering = self._read([Quotation(field="", words=words)])
        return in_words(words, rendering.resolving(owner))[0]

    def bodies(
        self,
        rows: Iterable[KeptRow],
        *,
        instead: Mapping[int, EventBody] | None = None,
        without: Container[str] = (),
        goals: Mapping[str, str] | None = None,
    ) -> list[EventBody]:
        """The bodies of rows, with their words.

        Args:
            rows: of events; their order is kept.
            instead: by number, how events that are referred to are taken to be.
            without: run loops whose events are taken to be gone.
            goals: by run loop, what some are taken to be about.

        Raises:
            ValueError: one cannot be read.
            StorageError: the file cannot be read.
        """
        rows = list(rows)
        quoting = {seq: (owner, json.loads(body)) for seq, owner, body in rows if _quotes(body)}
        if not quoting:
            return [BODY.validate_json(body) for _, _, body in rows]
        changed = {seq: json_of(body) for seq, body in (instead or {}).items()}
        rendering = self._rendering(quoting, changed, without, goals or {})
        return [
            BODY.validate_python(rendering.body(seq))
            if seq in quoting
            else BODY.validate_json(body)
            for seq, _, body in rows
        ]

    def copies(self, owner: str) -> list[Copied]:
        """An owner's events that have their words from another one."""
        return self._rows.copies(owner)

    def quotations(self, seqs: Iterable[int]) -> dict[int, tuple[Quotation, ...]]:
        """By number: what the texts of these events, as they are read, are made of elsewhere."""
        rows = self._rows.at(sorted(seqs))
        quoting = {seq: (owner, json.loads(body)) for seq, owner, _, body in rows if _quotes(body)}
        rendering = self._rendering(quoting)
        quotations = {
            seq: quotations_as_rendered(body, rendering.resolving(owner))
            for seq, (owner, body) in quoting.items()
        }
        return {seq: each for seq, each in quotations.items() if each}

    def _rendering(
        self,
        quoting: Mapping[int, tuple[str, dict[str, Any]]],
        instead: Mapping[int, dict[str, Any]] = MappingProxyType({}),
        without: Container[str] = (),
        goals: Mapping[str, str] = MappingProxyType({}),
    ) -> _Rendering:
        rendering = _Rendering(dict(quoting))
        referenced = {number for _, each in quoting.values() for number in _named(each)}
        self._read_into(rendering, referenced, instead, without)
        self._read_goals(rendering, goals, without)
        return rendering

    def as_read(self, body: EventBody, quotations: Sequence[Quotation], owner: str) -> EventBody:
        """An event that is about to be written, with the words that there are now."""
        if not quotations:
            return body
        resolve = self._read(quotations).resolving(owner)
        now = rendered(with_holes(json_of(body), quotations), resolve)
        return body if now == json_of(body) else BODY.validate_python(now)

    def checked(
        self, body: EventBody, quotations: Sequence[Quotation], owner: str
    ) -> tuple[Quotation, ...]:
        """Of what an event is said to be made of, what gives its texts character for character.

        Goals are always what they are by now.
        """
        if not quotations:
            return ()
        words = [each for each in quotations if not any(goals_in((each,)))]
        if not words:
            return tuple(quotations)
        written = json_of(body)
        resolve = self._read(words).resolving(owner)
        return tuple(
            each
            for each in quotations
            if each not in words or in_words(each.words, resolve)[0] == text_at(written, each.field)
        )

    def _read(self, quotations: Sequence[Quotation]) -> _Rendering:
        rendering = _Rendering({})
        self._read_into(rendering, {each.event for each in references_in(quotations)}, {}, ())
        self._read_goals(rendering, {}, (), quotations)
        return rendering

    def _read_goals(
        self,
        rendering: _Rendering,
        instead: Mapping[str, str],
        without: Container[str],
        quotations: Iterable[Quotation] = (),
    ) -> None:
        run_loop_ids = {
            each for _, body in rendering.kept.values() for each in goals_in(quotations_in(body))
        }
        run_loop_ids.update(goals_in(quotations))
        if run_loop_ids:
            rendering.goals = {
                run_loop_id: (owner, instead.get(run_loop_id, goal))
                for run_loop_id, owner, goal in self._rows.goals(sorted(run_loop_ids))
                if run_loop_id not in without
            }

    def _read_into(
        self,
        rendering: _Rendering,
        unread: set[int],
        instead: Mapping[int, dict[str, Any]],
        without: Container[str],
    ) -> None:
        """Read what is referred to, and what that refers to, each event once."""
        unread -= rendering.kept.keys()
        while unread:
            some = sorted(unread)[:_AT_ONCE]
            unread.difference_update(some)
            for seq, owner, run_loop_id, body in self._rows.at(some):
                if run_loop_id not in without:
                    there = instead[seq] if seq in instead else json.loads(body)
                    rendering.kept[seq] = (owner, there)
                    unread |= {each for each in _named(there) if each not in rendering.kept}


class _Rendering:
    """What was read of some rows, and of all that they refer to."""

    def __init__(self, kept: dict[int, tuple[str, dict[str, Any]]]) -> None:
        self.kept = kept
        """By number: owner and body."""
        self.goals: dict[str, tuple[str, str]] = {}
        """By run loop: owner and goal."""
        self._whole: dict[int, dict[str, Any]] = {}
        self._under_way: set[int] = set()

    def body(self, seq: int) -> dict[str, Any]:
        """A body with its words; what would need itself is gone."""
        if seq not in self._whole:
            owner, kept = self.kept[seq]
            self._under_way.add(seq)
            other = self._body_of(kept.get(SAME_AS), owner)
            if other is not None and other.get("type") == kept.get("type"):
                self._whole[seq] = other
            else:
                body = {name: each for name, each in kept.items() if name not in (SAME_AS, WENT_TO)}
                whole = rendered(body, self.resolving(owner)) if KEY in body else body
                self._whole[seq] = whole
            self._under_way.discard(seq)
        return self._whole[seq]

    def resolving(self, owner: str) -> Resolve:
        """Gives the words of an owner's references."""

        def resolve(reference: Reference | Goal) -> str | None:
            if isinstance(reference, Goal):
                whose, goal = self.goals.get(reference.goal_of, (None, ""))
                return (whose == owner and goal_as_named(goal)) or None
            body = self._body_of(reference.event, owner)
            return None if body is None else stretch(body, reference)

        return resolve

    def _body_of(self, seq: int | None, owner: str) -> dict[str, Any] | None:
        if seq is None or seq in self._under_way:
            return None
        whose, _ = self.kept.get(seq, (None, None))
        return self.body(seq) if whose == owner else None


def kept(body: EventBody, quotations: Sequence[Quotation] = ()) -> str:
    """A body as it is written: with references in the places of words that stand elsewhere."""
    if not quotations:
        return body.model_dump_json()
    holed = with_holes(json_of(body), quotations)
    return json.dumps(holed, ensure_ascii=False, separators=(",", ":"))


def kept_as(body: EventBody, seq: int) -> str:
    """A body as it is written that is as that of another event: without words, for when that goes.

    What the router tells are no words of its own; so they stay.
    """
    bare = without_words(body)
    quotations = goal_quotations(bare) if isinstance(bare, RouteDecided) else ()
    return with_link(kept(bare, quotations), SAME_AS, seq)


def with_link(row: str, name: str, seq: int) -> str:
    """A body as it is written that names another event, behind its type, which comes first."""
    kind, _, rest = row.partition(",")
    return f'{kind},"{name}":{seq},{rest}' if rest else f'{kind[:-1]},"{name}":{seq}}}'


def json_of(body: EventBody) -> dict[str, Any]:
    """A body's JSON, with all its words."""
    return body.model_dump(mode="json")


def _quotes(body: str) -> bool:
    return any(mark in body for mark in _MARKS)


def _named(body: Mapping[str, Any]) -> Iterator[int]:
    """The events that a kept body needs."""
    if KEY in body:
        yield from (each.event for each in references_in(quotations_in(body)))
    if isinstance(body.get(SAME_AS), int):
        yield body[SAME_AS]


def handed_over(body: EventBody, now: Event) -> str:
    """A body as it is kept once its words are those of another event."""
    seq = now.seq or 0
    if body == now.body:
        return kept_as(body, seq)
    return with_link(kept(body, tuple(_standing_quotations(body, now))), WENT_TO, seq)


def _standing_quotations(body: EventBody, now: Event) -> Iterator[Quotation]:
    """Where a body's words stand in that other event, which tells some things otherwise."""
    bare, there = json_of(without_words(body)), json_of(now.body)
    for field, text in texts_in(json_of(body)):
        if not text or text_at(bare, field) == text:
            continue  # no words
        its = [(field, text_at(there, field) or ""), *texts_in(there)]
        place = next(((name, whole.find(text)) for name, whole in its if text in whole), None)
        if place is not None:
            name, start = place
            words = (Reference(event=now.seq or 0, field=name, start=start, end=start + len(text)),)
            yield Quotation(field=field, words=words)
