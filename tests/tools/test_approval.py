from __future__ import annotations

from typing import cast

import pytest

from service.domain.messages import ToolCall
from service.domain.tools import ToolContext, ToolDefinition, ToolEffect
from service.tools.approval import ApprovalMode, ApprovalPolicy
from service.tools.decorator import tool
from service.tools.protocol import Tool
from tests.tools.support import call_of, registry_of


@tool()
def free() -> None:
    """Do."""


@tool(needs_approval=True)
def guarded() -> None:
    """Do."""


class Broken:
    """A tool that cannot tell whether it needs approval."""

    definition = ToolDefinition(name="broken", description="Do.", parameters={})
    effect: ToolEffect = "read_only"
    timeout_seconds = 1.0

    @property
    def needs_approval(self) -> bool:
        raise OSError("disk gone")

    async def run(self, arguments: str, context: ToolContext) -> str:
        return ""


REGISTRY = registry_of(free, guarded, Broken())


def test_by_default_each_tool_says_for_itself() -> None:
    policy = ApprovalPolicy()
    assert not policy.needs_approval(call_of("free"), REGISTRY)
    assert policy.needs_approval(call_of("guarded"), REGISTRY)


def test_always_and_never_ask_no_tool() -> None:
    for name in ("free", "guarded", "broken", "unknown"):
        assert ApprovalPolicy(mode="always").needs_approval(call_of(name), REGISTRY)
        assert not ApprovalPolicy(mode="never").needs_approval(call_of(name), REGISTRY)


def test_a_tool_that_fails_to_say_needs_approval() -> None:
    assert ApprovalPolicy().needs_approval(call_of("broken"), REGISTRY)


@pytest.mark.parametrize("name", ["unknown", ""])
def test_a_tool_that_does_not_exist_asks_nobody(name: str) -> None:
    assert not ApprovalPolicy().needs_approval(call_of(name), REGISTRY)


def test_a_mode_that_does_not_exist_needs_approval() -> None:
    policy = ApprovalPolicy(mode=cast(ApprovalMode, "nevr"))
    assert policy.needs_approval(call_of("free"), REGISTRY)


def test_a_rule_can_ask_for_more_but_not_for_less() -> None:
    policy = ApprovalPolicy(rule=lambda call, tool: "danger" in call.arguments)
    assert policy.needs_approval(call_of("free", what="danger"), REGISTRY)
    assert not policy.needs_approval(call_of("free", what="play"), REGISTRY)
    assert policy.needs_approval(call_of("guarded", what="play"), REGISTRY)


def test_a_rule_that_fails_or_gives_no_clear_answer_needs_approval() -> None:
    def failing(call: ToolCall, tool: Tool) -> bool:
        raise KeyError(call.name)

    def vague(call: ToolCall, tool: Tool) -> bool:
        return cast(bool, None)

    for rule in (failing, vague):
        assert ApprovalPolicy(rule=rule).needs_approval(call_of("free"), REGISTRY)
