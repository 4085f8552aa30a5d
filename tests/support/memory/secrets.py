"""Run loops whose words are rare enough to be searched for in the raw bytes of a data folder."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from service.domain.anchors import Anchor, SegmentType
from service.domain.conversation.messages import Message, TextPart, ThinkPart, ToolCall
from service.domain.forgetting_terms import ForgetReceipt, ForgetRequest
from service.domain.history.events import (
    EventBody,
    IterationStarted,
    MemoryRecalled,
    MessageCompleted,
    MessageReceived,
    Recollection,
    RouteDecided,
    RunLoopCompleted,
    RunLoopIdle,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.routes import Route, RouteCandidate
from service.memory.journal.inbox import InboxEntry
from service.memory.journal.standing_approvals import StandingApproval
from service.memory.memory import Memory
from service.memory.protocol import Embedder
from tests.support.memory.remembering import NOON, WordEmbedder


@asynccontextmanager
async def working_memory(folder: Path, embedder: Embedder | None = None) -> AsyncIterator[Memory]:
    """A memory at work, as in a daemon."""
    async with (
        Memory(folder, embedder or WordEmbedder()) as memory,
        anyio.create_task_group() as group,
    ):
        group.start_soon(memory.work)
        await memory.warmed_up()
        yield memory
        group.cancel_scope.cancel()


class Loop:
    """Writes a run loop, step by step, as the agent does."""

    def __init__(self, memory: Memory, run_loop_id: str, *, owner: str = "me") -> None:
        self.journal = memory.journal
        self.id = run_loop_id
        self.owner = owner
        self.iterations = 0
        self._messages = 0

    def goes_on_in(self, memory: Memory) -> None:
        """Write on in the same run loop of a memory that was opened later."""
        self.journal = memory.journal

    async def add(
        self, *bodies: EventBody, delivering: str | None = None, granting: str | None = None
    ) -> None:
        given = granting and StandingApproval(self.owner, granting, granting, NOON, self.id)
        await self.journal.append(
            self.id,
            *bodies,
            owner=self.owner,
            durable=True,
            delivering=delivering,
            granting=[given] if given else [],
        )

    async def say(
        self,
        words: str,
        *,
        predecessor_id: str | None = None,
        candidates: Iterable[RouteCandidate] = (),
        recalled: Iterable[Recollection] = (),
        **metadata: str,
    ) -> Loop:
        """A message comes in by the inbox and is observed."""
        self._messages += 1
        message_id = f"{self.id}-m{self._messages}"
        message = Message.user(words)
        entry = InboxEntry(message_id, self.owner, message, metadata=metadata)
        await self.journal.inbox.accept(
            entry, idempotency_key=f"key of {message_id}", request_hash="hash"
        )
        route = Route(
            decision="new",
            confidence=1.0,
            method="llm",
            reason=f"it speaks of {words}",
            candidates=tuple(candidates),
        )
        opening = RunLoopStarted(goal=words, predecessor_id=predecessor_id)
        pieces = tuple(recalled)
        await self.add(
            *([] if self.iterations else [opening]),
            MessageReceived(message_id=message_id, message=message, metadata=metadata),
            RouteDecided(message_id=message_id, route=route),
            delivering=message_id,
        )
        await self.add(
            *([MemoryRecalled(recollections=pieces)] if pieces else []),
            IterationStarted(index=self.iterations, message_ids=(message_id,)),
        )
        self.iterations += 1
        return self

    async def use(self, name: str, arguments: str, result: str, *, thought: str = "") -> Loop:
        """A tool is called, after a person's yes for good, and gives its result; then on."""
        call = ToolCall(id=f"call{self.iterations}", name=name, arguments=arguments)
        content = (ThinkPart(think=thought),) if thought else ()
        request = f"{self.id}-r{self.iterations}"
        await self.add(
            MessageCompleted(
                message=Message(role="assistant", content=content, tool_calls=(call,))
            ),
            Usage(model="m", input_tokens=10, output_tokens=5),
            InputRequired(
                request_id=request,
                kind="approve",
                prompt=f"May {name} run with {arguments}?",
                tool_calls=(call,),
                scopes={call.id: f"{name} {arguments}"},
            ),
            InputReceived(
                request_id=request,
                approved=True,
                scopes=(f"{name} {arguments}",),
                remember="always",
            ),
            ToolStarted(call_id=call.id, name=name, arguments=arguments, idempotency_key=call.id),
            ToolFinished(
                call_id=call.id,
                name=name,
                content=result[:2000],
                whole=result if len(result) > 2000 else None,
            ),
            IterationStarted(index=self.iterations, message_ids=()),
            granting=f"{name} {arguments}",
        )
        self.iterations += 1
        return self

    async def answer(
        self, words: str, *, thought: str = "", response_id: str | None = None
    ) -> Loop:
        """The model says something, and rests."""
        content = (*([ThinkPart(think=thought)] if thought else []), TextPart(text=words))
        message = Message(role="assistant", content=content)
        await self.add(MessageCompleted(message=message, response_id=response_id), RunLoopIdle())
        return self

    async def end(self) -> Loop:
        """It is completed."""
        await self.add(RunLoopCompleted())
        return self


