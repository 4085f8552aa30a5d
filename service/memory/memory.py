"""The memory of Rondo as one thing: journal, short-term and long-term memory of a data folder.

One process owns a data folder. The journal is the truth; the rest follows its change feed:
short-term memory and the event feed within each commit, the archivist and the others one step
behind.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from service.config import MemorySettings
from service.domain.anchors import Anchor, AnchorRef, ExpandedContext, SearchResult
from service.domain.errors import NotFoundError, RondoError, StorageError
from service.domain.history.own_part import closed_part
from service.domain.history.state import RunLoopState
from service.domain.run_loops import RunLoop
from service.memory.archive.archivist import ArchivingHooks, Archivist
from service.memory.archive.journal_recovery import bring_back
from service.memory.file_changes import FOLDER as FILE_CHANGES
from service.memory.file_changes import FileChanges
from service.memory.forgetting.forgetting import Forgetting
from service.memory.forgetting.just_forgotten import JustForgotten
from service.memory.forgetting.kept_files import KeptFiles
from service.memory.journal import event_log
from service.memory.journal.change_feed import Change, Commit
from service.memory.journal.event_feed import Feed
from service.memory.journal.imported_loops import Import, Written
from service.memory.journal_migration import migrate
from service.memory.protocol import Embedder, SearchFilters, Unit
from service.memory.rerankers.protocol import Reranker
from service.memory.sent_files import FOLDER as SENT_FILES
from service.memory.sent_files import SentFiles
from service.memory.short_term import ShortTermMemory
from service.memory.stores import (
    JOURNAL_FILE,
    LEDGER_FILE,
    journal_of,
    long_term_memory,
    remembered_run_loops,
)
from service.storage.concurrency import run_to_end
from service.storage.data_folder import DataFolder

log = logging.getLogger(__name__)

_BETWEEN_TRIMS = 600.0  # seconds
_KEPT_CHANGES = 1000  # a power failure may take the ledger back to an older place
_LONGEST_WARM_UP = 30.0  # seconds; then words alone must do


class Memory:
    """All that is remembered, in one folder. It works inside ``async with``, beside `work`."""

    def __init__(
        self,
        folder: str | Path,
        embedder: Embedder | None = None,
        *,
        chroma: MemorySettings | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        """Name the parts; nothing is opened yet.

        Args:
            folder: where all of it is kept; made when the memory is opened.
            embedder: finds by meaning; None: search goes by words alone.
            chroma: where the vector index is; None: in the folder.
            reranker: may be asked to put hits into another order.
        """
        self._folder = DataFolder(Path(folder))
        folder = self._folder.path
        late = JustForgotten()
        self.journal = journal_of(folder, late)
        self.feed = Feed(self.journal)
        self.short_term = ShortTermMemory(self.journal, self.feed)
        self.long_term = long_term_memory(
            folder, embedder, chroma=chroma, reranker=reranker, live=self
        )
        self.archivist = Archivist(self.long_term, self.journal)
        self.file_changes = FileChanges(folder / FILE_CHANGES)
        """What files held before the assistant changed them."""
        self.sent_files = SentFiles(folder / SENT_FILES)
        """What persons have sent with messages."""
        self.files = KeptFiles(self.file_changes, self.sent_files)
        self.forgetting = Forgetting(self.journal, late, self.long_term, self.archivist, self.files)
        self._importing = anyio.Lock()  # what a later import has archived is not written over
        self._warm = anyio.Event()
        self._patience_ends = math.inf
        self._stack = AsyncExitStack()

    @property
    def folder(self) -> Path:
        """Where all of it is kept."""
        return self._folder.path

    async def __aenter__(self) -> Self:
        """Take the folder and open what is in it. Loads no model.

        Raises:
            DataFolderInUseError: another process owns the folder.
            StorageError: the folder cannot be used, or its journal is lost.
        """
        async with AsyncExitStack() as stack:
            self._folder.acquire()
            stack.callback(self._folder.release)
            stack.push_async_callback(self.journal.aclose)
            await anyio.to_thread.run_sync(self.journal.open, self._apply)
            stack.callback(self.short_term.close)
            await migrate(self.journal)
            await self._check_that_history_is_there()
            await self.long_term.start()
            stack.push_async_callback(self.long_term.aclose)
            await self.forgetting.catch_up()
            await self._open_archive()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the files and give the folder back."""
        await self._stack.aclose()

    async def search(
        self,
        query: str,
        *,
        owner: str = "me",
        limit: int = 8,
        max_tokens: int | None = None,
        filters: SearchFilters | None = None,
        explain: bool = False,
        rerank: bool = False,
    ) -> SearchResult:
        """Find what was said, best first; what is done of open run loops is found, too.

        See `LongTermMemory.search`.

        Raises:
            InvalidInputError: the query is blank, or a bound is below 1.
            StorageError: the files cannot be read.
        """
        await self._remember_now(self.short_term.states(owner))
        return await self.long_term.search(
            query,
            owner=owner,
            limit=limit,
            max_tokens=max_tokens,
            filters=filters,
            explain=explain,
            rerank=rerank,
        )

    async def expand(
        self,
        anchor: str | Anchor | AnchorRef,
        *,
        owner: str = "me",
        before: int = 3,
        after: int = 3,
        unit: Unit = "segments",
        max_tokens: int | None = None,
    ) -> ExpandedContext:
        """What stood around a segment. See `LongTermMemory.expand`.

        Args:
            anchor: of a hit; or its short form, as people paste it.
            owner: whose memory.
            before: how many units before it.
            after: how many units after it.
            unit: what is counted.
            max_tokens: bound of all of it, estimated.

        Raises:
            BadAnchorError: the text is no anchor.
            NotFoundError: this owner has no such segment.
            InvalidInputError: a bound is negative.
            StorageError: the files cannot be read.
        """
        if isinstance(anchor, str):
            anchor = AnchorRef.parse(anchor)
        ref = anchor.ref if isinstance(anchor, Anchor) else anchor
        return await self.long_term.expand(
            ref, owner=owner, before=before, after=after, unit=unit, max_tokens=max_tokens
        )

    async def work(self, hooks: ArchivingHooks | None = None) -> None:
        """Load what is heavy, finish what a crash left undone, and archive, until cancelled.

        Args:
            hooks: custom code around archiving.
        """
        self._patience_ends = anyio.current_time() + _LONGEST_WARM_UP
        async with anyio.create_task_group() as group:
            group.start_soon(self.archivist.run, hooks)
            group.start_soon(self._trim_changes)
            group.start_soon(self.forgetting.run)
            group.start_soon(self.sent_files.sweep_once, self.journal)
            await self.long_term.warm_up()
            await self.archivist.rid_of_lost_words()
            self._warm.set()

    async def remember_now(self, run_loop_id: str) -> None:
        """See `LiveRunLoops`. What goes wrong is in the log: the archivist tries again."""
        if (state := self.short_term.state(run_loop_id)) is not None:
            await self._remember_now([state])

    async def _remember_now(self, states: Iterable[RunLoopState]) -> None:
        done = [each for each in states if closed_part(each).iterations]
        read_at = self.journal.changes.last
        if done and (problem := await self.archivist.archive(done, read_at=read_at)):
            log.warning("what was just said is not remembered yet: %s", problem.in_words())

    async def warmed_up(self) -> None:
        """Wait, for a while from the start, until memory can be searched.

        The embedder is loaded then, or known to be missing, and nothing is found that was forgotten
        before.
        """
        with anyio.CancelScope(deadline=self._patience_ends):
            await self._warm.wait()

    def open_states(self, owner: str) -> Sequence[RunLoopState]:
        """The states of an owner's open loops."""
        return self.short_term.states(owner)

    async def load(self, run_loop_id: str) -> RunLoop | None:
        """A run loop as the journal has it; None when it is gone."""
        try:
            return (await self.journal.replay(run_loop_id)).run_loop()
        except NotFoundError:
            return None

    async def append_imports(self, imports: Sequence[Import], *, owner: str) -> Written:
        """Write run loops of a file, each id at most once, and archive them; nobody else is told.

        Waits for the archiving: whoever imports much is to be no faster than that.

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        return await run_to_end(self._append_imports(imports, owner))

    async def _append_imports(self, imports: Sequence[Import], owner: str) -> Written:
        keys = [(owner, each.run_loop_id) for each in imports]
        async with self._importing:
            with self.archivist.expecting(keys):
                written = await self.journal.imports.append(imports, owner=owner)
                await self.archivist.archive(written.states, read_at=written.change)
        return written

    async def _open_archive(self) -> None:
        """Let long-term memory take up its place in the change feed.

        Where the journal is another one than before, they are compared: what the ledger alone knows
        comes back first. Where that fails, the next start tries again.
        """
        in_step = await self.archivist.is_in_step()
        is_back = in_step or await self._bring_back()
        self.archivist.open(rebuild=not in_step, keep_place=is_back)

    async def _bring_back(self) -> bool:
        try:
            await bring_back(self.journal, self.long_term)
        except RondoError as error:
            log.warning(
                "what was lost from the journal is not back: %s", error.problem().in_words()
            )
            return False
        return True

    async def _trim_changes(self) -> None:
        """Delete the changes that long-term memory has passed, now and then: nobody else keeps a
        place."""
        while True:
            passed = self.archivist.place - _KEPT_CHANGES
            try:
                while await self.journal.trim_changes(before=passed):
                    await anyio.lowlevel.checkpoint()
            except StorageError as error:
                log.warning("old changes are deleted later: %s", error.problem().in_words())
            await anyio.sleep(_BETWEEN_TRIMS)

    async def _check_that_history_is_there(self) -> None:
        """What long-term memory knows came from the journal: one without a past was lost.

        Asked before the ledger is opened, which empties one of an older schema.
        """
        if self.journal.last_seq:
            return
        folder = self._folder.path
        remembered = await anyio.to_thread.run_sync(remembered_run_loops, folder)
        if remembered:
            raise StorageError(
                f"{JOURNAL_FILE} in {folder} is missing or empty, but {LEDGER_FILE} knows"
                f" {remembered} run loops that were in it",
                title="The journal is lost",
                advice=f"Restore {JOURNAL_FILE} from a backup; or, to begin anew without this"
                f" history, move {LEDGER_FILE}* and chroma out of {folder}.",
            )

    def _apply(self, change: Change) -> None:
        """Within each commit: what is read after it must tell of it."""
        self.short_term.update(change)
        if isinstance(change, Commit) and event_log.log.isEnabledFor(logging.DEBUG):
            event_log.log_events(change.news)
