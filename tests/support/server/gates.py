"""Work that a test lets go on when it wants to, and a model that says what it has heard."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, ToolCallDelta
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from tests.support.server.http_daemon import PatientLLM


class Work:
    """A tool that waits until it is let go; when it is stopped, it needs a moment to clean up."""

    definition = ToolDefinition(
        name="work", description="Works.", parameters={"type": "object", "properties": {}}
    )
    effect: ToolEffect = "side_effects"
    needs_approval = False
    timeout_seconds = 30.0

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_end = anyio.Event()
        self.cleaned_up = False

    async def run(self, arguments: str, context: ToolContext) -> str:
        self.begun.set()
        try:
            await self.may_end.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
                self.cleaned_up = True
        return "worked"


class Listener(PatientLLM):
    """Works first where it is told to, then quotes all that was said since its last whole answer.

    While it is `slow` it says two words and then waits for `release`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.slow = False

    async def stream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[StreamPart]:
        if messages[-1].role == "user" and messages[-1].text.startswith("Work"):
            yield ToolCallDelta(index=0, id=f"c{len(messages)}", name="work", arguments="{}")
            return
        heard: list[str] = []
        stopped = False
        for message in reversed(messages):
            is_whole = not message.tool_calls and not stopped
            stopped = "stopped" in message.notes and message.role == "user"
            if message.role == "assistant" and is_whole:
                break
            if message.role == "user":
                heard.insert(0, message.text)
        words = ["You ", "said ", " + ".join(heard)]
        for index, piece in enumerate(words):
            if index == 2 and self.slow and self._held is not None:
                await self._held.wait()
            yield TextDelta(piece)


class Launch:
    """A tool that a person must agree to."""

    definition = ToolDefinition(
        name="launch", description="Launches.", parameters={"type": "object", "properties": {}}
    )
    effect: ToolEffect = "side_effects"
    needs_approval = True
    timeout_seconds = 10.0

    async def run(self, arguments: str, context: ToolContext) -> str:
        return "launched"
