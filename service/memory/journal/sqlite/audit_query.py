"""The audit trail over the table of events: calls by an index of their own, and what is theirs.

What is asked of bodies is asked of their text: they begin with their type, and what is a text of
JSON within one has its quotes behind strokes, so that no words can pass for a field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import anyio
from anyio import to_thread

from service.domain.audit import AuditEntry, AuditGrant, AuditOutcome, AuditPage
from service.domain.errors import InvalidInputError
from service.domain.history.approval_rules import rule_in_words
from service.domain.history.events import IterationStarted
from service.domain.history.state import OUTCOME_UNKNOWN, RunLoopState
from service.domain.history.tool_events import Grant, ToolFinished, ToolStarted
from service.memory.journal.kept_words import SAME_AS, WENT_TO, Words
from service.storage.clock import millis_of, moment_of
from service.storage.sqlite_file import Row, SqliteFile, Where

_STARTED, _FINISHED = '{"type":"tool.started"', '{"type":"tool.finished"'
_HEARD, _ANSWERED = '{"type":"iteration.started"', '{"type":"input.received"'
_IS_CALL = f"substr(body, 1, {len(_STARTED)}) = '{_STARTED}'"
_IS_OWN = " AND ".join(
    f"substr(body, {len(_STARTED) + 1}, {len(name) + 4}) <> ',\"{name}\":'"
    for name in (SAME_AS, WENT_TO)
)
"""Not the copy in a fork, nor what was left where a message was moved away."""
SCHEMA = f"""
CREATE INDEX IF NOT EXISTS events_of_tools ON events (owner, at, seq) WHERE {_IS_CALL};
"""
_READ_ONLY = '"effect":"read_only"'
_CURSOR = re.compile(r"(\d{1,15})-(\d{1,18})")


class AuditQuery:
    """An `AuditTrail` over the journal's file."""

    def __init__(
        self,
        file: SqliteFile,
        words: Words,
        state: Callable[[str], RunLoopState | None],
        threads: anyio.CapacityLimiter,
    ) -> None:
        self._file = file
        self._words = words
        self._state = state
        self._threads = threads

    async def page(
        self,
        *,
        owner: str,
        since: datetime | None = None,
        until: datetime | None = None,
        tool: str | None = None,
        run_loop_id: str | None = None,
        with_read_only: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """See `AuditTrail.page`."""
        where = Where(f"owner = ? AND {_IS_CALL} AND {_IS_OWN}", owner)
        where.add("at >= ?", since and millis_of(since))
        where.add("at < ?", until and millis_of(until))
        where.add("run_loop_id = ?", run_loop_id)
        where.add("instr(body, ?) > 0", tool and _field("name", tool))
        if not with_read_only:
            where.add("instr(body, ?) = 0", _READ_ONLY)
        if cursor is not None:
            where.add("(at, seq) < (?, ?)", *_place(cursor))
        return await to_thread.run_sync(partial(self._page, where, limit), limiter=self._threads)

    def _page(self, where: Where, limit: int) -> AuditPage:
        rows = self._file.select(
            f"SELECT seq, owner, run_loop_id, at, body FROM events {where}"
            " ORDER BY at DESC, seq DESC LIMIT ?",
            (*where.values, limit + 1),
        )
        bodies = self._words.bodies((seq, owner, body) for seq, owner, _, _, body in rows[:limit])
        goals = self._goals([row[2] for row in rows])
        entries = tuple(
            self._entry(row, body, goals.get(row[2], ""))
            for row, body in zip(rows, bodies, strict=False)
            if isinstance(body, ToolStarted)
        )
        last = rows[limit - 1] if len(rows) > limit else None
        return AuditPage(entries=entries, next=None if last is None else f"{last[3]}-{last[0]}")

    def _goals(self, run_loop_ids: Sequence[str]) -> dict[str, str]:
        return dict(
            self._file.select(
                "SELECT id, goal FROM run_loops WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(run_loop_ids),),
            )
        )

    def _entry(self, row: Row, began: ToolStarted, goal: str) -> AuditEntry:
        seq, _, run_loop_id, at, _ = row
        finished_at, finished = self._result(run_loop_id, seq, began.call_id)
        return AuditEntry(
            seq=seq,
            at=moment_of(at),
            run_loop_id=run_loop_id,
            goal=goal,
            message_ids=self._heard(run_loop_id, seq),
            call_id=began.call_id,
            tool=began.name,
            arguments=began.arguments,
            about=began.about,
            effect=began.effect,
            idempotency_key=began.idempotency_key,
            grant=None
            if began.grant is None
            else self._grant(run_loop_id, seq, began, began.grant),
            outcome=self._outcome(run_loop_id, began, finished),
            finished_at=finished_at,
            result=None if finished is None else finished.content,
        )

    def _result(
        self, run_loop_id: str, seq: int, call_id: str
    ) -> tuple[datetime | None, ToolFinished | None]:
        """When a call came to its result, and to which, if it did: ids of calls come again."""
        rows = self._file.select(
            "SELECT seq, owner, at, body FROM events WHERE run_loop_id = ? AND seq > ?"
            " AND (instr(body, ?) = 1 OR instr(body, ?) = 1) AND instr(body, ?) > 0"
            " ORDER BY seq LIMIT 1",
            (run_loop_id, seq, _STARTED, _FINISHED, _field("call_id", call_id)),
        )
        for number, owner, at, body in rows:
            (read,) = self._words.bodies([(number, owner, body)])
            if isinstance(read, ToolFinished):
                return moment_of(at), read
        return None, None

    def _outcome(
        self, run_loop_id: str, began: ToolStarted, finished: ToolFinished | None
    ) -> AuditOutcome:
        if finished is None:
            state = self._state(run_loop_id)
            waiting = () if state is None else state.pending
            is_open = any(each.started and each.call.id == began.call_id for each in waiting)
            return "running" if is_open else "unknown"
        if finished.content == OUTCOME_UNKNOWN:
            return "unknown"
        return "failed" if finished.is_error else "done"

    def _grant(self, run_loop_id: str, seq: int, began: ToolStarted, grant: Grant) -> AuditGrant:
        given_at = None
        if grant.request_id is not None:
            rows = self._file.select(
                "SELECT at FROM events WHERE run_loop_id = ? AND seq < ? AND instr(body, ?) = 1"
                " AND instr(body, ?) > 0 ORDER BY seq DESC LIMIT 1",
                (run_loop_id, seq, _ANSWERED, _field("request_id", grant.request_id)),
            )
            given_at = moment_of(rows[0][0]) if rows else None
        rule = None
        if grant.kind in ("run_loop", "always"):
            rule = rule_in_words(began.about or began.name, began.name, grant.narrowed)
        told = {"kind": grant.kind, "request_id": grant.request_id, "narrowed": grant.narrowed}
        return AuditGrant.model_validate({**told, "given_at": given_at, "rule": rule})

    def _heard(self, run_loop_id: str, seq: int) -> tuple[str, ...]:
        """The messages that the model had heard last before an event."""
        rows = self._file.select(
            "SELECT seq, owner, body FROM events WHERE run_loop_id = ? AND seq < ?"
            " AND instr(body, ?) = 1 AND instr(body, ?) = 0 ORDER BY seq DESC LIMIT 1",
            (run_loop_id, seq, _HEARD, '"message_ids":[]'),
        )
        heard = [each for each in self._words.bodies(rows) if isinstance(each, IterationStarted)]
        return heard[0].message_ids or () if heard else ()


def _field(name: str, value: str) -> str:
    """A field of a body as it is written."""
    return f'"{name}":{json.dumps(value, ensure_ascii=False)}'


def _place(cursor: str) -> tuple[int, int]:
    """Time and number of the last call of a page.

    Raises:
        InvalidInputError: the cursor is none.
    """
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidInputError(
            f"{cursor[:80]!r} is no place in the audit trail",
            advice="Give `next` of the page before, as it is.",
        )
    return int(match[1]), int(match[2])
