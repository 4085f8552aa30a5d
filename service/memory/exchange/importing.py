"""Import of run loops: the journal takes them in, many a commit.

An import can be broken off at any moment and begun anew: what is in is known by its id. Memory in
use is bounded by a batch, however long the file is.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from service.domain.errors import NotFoundError, RondoError
from service.domain.exchange import LISTED_PROBLEMS, ImportProblem, ImportReport
from service.domain.history.events import RunLoopImported
from service.domain.history.imported import Standing, standing, without_forgotten
from service.domain.history.own_part import closed_part
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.journal.imported_loops import Import
from service.memory.memory import Memory
from service.memory.memory_tuning import IMPORT_BATCH_BYTES, IMPORT_BATCH_LOOPS
from service.memory.run_loop_lines import BadLineError, Line, lines_of, parse

OWN = "rondo"
"""The source of files that Rondo has written itself."""
_TRIES = 3  # at a loop that changes while it is looked at
_FORGOTTEN_JUST_NOW = (
    "the run loop of that id was forgotten just now; import it anew to have it back"
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A line that holds a run loop, ready to be written."""

    line: int
    run_loop: RunLoop
    body: RunLoopImported
    written: str


class Importing:
    """One import: takes lines in, batch by batch, and counts what came of them."""

    def __init__(
        self,
        memory: Memory,
        *,
        owner: str,
        source: str = OWN,
        dry_run: bool = False,
        batch_loops: int = IMPORT_BATCH_LOOPS,
    ) -> None:
        """Name where it goes.

        Args:
            memory: a memory at work.
            owner: whose the loops will be.
            source: where the file came from; in files of others, conversations can be renamed.
            dry_run: look at everything, and write nothing.
            batch_loops: how many loops are written in one transaction, at most.
        """
        self._memory = memory
        self._owner = owner
        self._source = source
        self._dry_run = dry_run
        self._batch_loops = batch_loops
        self._begun = memory.forgetting.late.count
        self._counts: dict[Standing | None, int] = {}
        self._failed: list[ImportProblem] = []
        self._failures = 0
        self._threads = CapacityLimiter(1)  # those that are shared may be used up by tools

    def report(self) -> ImportReport:
        """What has come of it so far."""
        return ImportReport(
            imported=self._counts.get(None, 0),
            extended=self._counts.get("extended", 0),
            unchanged=self._counts.get("unchanged", 0),
            failures=self._failures,
            failed=tuple(self._failed),
            dry_run=self._dry_run,
        )

    async def take(self, chunks: AsyncIterable[bytes]) -> ImportReport:
        """Bring in all lines. What a batch has written stays, whatever comes after it.

        Raises:
            StorageError: the disk refuses; the batches before are in.
        """
        batch: list[Line] = []
        size = 0
        async for line in lines_of(chunks):
            batch.append(line)
            size += len(line.content or b"")
            if len(batch) >= self._batch_loops or size >= IMPORT_BATCH_BYTES:
                await self._take_batch(batch)
                batch, size = [], 0
        await self._take_batch(batch)
        return self.report()

    async def _take_batch(self, lines: Sequence[Line]) -> None:
        parsed = await to_thread.run_sync(self._parse, lines, limiter=self._threads)
        batch: dict[str, _Candidate] = {}
        for each in parsed:
            if isinstance(each, ImportProblem):
                self._fail(each)
                continue
            if each.run_loop.id in batch:  # twice in a file: the second one meets the first
                await self._bring_in(batch)
                batch = {}
            batch[each.run_loop.id] = each
        await self._bring_in(batch)

    def _parse(self, lines: Sequence[Line]) -> list[_Candidate | ImportProblem]:
        parsed: list[_Candidate | ImportProblem] = []
        for line in lines:
            try:
                run_loop = parse(line, owner=self._owner)
                body = RunLoopImported(run_loop=run_loop, source=self._source)
                written = body.model_dump_json()
            except BadLineError as error:
                problem = ImportProblem(
                    line=line.number, problem=str(error), run_loop_id=error.run_loop_id
                )
                parsed.append(problem)
            else:
                parsed.append(_Candidate(line.number, run_loop, body, written))
        return parsed

    async def _bring_in(self, batch: Mapping[str, _Candidate]) -> None:
        left = dict(batch)
        for _ in range(_TRIES):
            if not left:
                return
            imports = await self._decide(left)
            if self._dry_run:
                for each in imports:
                    self._count("extended" if each.grown_from else None)
                return
            written = await self._memory.append_imports(imports, owner=self._owner)
            missed = {each.run_loop_id for each in written.missed}
            for each in imports:
                if each.run_loop_id not in missed:
                    self._count("extended" if each.grown_from else None)
            left = {loop_id: batch[loop_id] for loop_id in missed}
        for candidate in left.values():
            self._refuse(
                candidate, "the run loop of that id here is being worked on; try again later"
            )

    async def _decide(self, batch: Mapping[str, _Candidate]) -> list[Import]:
        read_at = self._memory.journal.lost_words_at
        existing = await self._memory.journal.imports.existing(batch)
        late = self._memory.forgetting.late
        gone = late.were_forgotten(batch.keys() - existing.keys(), since=self._begun)
        imports: list[Import] = []
        for loop_id, candidate in batch.items():
            here = existing.get(loop_id)
            if loop_id in gone:
                self._refuse(candidate, _FORGOTTEN_JUST_NOW)
            elif here is None:
                imports.append(Import(loop_id, candidate.body, candidate.written, read_at=read_at))
            elif here.owner != self._owner:
                self._refuse(candidate, f"the id {loop_id!r} belongs to somebody else here")
            elif here.newest == candidate.written:
                self._count("unchanged")
            elif (grown := await self._meet(candidate)) is not None:
                body, written = _left_of(candidate, grown)
                imports.append(Import(loop_id, body, written, grown, read_at=read_at))
        return imports

    async def _meet(self, candidate: _Candidate) -> RunLoopState | None:
        """The loop that is here, where the one of the file has grown out of it."""
        run_loop = candidate.run_loop
        try:
            state = await self._memory.journal.replay(run_loop.id, owner=self._owner)
        except NotFoundError:
            self._refuse(candidate, _FORGOTTEN_JUST_NOW)
            return None
        except RondoError as error:
            self._refuse(candidate, error.problem().in_words())
            return None
        stands = standing(closed_part(state), run_loop, labels_may_change=self._source != OWN)
        if stands == "extended":
            return state
        if stands == "unchanged":
            self._count("unchanged")
        elif state.is_active:
            self._refuse(
                candidate, f"the run loop {run_loop.id!r} is at work here ({state.status})"
            )
        else:
            self._refuse(
                candidate,
                f"the id {run_loop.id!r} is that of a run loop with other words here, or with"
                " another goal or end",
            )
        return None

    def _count(self, standing_of_it: Standing | None) -> None:
        self._counts[standing_of_it] = self._counts.get(standing_of_it, 0) + 1

    def _refuse(self, candidate: _Candidate, words: str) -> None:
        self._fail(
            ImportProblem(line=candidate.line, problem=words, run_loop_id=candidate.run_loop.id)
        )

    def _fail(self, problem: ImportProblem) -> None:
        self._failures += 1
        if len(self._failed) < LISTED_PROBLEMS:
            self._failed.append(problem)


def _left_of(candidate: _Candidate, here: RunLoopState) -> tuple[RunLoopImported, str]:
    """What is written of a loop that has grown, also as JSON: nothing that was forgotten."""
    left = without_forgotten(closed_part(here), candidate.run_loop)
    if left == candidate.run_loop:
        return candidate.body, candidate.written
    body = candidate.body.model_copy(update={"run_loop": left})
    return body, body.model_dump_json()
