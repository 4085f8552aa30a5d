"""A plan as people are shown it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from service.domain.errors import RondoError
from service.domain.forgetting_terms import (
    CopiesElsewhere,
    DoomedIteration,
    DoomedRunLoop,
    ForgetPreview,
    NoteMention,
    RunLoopMention,
    ScheduleMention,
)
from service.domain.history.state import RunLoopState
from service.memory.forgetting.plan import Plan
from service.memory.forgetting.words import clipped
from service.memory.long_term import LongTermMemory
from service.memory.memory_tuning import SAME_TOPIC, SAME_TOPIC_ASKED
from service.memory.protocol import MemoryReader
from service.schedules.schedule import Schedule, stands_in_arguments


def preview_of(
    plan: Plan, *, stop: bool, coming_in: int, schedules: Sequence[Schedule]
) -> ForgetPreview:
    """What a plan comes to.

    Args:
        plan: what would go.
        stop: whether active run loops may be cancelled for it.
        coming_in: messages that are on their way into run loops that would go, too.
        schedules: all of the owner's.
    """
    in_the_way = plan.in_the_way
    notice = None
    mentioned = tuple(_schedules(plan, schedules))
    if not plan.whole and not plan.changes and not mentioned:
        notice = "There is nothing to forget."
    elif coming_in:
        notice = (
            "1 message is on its way into a run loop: wait until it is there."
            if coming_in == 1
            else f"{coming_in} messages are on their way into run loops: wait until they are there."
        )
    elif in_the_way and not stop:
        notice = (
            "1 run loop is active, at work or at rest: cancel or complete it first"
            if len(in_the_way) == 1
            else f"{len(in_the_way)} run loops are active, at work or at rest: cancel or complete"
            " them first"
        ) + ', or ask for that, too (`--stop`, over HTTP `"stop": true`).'
    return ForgetPreview(
        run_loops=tuple(map(_doomed, plan.whole.values())),
        iterations=tuple(
            DoomedIteration(
                run_loop_id=run_loop_id,
                iteration=index,
                at=plan.changes[run_loop_id].before.run_loop().iterations[index].timestamp,
                words=words,
            )
            for run_loop_id, named in plan.single.items()
            for index, words in named.items()
        ),
        copies=tuple(
            CopiesElsewhere(
                run_loop_id=run_loop_id,
                goal=clipped(change.before.goal),
                status=change.before.status,
                kinds=tuple(sorted(change.kinds)),
                places=change.copies,
            )
            for run_loop_id, change in plan.changes.items()
            if change.copies
        ),
        answers=tuple(plan.answers),
        saw=tuple(plan.saw),
        schedules=mentioned,
        active=tuple(map(_mention, in_the_way)),
        events=plan.events + sum(len(change.bodies) for change in plan.changes.values()),
        notice=notice,
        confirm=None if notice else plan.code(),
    )


def _schedules(plan: Plan, schedules: Iterable[Schedule]) -> Iterator[ScheduleMention]:
    """Those that go with a plan, and those that opened what goes, and stay."""
    goals = {state.goal for state in plan.whole.values()}
    for each in schedules:
        has_opened = each.what in goals
        goes = (
            plan.selection.everything
            or each.run_loop_id in plan.whole
            or (has_opened and each.state == "ended")
            or (each.run_loop_id in plan.changes and not _is_still_called_for(each, plan))
        )
        if goes or has_opened:
            yield ScheduleMention(id=each.id, what=clipped(each.what), goes=goes)


def _is_still_called_for(schedule: Schedule, plan: Plan) -> bool:
    """Whether the call by which a schedule was made stays in its run loop, which loses words."""
    after = plan.changes[schedule.run_loop_id or ""].after.run_loop()
    calls = [call.arguments for each in after.iterations for call in each.tool_calls]
    return stands_in_arguments(schedule.what, "\n".join(calls))


def notes_on(memory: LongTermMemory, plan: Plan) -> tuple[NoteMention, ...]:
    """The sentences of notes that rest on what goes, or on what tells it. Blocks.

    Raises:
        StorageError: the notes cannot be read.
    """
    if not memory.notes.any():
        return ()
    telling = {(each.run_loop_id, each.iteration) for each in plan.answers}
    taken = plan.selection.with_answers
    affected: dict[tuple[str, str], bool] = {}
    for note in memory.notes.of(plan.owner):
        for sentence in note.sentences:
            refs = {anchor.ref[:2] for anchor in sentence.anchors}
            goes = any(plan.goes(*ref) for ref in refs)
            if goes or refs & telling:
                affected[note.subject, sentence.text] = goes or taken
    return tuple(
        NoteMention(subject=subject, text=text, goes=goes)
        for (subject, text), goes in affected.items()
    )


async def related(memory: MemoryReader, plan: Plan) -> tuple[RunLoopMention, ...]:
    """Run loops that may speak of the same topic."""
    if plan.selection.everything:
        return ()
    named = plan.selection.iterations.keys() | plan.whole.keys()
    run_loop_ids: dict[str, None] = {}
    asked = [state.goal for state in plan.whole.values()]
    asked += [words for each in plan.single.values() for words in each.values()]
    for words in asked[:SAME_TOPIC_ASKED]:
        try:
            hits = (await memory.search(words, owner=plan.owner)).hits if words.strip() else ()
        except RondoError:
            break  # it is a help, not a condition
        for hit in hits:
            if hit.relevance >= SAME_TOPIC and hit.anchor.run_loop_id not in named:
                run_loop_ids[hit.anchor.run_loop_id] = None
    mentions = []
    for run_loop_id in run_loop_ids:
        run_loop = await memory.run_loop(run_loop_id, owner=plan.owner)
        if run_loop is not None:
            mentions.append(
                RunLoopMention(id=run_loop.id, goal=clipped(run_loop.goal), status=run_loop.status)
            )
    return tuple(mentions)


def _doomed(state: RunLoopState) -> DoomedRunLoop:
    return DoomedRunLoop(
        id=state.id,
        goal=clipped(state.goal),
        status=state.status,
        created_at=state.created_at,
        completed_at=state.completed_at,
        iterations=state.iteration_count,
    )


def _mention(state: RunLoopState) -> RunLoopMention:
    return RunLoopMention(id=state.id, goal=clipped(state.goal), status=state.status)
