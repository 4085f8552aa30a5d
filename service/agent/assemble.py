"""From settings to an agent: the one place that knows which part goes where."""

from __future__ import annotations

from service.agent.agent import Agent, create_agent
from service.agent.llm import create_llm
from service.agent.options import AgentOptions
from service.config import Settings
from service.memory.embedders import create_embedder
from service.memory.memory import Memory
from service.tools.builtins import builtin_tools
from service.tools.registry import ToolRegistry


def agent_from_settings(settings: Settings) -> Agent:
    """An agent as configured. Cheap: nothing is opened or loaded before ``async with``.

    Raises:
        ConfigurationError: the settings do not fit together.
    """
    memory = Memory(settings.data_dir, create_embedder(settings))
    tools = ToolRegistry()
    for tool in builtin_tools(settings, memory.long_term).tools:
        tools.register(tool)
    return create_agent(create_llm(settings), tools, memory, options_from_settings(settings))


def options_from_settings(settings: Settings) -> AgentOptions:
    """How an agent behaves, as configured."""
    return AgentOptions(
        max_iterations=settings.agent.max_iterations,
        system_prompt=settings.agent.system_prompt,
        auto_classify=settings.agent.auto_classify,
        linger_seconds=settings.agent.linger_seconds,
        recall_tokens=settings.agent.recall_tokens,
        answer_tokens=settings.llm.max_tokens,
        max_retries=settings.llm.max_retries,
        router_uses_llm=settings.router.use_llm,
        router_timeout_seconds=settings.router.llm_timeout_seconds,
    )