async def record_exchange(
    memory: Memory, run_loop_id: str, question: str, answer: str, **more: str
) -> Loop:
    """Write a completed run loop of one question and its answer."""
    loop = Loop(memory, run_loop_id, **more)
    await loop.say(question)
    await loop.answer(answer)
    return await loop.end()


def piece(
    run_loop_id: str, iteration: int, content: str, kind: SegmentType = "user_message"
) -> Recollection:
    """What memory puts before a model."""
    anchor = Anchor(
        run_loop_id=run_loop_id,
        iteration_index=iteration,
        segment_index=0,
        segment_type=kind,
        timestamp=NOON,
    )
    return Recollection(anchor=anchor, content=content)


async def archived(memory: Memory) -> None:
    """Wait until all is archived and embedded."""
    with anyio.fail_after(60):
        assert await memory.archivist.drain() is None


async def forget(memory: Memory, request: ForgetRequest, *, owner: str = "me") -> ForgetReceipt:
    """Preview, confirm, and see it through to its end."""
    preview = await memory.forgetting.preview(request, owner=owner)
    assert preview.confirm is not None, preview.notice
    receipt = await memory.forgetting.forget(request, preview.confirm, owner=owner, stop=_nobody)
    return await finished(memory, receipt)


async def finished(memory: Memory, receipt: ForgetReceipt) -> ForgetReceipt:
    """The receipt once nothing is pending."""
    with anyio.fail_after(60):
        while True:
            receipts = await memory.forgetting.receipts(owner="me")
            receipts += await memory.forgetting.receipts(owner="you")
            current = next(each for each in receipts if each.id == receipt.id)
            if not current.pending:
                return current
            await anyio.sleep(0.02)


async def _nobody(run_loop_id: str) -> None:
    raise AssertionError("nothing was to be stopped")


def forms(words: str) -> dict[str, bytes]:
    """How words may stand in a file."""
    escaped = json.dumps(words)[1:-1]
    return {
        "UTF-8": words.encode(),
        "small letters": words.lower().encode(),
        "JSON": escaped.encode(),
        "JSON in JSON": json.dumps(escaped)[1:-1].encode(),
        "UTF-16": words.encode("utf-16-le"),
    }


def traces(folder: Path, *words: str | bytes) -> list[str]:
    """Where in the raw files of a folder any of these stand, in any form."""
    places = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        for each in words:
            ways = {"bytes": each} if isinstance(each, bytes) else forms(each)
            places += [
                f"{path.relative_to(folder)}: {each!r} as {way}"
                for way, encoded in ways.items()
                if _stands_in(encoded, data)
            ]
    return places


def _stands_in(needle: bytes, data: bytes) -> bool:
    """Whether bytes stand in others; digits within a hash or a time of day are no number."""
    if not needle.isdigit():
        return needle in data
    return re.search(rb"(?<![0-9a-f])%b(?![0-9a-f])" % needle, data) is not None
