"""What a call of the model begins with: who it is, and what its owner wants of it.

It stays the same from call to call of a loop, so that endpoints can cache it.
"""

from __future__ import annotations

from datetime import datetime

from service.domain.conversation.instructions import LastAnswerReason
from service.domain.conversation.messages import Message
from service.domain.history.state import RunLoopState
from service.llm.abilities import size_of
from service.llm.protocol import LLM
from service.loop.context.small_model_prompt import SCRIPTS, small_opening, spoken
from service.loop.executor_deps import ExecutorDeps

PERSONA = (
    "You are Rondo, a personal assistant with a long memory. Answer in the language of the"
    " person you talk to, briefly and truthfully. Use a tool when it helps; never invent what a"
    " tool or your memory would have to tell. When you do not know, say so."
)
_LAST_ANSWER: dict[LastAnswerReason, str] = {
    "iterations": "All steps that you may take are used up, and",
    "failures": "Your tool calls failed again and again, and",
    "repetition": "The same tool call came to the same result again and again, and",
}
_WITHOUT_TOOLS = (
    "no more tool calls are possible now. Answer with what you have found so far, and say openly"
    " what is missing."
)


def opening_of(
    deps: ExecutorDeps,
    state: RunLoopState,
    llm: LLM,
    *,
    personal: bool = True,
    last_answer: LastAnswerReason | None = None,
) -> list[Message]:
    """What the next call of a run loop begins with.

    Args:
        deps: what the agent works with.
        state: the run loop.
        llm: who is asked.
        personal: whether the person speaks of their own life.
        last_answer: why this is the last call, without tools; None when it is not.
    """
    size = size_of(llm)
    if size != "large":
        return small_opening(
            size,
            spoken(state),
            instructions=deps.instructions,
            replaces=deps.replaces_instructions,
            also=last_words(last_answer),
            personal=personal,
        )
    return [
        system_message(
            state.created_at,
            instructions=deps.instructions,
            replaces=deps.replaces_instructions,
            last_answer=last_answer,
        )
    ]


def all_openings(llm: LLM, *, instructions: str, replaces: bool) -> list[list[Message]]:
    """All that calls of a model can begin with, but for the day; see `system_message`."""
    size = size_of(llm)
    if size != "large":
        return [
            small_opening(size, script, instructions=instructions, replaces=replaces)
            for script in SCRIPTS
        ]
    return [[system_message(None, instructions=instructions, replaces=replaces)]]


def system_message(
    began: datetime | None,
    *,
    instructions: str = "",
    replaces: bool = False,
    last_answer: LastAnswerReason | None = None,
) -> Message:
    """The system message: the same for all run loops of a day, so that endpoints can cache it.

    Args:
        began: when the conversation began; None: how all conversations begin, of whatever day.
        instructions: what the owner wants of it.
        replaces: whether they are all there is; else they are added to the built-in ones.
        last_answer: why this is the last call, without tools; None when it is not. The model is
            told so whoever has written the rest.
    """
    parts = [instructions] if replaces else [PERSONA, instructions]
    if not replaces and began is not None:
        parts.append(f"This conversation began on {began.astimezone():%A, %Y-%m-%d}.")
    return Message.system("\n\n".join(filter(None, (*parts, last_words(last_answer)))))


def last_words(reason: LastAnswerReason | None) -> str:
    """What tells a model that it can call no tools any more, and why; empty for no reason."""
    return "" if reason is None else f"{_LAST_ANSWER[reason]} {_WITHOUT_TOOLS}"
