"""Forgetting as a whole: from a request to a preview, and from its confirmation to a receipt.

The order in which words go makes a crash harmless at any moment. First, in one transaction that
survives power loss, they leave the journal, from which all else can be rebuilt, and a record of
what is left to do is written. Then the ledger with its indexes follows; then both files are written
anew, as freed pages and write-ahead logs may hold remains; last, the vector index is built anew
from the vectors that stay. What a crash or a full disk left undone is gone over again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import anyio
import anyio.to_thread

from service.domain.errors import NotFoundError, RondoError, StorageError
from service.domain.forgetting_terms import (
    ForgetConflictError,
    ForgetPreview,
    ForgetReceipt,
    ForgetRequest,
    PlaceOfWords,
)
from service.domain.history.own_part import closed_part
from service.domain.ids import new_id
from service.domain.run_loops import RunLoop
from service.memory.archive.archivist import Archivist
from service.memory.forgetting import selective_redaction as journal_side
from service.memory.forgetting.just_forgotten import JustForgotten
from service.memory.forgetting.kept_files import KeptFiles
from service.memory.forgetting.plan import Plan, Selection
from service.memory.forgetting.planner import make_plan
from service.memory.forgetting.preview import notes_on, preview_of, related
from service.memory.forgetting.repetitions import repetitions
from service.memory.forgetting.selecting import select
from service.memory.journal.protocol import Journal
from service.memory.journal.rewriting import Record, Rewriter
from service.memory.long_term import LongTermMemory
from service.storage.concurrency import run_to_end
from service.storage.freed_memory import clear_freed_memory

log = logging.getLogger(__name__)

Stop = Callable[[str], Awaitable[None]]
"""Ends an active run loop."""
_PLACES: tuple[PlaceOfWords, ...] = ("ledger", "files", "vectors")
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 300.0
_PATIENCE_FOR_VECTORS = 2.0
_STALE = "Look at what would go now, and confirm that."


class Forgetting:
    """Previews, forgets, and finishes what is pending. One request is carried out at a time."""

    def __init__(
        self,
        journal: Journal,
        late: JustForgotten,
        long_term: LongTermMemory,
        archivist: Archivist,
        files: KeptFiles,
    ) -> None:
        self._files = files
        self._journal = journal
        self._long_term = long_term
        self._archivist = archivist
        self._turn = anyio.Lock()
        self._finishing = anyio.Lock()
        self._pending = anyio.Event()
        self.late = late
        """Knows what was forgotten since the start, for whoever is on the way with it."""

    async def preview(self, request: ForgetRequest, *, owner: str) -> ForgetPreview:
        """What would go; removes nothing.

        Raises:
            InvalidInputError: the request names nothing, or contradicts itself.
            NotFoundError: the owner has no such run loop, or nothing stands at an anchor.
            StorageError: the journal cannot be read.
        """
        plan = await self._plan(request, owner)
        preview = await self._preview(plan, request)
        notes = await anyio.to_thread.run_sync(notes_on, self._long_term, plan)
        repeated = await anyio.to_thread.run_sync(
            repetitions, plan, self._journal, self._long_term.holding_all
        )
        besides = {each.run_loop_id for each in (*plan.answers, *plan.saw)}
        besides |= {each.run_loop_id for each in repeated}
        speak_of_it = [
            each for each in await related(self._long_term, plan) if each.id not in besides
        ]
        return preview.model_copy(
            update={
                "notes": notes,
                "repeated": tuple(repeated),
                "related": tuple(speak_of_it),
            }
        )

    async def forget(
        self, request: ForgetRequest, confirm: str, *, owner: str, stop: Stop
    ) -> ForgetReceipt:
        """Forget what was previewed. Goes on when the caller is cancelled.

        Args:
            request: as it was previewed.
            confirm: the preview's code.
            owner: whose words.
            stop: ends a run loop, where the request allows that.

        Raises:
            ForgetConflictError: it is not what was previewed any more, or run loops are active;
                carries the new preview. Nothing was removed.
            InvalidInputError, NotFoundError, StorageError: see `preview`.
        """
        return await run_to_end(self._forget(request, confirm, owner, stop))

    async def _forget(
        self, request: ForgetRequest, confirm: str, owner: str, stop: Stop
    ) -> ForgetReceipt:
        async with self._turn:
            plan = await self._plan(request, owner)
            preview = await self._preview(plan, request)
            if plan.code() != confirm:
                raise ForgetConflictError(
                    "what would be forgotten is not what was previewed", preview, advice=_STALE
                )
            if preview.confirm is None:
                raise ForgetConflictError(
                    preview.notice or "it cannot be done just now",
                    preview,
                    advice="Cancel or complete what is active first; `stop` cancels it.",
                )
            if plan.in_the_way:
                plan = await self._stopped(plan, request, owner, stop)
            async with self._archivist.held():
                record = await self._carry_out(plan, request)
                # Before the archivist comes to read of it: the receipt is to say what has gone.
                record = await self._finish(record, places=("ledger",))
            self._pending.set()
            await self._journal.changes.wait_until_forgotten(self._journal.lost_words_at)
            return (await self._finish(record)).receipt

    async def _stopped(self, plan: Plan, request: ForgetRequest, owner: str, stop: Stop) -> Plan:
        """The same plan, once all that was in its way has ended."""
        confirmed = plan.code(grown=False)
        for state in plan.in_the_way:
            await stop(state.id)
        plan = await self._plan(request, owner)
        if plan.in_the_way or plan.code(grown=False) != confirmed:
            raise ForgetConflictError(
                "run loops went on while they were stopped",
                await self._preview(plan, request),
                advice=_STALE,
            )
        return plan

    async def _plan(self, request: ForgetRequest, owner: str) -> Plan:
        selection = await select(self._journal, self._long_term, request, owner=owner)
        return await anyio.to_thread.run_sync(self._planned, selection, owner)

    def _planned(self, selection: Selection, owner: str) -> Plan:
        try:
            return make_plan(self._journal, owner, selection, self._long_term.holding_all)
        except ValueError as error:  # pydantic's errors are of this kind too
            raise StorageError(
                f"a history cannot be read: {error}",
                advice="It may be of a newer version of Rondo; use that one to forget.",
            ) from error

    async def _preview(self, plan: Plan, request: ForgetRequest) -> ForgetPreview:
        coming_in = 0
        if request.everything:
            waiting = await self._journal.inbox.undelivered()
            coming_in = sum(entry.owner == plan.owner for entry in waiting)
        return self._shown(plan, request, coming_in)

    def _shown(self, plan: Plan, request: ForgetRequest, coming_in: int = 0) -> ForgetPreview:
        schedules = self._journal.schedules.of(plan.owner)
        return preview_of(plan, stop=request.stop, coming_in=coming_in, schedules=schedules)

    async def _carry_out(self, plan: Plan, request: ForgetRequest) -> Record:
        """Take the words out of the journal, and write down what is left to do."""
        confirmed = plan.code()

        def work(rewriter: Rewriter) -> tuple[Plan, Record]:
            # What was written since the plan was made may hold copies, too.
            current = plan
            if self._journal.last_seq != plan.seen_seq:
                current = self._planned(plan.selection, plan.owner)
                if current.code() != confirmed or current.in_the_way:
                    raise ForgetConflictError(
                        "something went on just now",
                        self._shown(current, request),
                        advice=_STALE,
                    )
            removed = journal_side.remove(rewriter, current, self._journal.inbox.unreadable)
            receipt = _receipt(current, request).model_copy(update={"removed": removed})
            record = Record(current.owner, receipt, tuple(current.changes))
            rewriter.keep(record)
            return current, record

        _, record = await self._journal.rewrite(
            work, then=lambda outcome: self.late.learn(outcome[0])
        )
        return record

    # --- what is left to do

    async def run(self) -> None:
        """Finish what is pending, now and whenever there is more, until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            self._pending = anyio.Event()
            try:
                done = await self.finish()
            except Exception as error:  # noqa: BLE001 - whatever it was, it is tried on
                log.warning("forgetting cannot go on: %s", _in_words(error))
                done = False
            pause = _FIRST_PAUSE if done else min(2 * pause, _LONGEST_PAUSE)
            with anyio.move_on_after(None if done else pause):
                await self._pending.wait()

    async def catch_up(self) -> None:
        """At the start: let the ledger not find what the journal has forgotten.

        Where that fails it is told in the log, and `run` tries it again.
        """
        try:
            for record in await self._unfinished():
                if "ledger" in record.receipt.pending:
                    await self._clear_ledger(record)
        except Exception as error:  # noqa: BLE001 - all else is to be there nevertheless
            log.warning("forgetting is not finished yet: %s", _in_words(error))

    async def finish(self) -> bool:
        """Go over all that is pending once; whether nothing is left."""
        for record in await self._unfinished():
            await self._finish(record)
        return not await self._unfinished()

    async def receipts(self, *, owner: str, limit: int = 50) -> list[ForgetReceipt]:
        """An owner's receipts, newest first.

        Raises:
            StorageError: the journal cannot be read.
        """
        return await anyio.to_thread.run_sync(lambda: self._journal.receipts.of(owner, limit=limit))

    async def _unfinished(self) -> list[Record]:
        return await anyio.to_thread.run_sync(self._journal.receipts.unfinished)

    async def _finish(self, record: Record, places: Sequence[PlaceOfWords] = _PLACES) -> Record:
        """Do what is left to do of one, as far as it goes; what keeps it is told in its receipt.

        Raises nothing: the words have left the journal, so whoever asked is owed the receipt.
        """
        async with self._finishing:
            try:
                record = await self._as_it_stands(record)
                for place, clear in (
                    ("ledger", self._clear_ledger),
                    ("files", self._clear_files),
                    ("vectors", self._clear_vectors),
                ):
                    if place in places and record.receipt.pending[:1] == (place,):
                        record = await clear(record)
            except Exception as error:  # noqa: BLE001 - told in the receipt
                record = await self._troubled(record, _in_words(error))
        return record

    async def _as_it_stands(self, record: Record) -> Record:
        """A record as it is written down by now: somebody else may have gone on with it."""
        find = self._journal.receipts.find
        return await anyio.to_thread.run_sync(find, record.receipt.id) or record

    async def _troubled(self, record: Record, problem: str) -> Record:
        """The record with what keeps it from being finished, written down if that can be."""
        log.warning("forgetting is not finished yet: %s", problem)
        receipt = record.receipt.model_copy(update={"problem": problem})
        try:
            return await self._keep(record, problem=problem)
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            log.warning("nor can that be written down: %s", _in_words(error))
            return replace(record, receipt=receipt)

    async def _clear_ledger(self, record: Record) -> Record:
        # What is written from here on, the vector index above all, may hold what was freed.
        await anyio.to_thread.run_sync(clear_freed_memory)
        gone, changed = [], list[RunLoop]()
        for run_loop_id in (*record.receipt.run_loops, *record.changed):
            # One that was imported since is there again, by its owner's will.
            run_loop = await self._now(run_loop_id, record.owner)
            if run_loop is None:
                gone.append(run_loop_id)
            else:
                changed.append(run_loop)
        segments, notes = await self._long_term.forget(record.owner, gone, changed)
        await self._archivist.forgotten(
            (record.owner, each) for each in (*gone, *(loop.id for loop in changed))
        )
        removed = record.receipt.removed
        removed = removed.model_copy(
            update={"segments": removed.segments + segments, "notes": removed.notes + notes}
        )
        receipt = record.receipt.model_copy(update={"removed": removed})
        return await self._keep(replace(record, receipt=receipt), done="ledger")

    async def _now(self, run_loop_id: str, owner: str) -> RunLoop | None:
        """The owner's run loop; None where it is gone, or somebody else has taken its id."""
        try:
            return closed_part(await self._journal.replay(run_loop_id, owner=owner))
        except NotFoundError:
            return None

    async def _clear_files(self, record: Record) -> Record:
        copies = await self._journal.delete_copies()
        removed = await self._files.forget(self._journal, record)
        removed = removed.model_copy(update={"journal_copies": removed.journal_copies + copies})
        record = replace(record, receipt=record.receipt.model_copy(update={"removed": removed}))
        # Another process may read one: its log is emptied once it has done.
        clean = await self._long_term.scrub_file()
        clean = await self._journal.scrub() and clean
        if clean:
            return await self._keep(record, done="files")
        words = "Another process reads the files; what is left in their logs goes when it is done."
        return await self._keep(record, problem=words)

    async def _clear_vectors(self, record: Record) -> Record:
        if not await self._long_term.index.scrubbed(within=_PATIENCE_FOR_VECTORS):
            problem = self._long_term.index.problem
            return await self._keep(record, problem=problem.in_words() if problem else None)
        return await self._keep(record, done="vectors")

    async def _keep(
        self, record: Record, *, done: PlaceOfWords | None = None, problem: str | None = None
    ) -> Record:
        pending = tuple(place for place in record.receipt.pending if place != done)
        receipt = record.receipt.model_copy(
            update={
                "pending": pending,
                "problem": problem,
                "finished_at": None if pending else datetime.now(UTC),
            }
        )
        kept = replace(record, receipt=receipt)

        await self._journal.receipts.keep(kept)
        return kept


def _in_words(error: Exception) -> str:
    return (
        error.problem().in_words() if isinstance(error, RondoError) else str(error) or repr(error)
    )


def _receipt(plan: Plan, request: ForgetRequest) -> ForgetReceipt:
    named: dict[Literal["run_loops", "anchors", "time", "query", "exact", "everything"], bool] = {
        "run_loops": bool(request.run_loop_ids),
        "anchors": bool(request.anchors),
        "time": bool(request.since or request.until),
        "query": request.query is not None and not request.exact,
        "exact": request.exact,
        "everything": request.everything,
    }
    return ForgetReceipt(
        id=new_id(),
        at=datetime.now(UTC),
        by=tuple(name for name, is_named in named.items() if is_named),
        run_loops=tuple(plan.whole),
        iterations={key: tuple(words) for key, words in plan.single.items()},
        copies={key: each.copies for key, each in plan.changes.items() if each.copies},
        pending=_PLACES,
    )
