"""The answer of a small model, as a person hears it.

It begins as it was told to, if it was; what is said by reflex is asked about once more; and what
goes round in circles is cut off.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.errors import LLMStreamError
from service.llm.embedded.reflexes import asked_once_more, is_echo, is_refusal, may_become_reflex

Ask = Callable[[Sequence[Message]], AsyncGenerator[StreamPart]]

_GOES_ROUND = re.compile(r"([^\n]{6,80}?)\1{4}\Z")
_STOPS = " \t\n,.:;，。：；"


def beginning_of(messages: Sequence[Message]) -> str:
    """The beginning that the answer was given: the assistant's own words, where they come last.

    Empty for none.
    """
    last = messages[-1]
    return last.text if last.role == "assistant" and not last.tool_calls else ""


async def answered(ask: Ask, messages: Sequence[Message], *, to: str) -> AsyncGenerator[StreamPart]:
    """The answer, its beginning included.

    Where it is given by reflex, or nothing follows its beginning, it is the answer to being asked
    once more. Nothing is passed on while it may become that.

    Args:
        ask: asks the model.
        messages: the conversation.
        to: what the person said that it must not merely say again; empty where it may.
    """
    begun = beginning_of(messages)
    held: list[StreamPart] = [TextDelta(begun)] if begun else []
    words, is_held = "", True
    try:
        async with aclosing(_until_it_goes_round(ask(messages))) as parts:
            async for part in parts:
                if not is_held:
                    yield part
                    continue
                held.append(part)
                words = (words + (part.text if isinstance(part, TextDelta) else "")).lstrip(_STOPS)
                if is_refusal(words):
                    break
                if not may_become_reflex(words, to):
                    is_held = False
                    for each in held:
                        yield each
    except LLMStreamError:
        if words or not begun:
            raise
        # Nothing followed.
    else:
        if not is_held:
            return
        if not is_refusal(words) and not is_echo(words, to):
            for each in held:
                yield each
            return
    once_more = asked_once_more(messages)
    if begun:
        yield TextDelta(beginning_of(once_more))
    async with aclosing(_until_it_goes_round(ask(once_more))) as parts:
        async for part in parts:
            yield part


async def _until_it_goes_round(answer: AsyncGenerator[StreamPart]) -> AsyncGenerator[StreamPart]:
    """The answer, up to where it repeats a phrase: small models get caught in one."""
    said = ""
    async with aclosing(answer):
        async for part in answer:
            yield part
            if isinstance(part, TextDelta):
                said = (said + part.text)[-600:]
                if _GOES_ROUND.search(said):
                    return
