"""What the built-in executors work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from service.agent.hook_runner import HookRunner
from service.agent.llm.protocol import LLM
from service.agent.routing.vectors import EmbedQueries
from service.domain.messages import ToolCall
from service.domain.run_loops import RunLoop
from service.domain.state import RunLoopState
from service.domain.usage import Prices
from service.memory.protocol import MemoryReader
from service.tools.registry import ToolRegistry

Compaction = Literal["model", "extract", "off"]
"""Who summarises old rounds when the window nears its end: the model, or rules of the house; or
nobody, and what does not fit is left out."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What the built-in executors work with."""

    llm: LLM
    tools: ToolRegistry
    memory: MemoryReader
    memory_ready: Callable[[], Awaitable[None]]
    """Waits until memory can be searched by meaning, or for as long as that is worth waiting."""
    embed: EmbedQueries
    """Gives vectors of what people say."""
    load: Callable[[str], Awaitable[RunLoop | None]]
    """Gives a run loop by its id, also one that has just ended; None when it is gone."""
    remember: Callable[[RunLoop], None]
    """Hands what is done of a run loop to long-term memory."""
    remembered: Callable[[], Awaitable[object]]
    """Waits until long-term memory has all that it was handed."""
    waits_for_person: Callable[[RunLoopState, ToolCall], bool]
    """Whether a call needs a person's yes or answer, and so cannot begin by itself."""
    hooks: HookRunner = field(default_factory=HookRunner)
    """Code of the owner's own around what is done."""
    prices: Prices | None = None
    instructions: str = ""
    recall_tokens: int = 800
    answer_tokens: int = 2048
    max_retries: int = 3
    compaction: Compaction = "model"

    @property
    def window_tokens(self) -> int:
        """How long a call may be, less the answer: at least half of the model's window."""
        window = self.llm.context_tokens
        return max(window - self.answer_tokens, window // 2)
