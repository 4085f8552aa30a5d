"""What the built-in executors work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from service.domain.conversation.messages import ToolCall
from service.domain.history.events import UsagePurpose
from service.domain.history.state import RunLoopState
from service.domain.history.tool_events import Grant
from service.domain.run_loops import RunLoop
from service.llm.named_models import Models, NamedModel
from service.llm.spending.accounts import Account, Spending
from service.loop.hooks.hook_runner import HookRunner
from service.memory.protocol import RecallReader
from service.routing.open_loop_vectors import EmbedQueries
from service.tools.registry import ToolRegistry

Compaction = Literal["model", "extract", "off"]
"""Who summarises old rounds when the window nears its end: the model, or built-in rules; or
nobody, and what does not fit is left out."""


@dataclass(frozen=True, slots=True)
class ExecutorDeps:
    """What the built-in executors work with."""

    models: Models
    spending: Spending
    """Lets calls of the models through, and counts them."""
    tools: ToolRegistry
    memory: RecallReader
    memory_ready: Callable[[], Awaitable[None]]
    """Waits until memory can be searched by meaning, or for as long as that is worth waiting."""
    embed: EmbedQueries
    """Gives vectors of what people say."""
    embed_for_care: EmbedQueries
    """The same, but none unless it is the embedder to which what tells a person's limits, and what
    is personal, were fitted."""
    load: Callable[[str], Awaitable[RunLoop | None]]
    """Gives a run loop by its id, also one that has just ended; None when it is gone."""
    remember: Callable[[RunLoopState], None]
    """Has what is done of a run loop archived soon, though it is at work."""
    remembered: Callable[[], Awaitable[object]]
    """Waits until long-term memory has all that it was handed."""
    waits_for_person: Callable[[RunLoopState, ToolCall], bool]
    """Whether a call needs a person's yes or answer, and so cannot begin by itself."""
    allowed: Callable[[RunLoopState, ToolCall], frozenset[str] | None]
    """What a call without an answer of its own may be about, see `ApprovalPolicy.allowed`."""
    granted: Callable[[RunLoopState, ToolCall, str | None], Grant] = lambda *call: Grant(
        kind="always"
    )
    """By which earlier yes a call runs, by what it is about."""
    rule_of: Callable[[ToolCall], str | None] = lambda call: None
    """What a yes to a call covers when it is remembered, see `ApprovalPolicy.scope`."""
    begins_early: bool = True
    """Whether calls may begin while the answer still arrives, before any brain has seen them."""
    hooks: HookRunner = field(default_factory=HookRunner)
    """Custom code around what is done."""
    instructions: str = ""
    replaces_instructions: bool = False
    """Whether these are all that the model is told of itself; else they are added to the others."""
    enhance_prompt: str = ""
    """With what the model is asked to look over its answer; empty: with the built-in words."""
    recall_tokens: int = 800
    compaction: Compaction = "model"
    archive_seconds: float = 5.0
    """How long a summary waits for long-term memory to have what it stands for."""

    def model(self, state: RunLoopState) -> NamedModel:
        """The model that a loop's next call asks."""
        return self.models.of(state.next_model)

    def account(self, state: RunLoopState, purpose: UsagePurpose) -> Account:
        """By what a loop's calls are let through, and counted."""
        return self.spending.account(owner=state.owner, purpose=purpose, run_loop_id=state.id)
