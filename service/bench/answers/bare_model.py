"""The model by itself: the same weights, one line of instructions, the turns as plain chat."""

from __future__ import annotations

import time

from service.bench.answers.answer_dataset import Conversation
from service.bench.answers.heard_answer import Heard
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.errors import LLMError
from service.llm.generate import generate
from service.llm.protocol import LLM

PROMPT = "You are a helpful assistant."


async def converse_with_bare_model(llm: LLM, conversation: Conversation) -> list[Heard]:
    """Have a conversation with the model alone: it is shown all turns, also those of long before.

    A turn that fails is heard as such, and left out of what is shown later.
    """
    shown = [Message.system(PROMPT)]
    heard = []
    for turn in conversation.turns:
        asked = [*shown, Message.user(turn.say)]
        began = time.perf_counter()
        first: list[float] = []

        def note(part: StreamPart, began: float = began, first: list[float] = first) -> None:
            if isinstance(part, TextDelta) and part.text.strip() and not first:
                first.append(_since(began))

        try:
            answer, problem = (await generate(llm, asked, on_part=note)).message.text, ""
        except LLMError as error:
            answer, problem = "", error.problem().in_words()
        heard.append(
            Heard(
                answer=answer,
                whole_ms=_since(began),
                first_token_ms=first[0] if first else None,
                tools=None,
                problem=problem,
            )
        )
        if not problem:
            shown = [*asked, Message.assistant(answer)]
    return heard


def _since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 1)
