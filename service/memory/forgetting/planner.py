"""Makes the plan: follows words from where they were said to where copies of them stand, and to
those who have seen them.

Copies are what demonstrably came from there: what `Descent` follows; pieces that memory put before
a model, or gave to its tools, with their anchors; summaries of the same run loop that were made of
them; goals that the router wrote down. They go. What was said by those who had seen the words goes
where the request says so. What only speaks of the same topic is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from service.domain.anchors import Segment
from service.domain.forgetting_terms import CopyKind
from service.domain.history.events import Event, EventBody
from service.domain.history.fold import fold
from service.domain.history.human_input import InputReceived
from service.domain.history.references import Quotation, carried
from service.memory.forgetting.answers import Answers
from service.memory.forgetting.descent import Descent, Doomed
from service.memory.forgetting.histories import History
from service.memory.forgetting.pieces import Ref, in_words, without_pieces
from service.memory.forgetting.plan import Change, Plan, Selection
from service.memory.forgetting.provenance import Provenance, Shown, shown_by
from service.memory.forgetting.recognition import SaidElsewhere, Traits
from service.memory.forgetting.words import first_words, traits_of
from service.memory.journal.appends import quotes
from service.memory.journal.kept_words import Copied, goal_quotations, json_of, kept
from service.memory.journal.protocol import Journal

_PAGE = 1000

FindSegments = Callable[[str, Iterable[str]], Iterable[Segment]]
"""Gives, of an owner's segments, those that hold all of some terms; not more than a few dozen."""


def make_plan(journal: Journal, owner: str, selection: Selection, find: FindSegments) -> Plan:
    """See what goes, of an owner's selection, and where copies of it stand. Blocks; reads only.

    Raises:
        StorageError: the journal cannot be read.
        ValueError: a history cannot be read.
    """
    return _Planning(journal, owner, selection, find).plan()


