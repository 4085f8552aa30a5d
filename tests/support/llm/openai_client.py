"""What the tests of the OpenAI-compatible client share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart
from service.domain.errors import LLMError
from service.llm.openai.openai_compatible import OpenAIModel
from tests.support.llm.endpoint import Handler, endpoint

HELLO = [Message.user("Hello")]
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}


def client(base_url: str, **options: Any) -> OpenAIModel:
    return OpenAIModel(model="m", base_url=base_url, api_key="k", **options)


async def collect(
    llm: OpenAIModel, messages: Sequence[Message] = HELLO, **options: Any
) -> list[StreamPart]:
    try:
        return [part async for part in llm.stream(messages, **options)]
    finally:
        await llm.aclose()


async def failure(handler: Handler, **options: Any) -> LLMError:
    async with endpoint(handler) as served:
        with pytest.raises(LLMError) as raised:
            await collect(client(served.base_url, **options))
    return raised.value
