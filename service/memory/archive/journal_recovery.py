"""Brings back into the journal what the ledger alone knows, as after a journal came from a backup.

Without this such run loops would be found, and could be neither forgotten nor exported.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

import anyio.to_thread

from service.domain.errors import RondoError
from service.domain.history.events import RunLoopImported
from service.domain.history.imported import last_moment, standing
from service.domain.history.own_part import closed_part
from service.domain.history.state import RunLoopState
from service.domain.run_loops import ACTIVE, RunLoop
from service.memory.journal.event_reader import Outline
from service.memory.journal.imported_loops import Import
from service.memory.journal.protocol import Journal
from service.memory.long_term import LongTermMemory
from service.memory.memory_tuning import IMPORT_BATCH_BYTES, IMPORT_BATCH_LOOPS
from service.memory.run_loop_lines import settled

log = logging.getLogger(__name__)

SOURCE = "ledger"
"""What such a loop's event says of where it came from."""


async def bring_back(journal: Journal, memory: LongTermMemory) -> None:
    """Have the journal hold every run loop of the ledger, as far as it is there.

    A loop that the journal says was forgotten is removed from the ledger instead. To be called
    before anything else is at work.

    Raises:
        StorageError: the disk refuses; what was brought back before stays.
    """
    here = await anyio.to_thread.run_sync(journal.run_loops.outlines)
    there = await memory.outlines()
    journaled = {each.key: each for each in here}
    beyond = [each for key, each in there.items() if _is_beyond(each, journaled.get(key))]
    if not beyond:
        return
    forgotten = await anyio.to_thread.run_sync(journal.receipts.forgotten_whole)
    unwanted = {each.key for each in beyond if each.key not in journaled} & forgotten
    await _remove(memory, [each for each in beyond if each.key in unwanted])
    lost = [each for each in beyond if each.key not in unwanted]
    by_owner = defaultdict[str, list[Outline]](list)
    for each in lost:
        by_owner[each.owner].append(each)
    for owner, outlines in by_owner.items():
        await _bring_back_of(journal, memory, owner, outlines, journaled)


def _is_beyond(there: Outline, here: Outline | None) -> bool:
    """Whether the ledger may know more of a loop than the journal."""
    if here is None:
        return True
    if here.status in ACTIVE:
        return False
    return there.iterations > here.iterations or (there.ended_at or 0) > (here.ended_at or 0)


async def _remove(memory: LongTermMemory, forgotten: Iterable[Outline]) -> None:
    by_owner = defaultdict[str, list[str]](list)
    for each in forgotten:
        by_owner[each.owner].append(each.id)
    for owner, run_loop_ids in by_owner.items():
        log.warning("%s run loops that were forgotten are removed again", len(run_loop_ids))
        await memory.forget(owner, run_loop_ids, [])
    if by_owner:
        await memory.scrub_file()


async def _bring_back_of(
    journal: Journal,
    memory: LongTermMemory,
    owner: str,
    outlines: Iterable[Outline],
    journaled: dict[tuple[str, str], Outline],
) -> None:
    batch: list[Import] = []
    size = 0
    for each in outlines:
        try:
            run_loop = await memory.run_loop(each.id, owner=owner)
            restored = run_loop and await _import_of(
                journal, run_loop, is_here=each.key in journaled
            )
        except (ValueError, RondoError) as error:  # pydantic's errors are of this kind too
            log.warning("run loop %s is not brought back: %s", each.id, error)
            continue
        if not restored:
            continue
        batch.append(restored)
        size += len(restored.written)
        if len(batch) >= IMPORT_BATCH_LOOPS or size >= IMPORT_BATCH_BYTES:
            await _write(journal, owner, batch)
            batch, size = [], 0
    await _write(journal, owner, batch)


async def _import_of(journal: Journal, run_loop: RunLoop, *, is_here: bool) -> Import | None:
    read_at = journal.lost_words_at
    run_loop = settled(run_loop)
    state = await journal.replay(run_loop.id) if is_here else None
    if state is not None and not _has_grown_out_of(state, run_loop):
        return None
    body = RunLoopImported(run_loop=run_loop, source=SOURCE)
    return Import(run_loop.id, body, body.model_dump_json(), state, read_at=read_at)


def _has_grown_out_of(state: RunLoopState, run_loop: RunLoop) -> bool:
    here = closed_part(state)
    # What the ledger has besides may as well be older: half an iteration, begun anew since.
    later = last_moment(run_loop) > last_moment(here)
    return later and standing(here, run_loop, labels_may_change=False) == "extended"


async def _write(journal: Journal, owner: str, batch: list[Import]) -> None:
    if not batch:
        return
    written = await journal.imports.append(batch, owner=owner)
    log.warning("%s run loops were lost from the journal, and are back", len(written.states))
    for missed in written.missed:
        log.warning("run loop %s is not brought back: its id is taken", missed.run_loop_id)