class _Planning(Descent):
    def __init__(
        self, journal: Journal, owner: str, selection: Selection, find: FindSegments
    ) -> None:
        super().__init__(journal, owner)
        self._selection = selection
        self._find = find
        self._known_traits: dict[Ref, Traits] = {}
        self._referring: dict[int, Event] = {}
        """By number: the events of run loops that stay which refer to others."""
        self._quotations: dict[int, tuple[Quotation, ...]] = {}
        """What these are made of."""

    def plan(self) -> Plan:
        plan = Plan(self._owner, self._journal.last_seq, self._selection)
        for run_loop_id in sorted(self._selection.run_loop_ids):
            self._whole[run_loop_id] = self._read_whole(run_loop_id)
        for run_loop_id, iterations in sorted(self._selection.iterations.items()):
            self._doom(run_loop_id, iterations, None)
        if not self._selection.everything and not self._selection.is_empty:
            self._follow_copies()
            self._follow_words(plan)
            self._render_copies()
        plan.whole = {key: history.state for key, history in self._whole.items()}
        plan.events = sum(len(history.events) for history in self._whole.values())
        for run_loop_id, iterations in self._selection.iterations.items():
            all_iterations = self._staying[run_loop_id].history.state.run_loop().iterations
            plan.single[run_loop_id] = {
                index: first_words(all_iterations[index]) for index in sorted(iterations)
            }
        for run_loop_id, doomed in self._staying.items():
            if doomed.bodies:
                plan.changes[run_loop_id] = self._change(run_loop_id, doomed)
        return plan

    # --- where else the words have gone

    def _follow_words(self, plan: Plan) -> None:
        shown = self._scan()
        self._drop_pieces(shown)
        for history, gone in self._gone():
            plan.traits |= traits_of(history, gone)
        provenance = self._provenance(shown)
        elsewhere = SaidElsewhere(
            partial(self._find, self._owner),
            self._journal.states(self._owner),
            is_gone=self._goes,
            have_seen=frozenset(provenance.run_loops),
            traits=plan.traits,
        )
        answers = Answers(self._stays, provenance, elsewhere.is_common)
        for each in answers.follow():
            if self._selection.with_all_that_saw:
                self._put(each.event, each.bare, "answer" if each.tells else "saw")
            elif each.tells and self._selection.with_answers:
                self._put(each.event, each.untold, "answer")
        self._render(self._goals_left())
        plan.answers, plan.saw = answers.telling.places(), answers.others.places()

    def _provenance(self, shown: Iterable[Shown]) -> Provenance:
        provenance = Provenance(
            self._traits, self._traits_from, lambda key: self._stays(key).history
        )
        for run_loop_id, doomed in list(self._staying.items()):
            for iteration in sorted(doomed.iterations):
                traits = self._traits((run_loop_id, iteration)) or Traits()
                provenance.add(run_loop_id, doomed.history.first_seq((iteration,)), traits)
        provenance.follow(shown)
        return provenance

    def _traits(self, ref: Ref) -> Traits | None:
        """What tells an iteration that goes; None for one that stays."""
        if not self._goes(ref):
            return None
        if ref not in self._known_traits:
            run_loop_id, iteration = ref
            history = self._whole.get(run_loop_id) or self._staying[run_loop_id].history
            self._known_traits[ref] = traits_of(history, frozenset((iteration,)))
        return self._known_traits[ref]

    def _traits_from(self, run_loop_id: str) -> Traits | None:
        history = self._whole.get(run_loop_id)
        if history is None:
            return None
        return traits_of(history, frozenset(range(history.iteration_count)))

    def _gone(self) -> Iterator[tuple[History, frozenset[int]]]:
        for history in self._whole.values():
            yield history, frozenset(range(history.iteration_count))
        for doomed in self._staying.values():
            if doomed.iterations:
                yield doomed.history, doomed.iterations

    def _scan(self) -> list[Shown]:
        """The events by which loops that stay were shown something, in their order."""
        shown, quoting = list[Shown](), dict[int, Event]()
        for kind in ("memory.recalled", "tool.finished", "route.decided", "input.required"):
            after = 0
            while page := self._journal.read_blocking(
                owner=self._owner, kind=kind, after=after, limit=_PAGE
            ):
                after = page[-1].seq or 0
                for event in page:
                    if event.run_loop_id in self._whole:
                        continue
                    if quotes(event.body) or goal_quotations(event.body):
                        quoting[event.seq or 0] = event
                    if (sight := shown_by(event)) is not None:
                        shown.append(sight)
        self._quotations = self._journal.words.quotations(quoting)
        self._referring = {seq: quoting[seq] for seq in self._quotations}
        return sorted(shown, key=lambda each: each.event.seq or 0)

    def _body(self, event: Event) -> EventBody:
        """An event's body, without what goes of it by now."""
        doomed = self._staying.get(event.run_loop_id)
        return event.body if doomed is None else doomed.bodies.get(event.seq or 0, event.body)

    def _drop_pieces(self, shown: Iterable[Shown]) -> None:
        """Drop what memory gave of what goes: what refers to it, and copies in words."""
        self._render()
        for event, refs, _ in shown:
            body, quotations = self._body(event), self._left(event)
            gone = frozenset(ref for ref in in_words(body, quotations) & refs if self._goes(ref))
            if gone:
                self._put(event, without_pieces(body, gone, quotations), "recalled")

    def _goals_left(self) -> dict[str, str]:
        """By their ids: what the loops that stay and lose words are about, then."""
        losing = ((key, doomed) for key, doomed in self._staying.items() if doomed.bodies)
        return {key: self._change(key, doomed).after.goal for key, doomed in losing}

    def _render(self, goals: Mapping[str, str] | None = None) -> None:
        """See how events that refer to others are read, once those have lost what goes."""
        referring = {seq: each for seq, each in self._referring.items() if self._left(each)}
        instead = {
            seq: body
            for doomed in self._staying.values()
            for seq, body in doomed.bodies.items()
            if seq not in doomed.rendered
        }
        rows = [
            (seq, event.owner, kept(instead.get(seq, event.body), self._left(event)))
            for seq, event in referring.items()
        ]
        bodies = self._journal.words.bodies(rows, instead=instead, without=self._whole, goals=goals)
        for event, body in zip(referring.values(), bodies, strict=True):
            seq = event.seq or 0
            is_written = seq in instead
            if body != instead.get(seq, event.body):
                self._put(event, body, "recalled" if quotes(body) else "quoted")
                if not is_written:
                    self._staying[event.run_loop_id].rendered.add(seq)

    def _render_copies(self) -> None:
        """See how events are read that are as others are, once those have lost what goes."""
        copies = [each for its in self._copies.values() for each in its if each.is_same]
        is_done = False
        while not is_done:  # there are copies of copies
            is_done = True
            for each in copies:
                original = self._staying.get(each.original_in)
                if each.run_loop_id in self._whole or original is None:
                    continue
                if each.original in original.bodies:
                    is_done &= not self._copy(each, original.bodies[each.original])

    def _copy(self, copied: Copied, body: EventBody) -> bool:
        """Let a copy be as its original will be, unless more of it goes; whether that is new."""
        doomed, seq = self._stays(copied.run_loop_id), copied.seq
        is_written = seq in doomed.bodies and seq not in doomed.rendered
        if is_written and doomed.bodies[seq] != body:
            return False
        if doomed.bodies.get(seq) != body:
            event = next(each for each in doomed.history.events if each.seq == seq)
            self._put(event, body, "fork" if copied.original < seq else "moved")
        elif not is_written:
            return False
        doomed.rendered.add(seq)
        return True

    def _left(self, event: Event) -> tuple[Quotation, ...]:
        """Which texts of an event, as it will be written, stand elsewhere."""
        doomed, seq = self._staying.get(event.run_loop_id), event.seq or 0
        quotations = self._quotations.get(seq, ())
        if not quotations or doomed is None or seq in doomed.rendered or seq not in doomed.bodies:
            return quotations
        return carried(quotations, json_of(event.body), json_of(doomed.bodies[seq]))

    def _goes(self, ref: Ref) -> bool:
        run_loop_id, iteration = ref
        if run_loop_id in self._whole:
            return True
        doomed = self._staying.get(run_loop_id)
        return doomed is not None and iteration in doomed.iterations

    def _put(self, event: Event, body: EventBody, kind: CopyKind) -> None:
        doomed = self._stays(event.run_loop_id)
        seq = event.seq or 0
        if body == doomed.bodies.get(seq, event.body):
            return
        doomed.bodies[seq] = body
        doomed.rendered.discard(seq)
        if seq not in doomed.own:
            doomed.kinds.add(kind)

    def _change(self, run_loop_id: str, doomed: Doomed) -> Change:
        history = doomed.history
        events = [
            event.model_copy(update={"body": doomed.bodies[event.seq or 0]})
            if event.seq in doomed.bodies
            else event
            for event in history.events
        ]
        after = fold(events)
        if after is None:
            raise ValueError(f"run loop {run_loop_id} has no events")
        gone = [
            event
            for event in history.events
            if history.iteration_of.get(event.seq or 0) in doomed.iterations
        ]
        return Change(
            before=history.state,
            after=after,
            bodies=doomed.bodies,
            rendered=frozenset(doomed.rendered),
            quotations={
                event.seq or 0: self._left(event)
                for event in history.events
                if event.seq in doomed.bodies
            },
            kinds=doomed.kinds,
            message_ids={
                message_id
                for event in gone
                if (message_id := history.message_id(event.seq or 0)) is not None
            },
            approvals=set(_approvals_lost(history, doomed)),
            copies=len(doomed.bodies.keys() - doomed.own),
        )


def _approvals_lost(history: History, doomed: Doomed) -> Iterator[str]:
    """The scopes of standing approvals that go with the words in which they were given."""
    for event in history.events:
        if isinstance(event.body, InputReceived) and event.body.remember == "always":
            left = doomed.bodies.get(event.seq or 0, event.body)
            if isinstance(left, InputReceived):
                yield from (scope for scope in event.body.scopes if scope not in left.scopes)
                yield from (rule.scope for rule in event.body.rules if rule not in left.rules)
