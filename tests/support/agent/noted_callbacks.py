"""Callbacks that note what they are told."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel

from service.agent.callbacks import Callbacks
from service.domain.errors import Problem
from service.domain.history.events import ToolFinished, ToolStarted


class Notes:
    """Callbacks that note what they are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def callbacks(self, **more: Any) -> Callbacks:
        def on_tool_start(started: ToolStarted) -> None:
            self.told.append(f"start {started.name} {started.arguments}")

        async def on_tool_end(finished: ToolFinished) -> None:
            await anyio.lowlevel.checkpoint()
            self.told.append(f"end {finished.name}: {finished.content}")

        async def on_complete(words: str) -> None:
            self.told.append(f"complete: {words}")

        def on_retry(problem: Problem) -> None:
            self.told.append(f"retry: {problem.kind}")

        given: dict[str, Any] = {
            "on_text": self.told.append,
            "on_tool_start": on_tool_start,
            "on_tool_end": on_tool_end,
            "on_retry": on_retry,
            "on_complete": on_complete,
        }
        return Callbacks(**{**given, **more})
