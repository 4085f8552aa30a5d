"""How an agent behaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.agent.executors import Executor
from service.domain.instructions import InstructionKind


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent behaves."""

    max_iterations: int = 10
    system_prompt: str = ""
    """Added to the built-in one."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    linger_seconds: float = 900
    recall_tokens: int = 800
    answer_tokens: int = 2048
    """Tokens kept free for an answer in the model's window."""
    max_retries: int = 3
    router_uses_llm: bool = True
    router_timeout_seconds: float = 15
    executors: Mapping[InstructionKind, Executor] = field(default_factory=dict)
    """Instead of the built-in ones."""
