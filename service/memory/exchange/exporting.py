"""Export: the run loops of an owner as JSON Lines, oldest first, one after another."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from anyio import to_thread

from service.domain.errors import NotFoundError, StorageError
from service.domain.history.own_part import closed_part
from service.domain.run_loops import RunLoop
from service.memory.memory import Memory
from service.memory.run_loop_lines import line_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exporting:
    """What is to be exported."""

    memory: Memory
    owner: str
    since: datetime | None = None
    """Opened then or later."""
    until: datetime | None = None
    """Opened before then."""
    run_loop_id: str | None = None
    """Only this one."""

    async def count(self) -> int:
        """How many lines there are now.

        Raises:
            NotFoundError: the owner has no such run loop.
            StorageError: the journal cannot be read.
        """
        table = self.memory.journal.run_loops
        if self.run_loop_id is not None:
            await table.check_owner(self.run_loop_id, owner=self.owner)
        return await table.count(
            owner=self.owner, since=self.since, until=self.until, run_loop_id=self.run_loop_id
        )

    async def lines(self) -> AsyncGenerator[bytes]:
        """A line each, with its end; of an open loop what is done of it.

        A loop whose history cannot be read comes as long-term memory has it; where that has nothing
        either, a line with ``problem`` and ``id`` stands in its place.

        Raises:
            StorageError: the journal cannot be read.
        """
        after: tuple[int, str] | None = None
        while True:
            page = await self.memory.journal.run_loops.oldest(
                owner=self.owner,
                since=self.since,
                until=self.until,
                run_loop_id=self.run_loop_id,
                after=after,
            )
            if not page:
                return
            for _, run_loop_id in page:
                line = await self._line(run_loop_id)
                if line is not None:
                    yield line
            after = page[-1]

    async def _line(self, run_loop_id: str) -> bytes | None:
        try:
            run_loop = await self._read(run_loop_id)
        except NotFoundError:
            return None  # forgotten meanwhile
        except StorageError as error:
            log.error("run loop %s is not exported: %s", run_loop_id, error)
            problem = {"problem": error.problem().in_words(), "id": run_loop_id}
            return json.dumps(problem, ensure_ascii=False, separators=(", ", ":")).encode() + b"\n"
        return await to_thread.run_sync(line_of, run_loop)

    async def _read(self, run_loop_id: str) -> RunLoop:
        try:
            state = await self.memory.journal.replay(run_loop_id, owner=self.owner)
            return await to_thread.run_sync(closed_part, state)
        except StorageError:
            remembered = await self.memory.long_term.run_loop(run_loop_id, owner=self.owner)
            if remembered is None:
                raise
            return remembered
