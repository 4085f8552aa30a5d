"""Endpoints of both kinds that answer everything, and keep what they were sent."""

from __future__ import annotations

from typing import Any

from tests.support.llm.anthropic_endpoint import answer, playing_events
from tests.support.llm.endpoint import Call, Endpoint, Handler, chunk

USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}


def saying(words: str) -> Handler:
    """A chat completions endpoint that answers with these words."""

    async def handler(call: Call) -> None:
        await call.begin()
        for event in (chunk({"content": words}), chunk(finish="stop"), USAGE, "[DONE]"):
            await call.event(event)

    return handler


def saying_as_claude(words: str) -> Handler:
    """The same of Anthropic's kind."""
    return playing_events(*answer(words))


def refusing(status: str, words: str = "no") -> Handler:
    """An endpoint that answers with this status."""

    async def handler(call: Call) -> None:
        await call.reply(status, {"error": {"message": words}})

    return handler


def asked(served: Endpoint) -> list[dict[str, Any]]:
    """The bodies of the calls for an answer, in order."""
    return [call.body for call in served.calls if not call.path.startswith("/v1/models")]
