"""Twenty secrets of one to eight words, and run loops that quote them, whole or in part."""

from __future__ import annotations

from typing import NamedTuple

from service.domain.conversation.messages import Message, NotePart, ThinkPart, ToolCall
from service.domain.history.events import (
    CompactionFinished,
    IterationStarted,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    ToolFinished,
    ToolStarted,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.routes import Route, RouteCandidate
from service.memory.ledger.notes import NewSentence, NewSentences
from service.memory.memory import Memory
from tests.memory.test_forgetting_copies import fork
from tests.support.memory.secrets import (
    Loop,
    archived,
    piece,
    record_exchange,
)


class Secret(NamedTuple):
    words: str
    part: str
    """What of it is quoted alone."""


SECRETS = (
    Secret("The code of the shed's padlock is 4711.", "4711"),
    Secret("Zwibbelquast", "Zwibbelquast"),
    Secret("My PIN is 8302", "8302"),
    Secret("Call Plinkhorst.", "Plinkhorst"),
    Secret("Ombrelune owes me ninety crowns", "ninety crowns"),
    Secret("IBAN CH93-0076-2011", "CH93-0076-2011"),
    Secret("Grandmother keeps the vermilion sextant upstairs", "vermilion sextant"),
    Secret("It is what it is.", "It is what it is."),
    Secret("Krasvingel snores", "Krasvingel"),
    Secret("Our wedding: 14.08.2031, Dorvaal", "Dorvaal"),
    Secret("I was fired from Vuldrak & Sons", "Vuldrak"),
    Secret("swordfish-77", "swordfish-77"),
    Secret("My blood type: AB negative", "AB negative"),
    Secret("棚子挂锁的密码是5922。", "5922"),
    Secret("朱砂六分仪", "朱砂六分仪"),
    Secret("我母亲住在青瓷巷九号", "青瓷巷"),
    Secret("张三欠我八百块", "张三"),
    Secret("口令：芝麻开门", "芝麻开门"),
    Secret("我怕蜘蛛", "蜘蛛"),
    Secret("银行卡尾号6688", "6688"),
)
QUESTION = "What was it again?"


async def at_work(loop: Loop, secret: Secret) -> None:
    """A model that has seen a secret thinks, calls a tool, asks, and says it."""
    call = ToolCall(id="c1", name="jot", arguments=f'{{"text": "so: {secret.part}"}}')
    thought = ThinkPart(think=f"They mean {secret.part}.", signature="signed")
    request = f"{loop.id}-asked"
    await loop.add(
        MessageCompleted(
            message=Message(role="assistant", content=(thought,), tool_calls=(call,)),
            response_id="resp_1",
        ),
        InputRequired(
            request_id=request,
            kind="approve",
            prompt=f"May jot run with so: {secret.part}?",
            tool_calls=(call,),
            scopes={call.id: f"jot {secret.part}"},
        ),
        InputReceived(
            request_id=request, approved=True, scopes=(f"jot {secret.part}",), remember="always"
        ),
        ToolStarted(call_id=call.id, name="jot", arguments=call.arguments, idempotency_key=call.id),
        ToolFinished(call_id=call.id, name="jot", content=f"jotted <{secret.part}>"),
        IterationStarted(index=loop.iterations, message_ids=()),
        granting=f"jot {secret.part}",
    )
    loop.iterations += 1
    await loop.answer(f"You told me: {secret.words} So it is {secret.part}.")


async def shown(memory: Memory, run_loop_id: str, source: str, secret: Secret) -> Loop:
    """A run loop that memory gives a secret, and that quotes it everywhere."""
    loop = Loop(memory, run_loop_id)
    candidate = RouteCandidate(run_loop_id=source, goal=secret.words, probability=0.4)
    await loop.say(QUESTION, candidates=[candidate], recalled=[piece(source, 0, secret.words)])
    await at_work(loop, secret)
    return loop


async def join_for(loop: Loop, source: str, secret: Secret) -> None:
    """A message that the router tells of the secret's goal, and is answered shortly."""
    message_id = f"{loop.id}-joined"
    route = Route(
        decision="join",
        run_loop_id=loop.id,
        confidence=0.6,
        method="words",
        reason=f"it is close in meaning to “{secret.words}”",
        candidates=(RouteCandidate(run_loop_id=source, goal=secret.words, probability=0.3),),
    )
    await loop.add(
        MessageReceived(message_id=message_id, message=Message.user("Thank you.")),
        RouteDecided(message_id=message_id, route=route),
        IterationStarted(index=loop.iterations, message_ids=(message_id,)),
    )
    loop.iterations += 1
    await loop.answer("You are welcome.")


async def summarise(loop: Loop, secret: Secret) -> None:
    """All until now becomes a summary that a model writes."""
    state = await loop.journal.replay(loop.id)
    note = NotePart(note=f"[Summary]\nThe person told {secret.part}.")
    await loop.add(
        CompactionFinished(
            messages=len(state.history),
            replacement=(Message.user("(before)"), Message(role="assistant", content=(note,))),
            method="model",
            tokens_before=90,
            tokens_after=20,
        )
    )


async def note_from(memory: Memory, run_loop_id: str, secret: Secret, number: int) -> None:
    """Consolidation writes a sentence that cites the answer of a run loop."""
    unread = memory.long_term.notes.unread("me", limit=1000)
    cited = next(
        each
        for each in unread
        if each.segment.anchor.run_loop_id == run_loop_id
        and each.segment.anchor.segment_type == "response"
    )
    sentence = NewSentence(f"What was told is {secret.part}", (cited,))
    memory.long_term.notes.write(
        "me", [NewSentences("topic", f"subject {number}", (sentence,))], read=[]
    )


async def everything_said(memory: Memory) -> dict[str, set[tuple[str, int]]]:
    """All secrets, and for each of them where others tell it."""
    places: dict[str, set[tuple[str, int]]] = {}
    for number, secret in enumerate(SECRETS):
        source, loop_id = f"source{number}", f"loop{number}"
        await record_exchange(memory, source, secret.words, f"Noted: {secret.part}.")
        loop = await shown(memory, loop_id, source, secret)
        places[source] = {(loop_id, 0), (loop_id, 1)}
        if number % 4 == 0:  # somebody is shown what that one has said
            later = Loop(memory, f"later{number}")
            heard = piece(loop_id, 1, f"So it is {secret.part}.", "response")
            await later.say(QUESTION, recalled=[heard])
            await (await later.answer(f"As I heard: {secret.part}.")).end()
            places[source].add((later.id, 0))
        if number % 4 == 1:
            child = await fork(memory, loop_id, f"fork{number}")
            await (await child.say("Once more?")).answer(f"Again: {secret.part}")
            await child.end()
            places[source] |= {(child.id, 0), (child.id, 1), (child.id, 2)}
        if number % 4 == 2:
            searching = Loop(memory, f"search{number}")
            await searching.say("Look it up.")
            tool_output = f"Found in memory.\n\n[{source}:0.0] 2026, user_message\n> {secret.words}"
            await searching.use("memory_search", '{"query": "it"}', tool_output)
            await (await searching.answer(f"{secret.part} it is")).end()
            places[source].add((searching.id, 1))
        await join_for(loop, source, secret)
        await summarise(loop, secret)
        await loop.end()
    await archived(memory)
    for number, secret in enumerate(SECRETS):
        await note_from(memory, f"loop{number}", secret, number)
    return places
