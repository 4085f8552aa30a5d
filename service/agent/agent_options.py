"""How an agent behaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import ConfigurationError
from service.domain.spend import SpendCaps
from service.domain.usage import Prices
from service.llm.generate import Backoff
from service.llm.named_models import ANSWER_TOKENS
from service.loop.brain import Brain, Limits
from service.loop.custom_brain import check_brain
from service.loop.execution import Executor
from service.loop.executor_deps import Compaction
from service.loop.executors.custom_executors import check_executors
from service.loop.hooks.hooks import Hooks
from service.routing.routing_options import RouterOptions
from service.tools.approval import ApprovalPolicy
from service.tuning import MOVE_PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the agent waits for what it cannot hurry, in seconds."""

    storage_retry: float = 5.0
    """After the disk has refused: until it is asked again."""
    move: float = MOVE_PATIENCE_SECONDS
    """For a loop at work to come to its next step, where a message is to be moved there."""
    archive: float = 5.0
    """For long-term memory to have what a summary stands for, before the summary is used."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent behaves."""

    limits: Limits = field(default_factory=Limits)
    """How far a run loop may go by itself, and what it may use."""
    auto_enhance: bool = False
    """Whether the model looks over each answer once more, where an owner has not switched it."""
    auto_enhance_prompt: str = ""
    """With what it is asked to; empty: with the built-in words."""
    system_prompt: str = ""
    """What the model is told of its task and its manner."""
    system_prompt_mode: Literal["append", "replace"] = "append"
    """Whether it is added to the built-in one, or is all that the model is told of itself."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    linger_seconds: float = 900
    """How long a run loop that has answered waits for a follow-up before it completes."""
    recall_tokens: int = 800
    """How much of long-term memory the model is given unasked when a run loop begins or turns to
    another topic; three times as much in all. 0: nothing."""
    answer_tokens: int = ANSWER_TOKENS
    """Tokens kept free for an answer in the model's window."""
    max_retries: int = 3
    """How often a call of the model that has failed is made again, where that may help."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long it is waited before a call of the model is made again."""
    compaction: Compaction = "model"
    """Who summarises old rounds when the window nears its end; or that nobody does."""
    router: RouterOptions = field(default_factory=RouterOptions)
    """How a message without an id finds its loop."""
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    """Which tool calls wait for a person."""
    brain: Brain | None = None
    """Decides instead of the built-in one, where `create_agent` is given none."""
    executors: Mapping[InstructionKind, Executor] = field(default_factory=dict)
    """Do what the brain says, instead of the built-in ones; those given to `create_agent` go
    before them."""
    hooks: Sequence[Hooks] = ()
    """Your own code around what is done, in this order."""
    hook_timeout_seconds: float = 30
    """How long a hook, or a brain of yours, may take."""
    consolidation: ConsolidationOptions | None = None
    """When the model writes notes; None: never."""
    fallback: Sequence[str] = ()
    """The names of the models that are asked, in this order, while the default one is down."""
    prices: Prices | None = None
    """What the model costs; None: calls have no cost."""
    spend: SpendCaps = field(default_factory=SpendCaps)
    """What all calls of the models together may use in a day or a month."""
    waits: Waits = field(default_factory=Waits)
    """How long it waits for the disk, for loops at work, and for long-term memory."""

    def __post_init__(self) -> None:
        """Refuse what could not work.

        Raises:
            ConfigurationError: there is a budget in money, and no prices; nothing is to replace the
                built-in prompt; or the brain or an executor is none.
        """
        if self.system_prompt_mode == "replace" and not self.system_prompt.strip():
            raise ConfigurationError(
                "agent.system_prompt_mode is replace, but agent.system_prompt is empty",
                advice="Write agent.system_prompt, or set agent.system_prompt_mode to append.",
            )
        check_executors(self.executors)
        if self.brain is not None:
            check_brain(self.brain)
        if self.limits.budget_cost is not None and self.prices is None:
            raise ConfigurationError(
                "agent.budget_cost is set, but llm.prices are not: no call would cost anything",
                advice="Set llm.prices.input and llm.prices.output (per million tokens), or use"
                " agent.budget_tokens.",
            )
