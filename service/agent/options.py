"""How an agent behaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.agent.brain import Limits
from service.agent.consolidation.options import ConsolidationOptions
from service.agent.hooks import Hooks
from service.agent.loop import Executor
from service.agent.routing.options import RouterOptions
from service.agent.workbench import Compaction
from service.domain.errors import ConfigurationError
from service.domain.instructions import InstructionKind
from service.domain.usage import Prices
from service.tools.approval import ApprovalPolicy


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent behaves."""

    limits: Limits = field(default_factory=Limits)
    auto_enhance: bool = False
    """Whether the model looks over its first answer once more."""
    system_prompt: str = ""
    """Added to the built-in one."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    linger_seconds: float = 900
    recall_tokens: int = 800
    answer_tokens: int = 2048
    """Tokens kept free for an answer in the model's window."""
    max_retries: int = 3
    compaction: Compaction = "model"
    """Who summarises old rounds when the window nears its end; or that nobody does."""
    router: RouterOptions = field(default_factory=RouterOptions)
    """How a message without an id finds its loop."""
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    """Which tool calls wait for a person."""
    executors: Mapping[InstructionKind, Executor] = field(default_factory=dict)
    """Of the configuration: instead of the built-in ones."""
    hooks: Sequence[Hooks] = ()
    """Code of the owner's own around what is done, in this order."""
    hook_timeout_seconds: float = 30
    consolidation: ConsolidationOptions | None = None
    """When the model writes notes; None: never."""
    prices: Prices | None = None
    """What the model costs; None: calls have no cost."""

    def __post_init__(self) -> None:
        """Refuse a budget that nothing could ever use up.

        Raises:
            ConfigurationError: there is a budget in money, and no prices.
        """
        if self.limits.budget_cost is not None and self.prices is None:
            raise ConfigurationError(
                "agent.budget_cost is set, but llm.prices are not: no call would cost anything",
                advice="Set llm.prices.input and llm.prices.output (per million tokens), or use"
                " agent.budget_tokens.",
            )
