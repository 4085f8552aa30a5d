"""``/v1/memory``: searching long-term memory, reading around a hit, how much there is in it, its
index, its notes, and forgetting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Response

from service.domain.anchors import AnchorRef, ExpandedContext, MemoryNote, SearchResult
from service.domain.forgetting_terms import (
    ForgetConflictError,
    ForgetPreview,
    ForgetReceipt,
    ForgetRequest,
)
from service.domain.search_checks import SearchCheck
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.server.problems import problem_response
from service.server.security.bearer_auth import Owner
from service.wire.memory_bodies import (
    AnchorObject,
    Consolidation,
    ExpandedWindows,
    ExpandRequest,
    FactKept,
    FactList,
    ForgetBody,
    ForgetProblem,
    ForgetReceipts,
    IndexInfo,
    IndexProgress,
    NoteList,
    ReindexRequest,
    ReindexStarted,
    RememberRequest,
    SearchCheckRequest,
    SearchRequest,
    Stats,
)

if TYPE_CHECKING:
    from service.agent.agent import Agent
    from service.agent.consolidation.consolidation_worker import ConsolidationStatus
    from service.memory.protocol import IndexStats, Progress

router = APIRouter(prefix="/v1/memory", tags=["memory"], route_class=JSONRoute)


@router.post("/search")
async def search(request: SearchRequest, daemon: TheDaemon, owner: Owner) -> SearchResult:
    """Find what was said, thought and done, by words and by meaning, best first."""
    memory = (await daemon.agent()).memory.long_term
    from service.memory.protocol import SearchFilters  # slow, but loaded once there is an agent

    return await memory.search(
        request.query,
        owner=owner,
        limit=request.limit,
        max_tokens=request.max_tokens,
        filters=SearchFilters(
            types=None if request.types is None else frozenset(request.types),
            since=request.since,
            until=request.until,
            run_loop_id=request.run_loop_id,
            without_run_loop_id=request.without_run_loop_id,
            metadata=request.metadata,
        ),
        explain=request.explain,
        rerank=request.rerank,
        fold=request.fold,
    )


@router.get("/stats")
async def stats(daemon: TheDaemon, owner: Owner) -> Stats:
    """How much is remembered, and how much of it is still to be embedded."""
    agent = await daemon.agent()
    long_term = await agent.memory.long_term.stats()
    notes, notes_problem = await _counted_notes(agent, owner)
    return Stats(
        run_loops=long_term.run_loops,
        segments=long_term.segments,
        embedded=long_term.embedded,
        pending=long_term.pending,
        embedder=long_term.embedder,
        problem=long_term.problem,
        notice=long_term.notice,
        notes=notes,
        notes_problem=notes_problem,
        index=_index_info(long_term.index),
        progress=_index_progress(long_term.index.progress if long_term.index else None),
        readers=agent.memory.journal.changes.lags(),
    )


@router.post("/expand")
async def expand(
    request: ExpandRequest, daemon: TheDaemon, owner: Owner
) -> ExpandedContext | ExpandedWindows:
    """What stands at an anchor, and around it. For `anchors`: an object with `windows`."""
    memory = (await daemon.agent()).memory.long_term
    from service.memory.search.expansion import (
        as_context,  # slow, but loaded once there is an agent
    )

    anchors = [request.anchor] if request.anchor is not None else request.anchors or []
    windows = await memory.expand_many(
        [_ref(anchor) for anchor in anchors],
        owner=owner,
        before=request.before,
        after=request.after,
        unit=request.unit,
        max_tokens=request.max_tokens,
    )
    if request.anchor is not None:
        return as_context(windows[0])
    return ExpandedWindows(windows=windows)


@router.get("/expand")
async def expand_by_link(
    daemon: TheDaemon,
    owner: Owner,
    anchor: Annotated[str, Query(description="In its short form.", max_length=1000)],
    before: Annotated[int, Query(ge=0, le=1000)] = 3,
    after: Annotated[int, Query(ge=0, le=1000)] = 3,
) -> ExpandedContext | ExpandedWindows:
    """The same of one anchor, at an address of its own: where a citation's `href` leads."""
    request = ExpandRequest(anchor=anchor, before=before, after=after)
    return await expand(request, daemon, owner)


def _ref(anchor: str | AnchorObject) -> AnchorRef:
    if isinstance(anchor, str):
        return AnchorRef.parse(anchor)
    return AnchorRef(anchor.run_loop_id, anchor.iteration_index, anchor.segment_index)


@router.post("/check")
async def check(
    daemon: TheDaemon, owner: Owner, request: SearchCheckRequest | None = None
) -> SearchCheck:
    """Ask memory for what it holds, and tell whether it finds less than at the last check."""
    agent = await daemon.agent()
    from service.memory.search_check import SearchChecker  # slow, but loaded once there is an agent

    questions = (request or SearchCheckRequest()).questions
    return await SearchChecker(agent.memory, owner=owner).check(questions)


@router.post("/reindex", status_code=202)
async def reindex(
    daemon: TheDaemon, owner: Owner, request: ReindexRequest | None = None
) -> ReindexStarted:
    """Build the index of the configured embedder beside the old one, in the background."""
    memory = (await daemon.agent()).memory.long_term
    notice = await memory.index.reindex(force=request is not None and request.force)
    return ReindexStarted(started=notice is None, notice=notice)


def _index_info(index: IndexStats | None) -> IndexInfo | None:
    """The index as the wire has it."""
    if index is None:
        return None
    return IndexInfo(
        place=index.place,
        generation=index.generation,
        embedder=index.built_by,
        configured=index.configured,
        indexed=index.indexed,
        scrub_pending=index.scrub_pending,
        damaged=list(index.damaged),
        notice=index.notice,
    )


def _index_progress(progress: Progress | None) -> IndexProgress | None:
    """Progress as the wire has it."""
    if progress is None:
        return None
    return IndexProgress(
        doing=progress.doing,
        done=progress.done,
        total=progress.total,
        rate=round(progress.rate, 1),
        eta_seconds=None if progress.eta_seconds is None else round(progress.eta_seconds, 1),
    )


@router.get("/notes")
async def notes(daemon: TheDaemon, owner: Owner) -> NoteList:
    """All notes with the anchors that each sentence rests on, and how their writing gets on."""
    agent = await daemon.agent()
    note_list = await anyio.to_thread.run_sync(agent.memory.long_term.notes.of, owner)
    return NoteList(
        notes=note_list, consolidation=_consolidation(await agent.consolidation_status())
    )


@router.delete("/notes/{note_id}")
async def remove(note_id: str, daemon: TheDaemon, owner: Owner) -> MemoryNote:
    """Delete a note. What it was written from stays, and is not read for notes again."""
    note_store = (await daemon.agent()).memory.long_term.notes
    return await anyio.to_thread.run_sync(lambda: note_store.remove(note_id, owner=owner))


@router.get("/facts")
async def facts(daemon: TheDaemon, owner: Owner) -> FactList:
    """What you asked to be remembered, the newest first, with what was corrected since."""
    return FactList(facts=await (await daemon.agent()).memory.long_term.facts(owner=owner))


@router.post("/facts", status_code=201)
async def remember(request: RememberRequest, daemon: TheDaemon, owner: Owner) -> FactKept:
    """Remember a fact for good; what it corrects stays, and is marked."""
    memory = (await daemon.agent()).memory
    from service.memory.exchange.fact_keeping import keep_fact  # slow, but loaded with an agent

    replaces = None if request.replaces is None else AnchorRef.parse(request.replaces)
    anchor = await keep_fact(memory, request.fact, owner=owner, replaces=replaces)
    return FactKept(anchor=str(anchor))


async def _counted_notes(agent: Agent, owner: str) -> tuple[int, str | None]:
    """How many notes an owner has, and why none are written at present, if something hinders it."""
    note_list = await anyio.to_thread.run_sync(agent.memory.long_term.notes.of, owner)
    status = await agent.consolidation_status()
    return len(note_list), None if status is None else status.problem


def _consolidation(status: ConsolidationStatus | None) -> Consolidation:
    if status is None:
        return Consolidation(enabled=False, state="off")
    return Consolidation(
        enabled=True,
        state=status.state,
        tokens_today=status.tokens_today,
        max_tokens_per_day=status.max_tokens_per_day,
        sentences_written=status.sentences_written,
        sentences_dropped=status.sentences_dropped,
        passages_set_aside=status.passages_set_aside,
        last_written_at=status.last_written_at,
        problem=status.problem,
    )


@router.post(
    "/forget",
    response_model=ForgetPreview | ForgetReceipt,
    responses={409: {"model": ForgetProblem, "description": "It is not as it was previewed"}},
)
async def forget(
    body: ForgetBody, daemon: TheDaemon, owner: Owner
) -> ForgetPreview | ForgetReceipt | Response:
    """Without `confirm`: show what would be forgotten. With it: forget just that, for good.

    A receipt whose `pending` is not empty is finished in the background; ask for it again.
    """
    agent = await daemon.agent()
    request = ForgetRequest(
        run_loop_ids=tuple(body.run_loop_ids),
        anchors=tuple(map(AnchorRef.parse, body.anchors)),
        since=body.since,
        until=body.until,
        query=body.query,
        limit=body.limit,
        exact=body.exact,
        everything=body.all,
        with_answers=body.with_answers,
        with_all_that_saw=body.with_all_that_saw,
        stop=body.stop,
    )
    if body.confirm is None:
        return await agent.preview_forgetting(request, owner=owner)
    try:
        return await agent.forget(request, body.confirm, owner=owner)
    except ForgetConflictError as error:
        preview = error.preview.model_dump(mode="json")
        return problem_response(error.problem(), preview=preview)


@router.get("/forget/receipts")
async def receipts(
    daemon: TheDaemon, owner: Owner, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> ForgetReceipts:
    """What has been forgotten so far, newest first."""
    forgetting = (await daemon.agent()).memory.forgetting
    return ForgetReceipts(receipts=await forgetting.receipts(owner=owner, limit=limit))
