from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from service.domain.conversation.messages import ToolCall
from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tools.approval import ApprovalMode, ApprovalPolicy
from service.tools.builtins.ask_user import ask_user
from service.tools.builtins.run_script import run_script_tool
from service.tools.decorator import tool
from service.tools.protocol import Tool
from tests.support.tools.tool_calls import call_of, registry_of


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


@tool()
def pay(amount: float) -> str:
    """Pay."""
    return f"{amount} paid"


@tool(needs_approval=True, scope=lambda given: str(given["room"]))
def clean(room: str) -> None:
    """Clean."""


REGISTRY = registry_of(free, guarded, Broken())


def test_by_default_each_tool_says_for_itself() -> None:
    policy = ApprovalPolicy()
    assert not policy.needs_approval(call_of("free"), REGISTRY)
    assert policy.needs_approval(call_of("guarded"), REGISTRY)


def test_always_and_never_do_not_go_by_what_a_tool_says() -> None:
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


def test_a_tool_can_have_a_mode_of_its_own() -> None:
    policy = ApprovalPolicy(mode="always", per_tool={"guarded": "never", "free": "tool-declared"})
    assert not policy.needs_approval(call_of("guarded"), REGISTRY)
    assert not policy.needs_approval(call_of("free"), REGISTRY)
    assert policy.needs_approval(call_of("broken"), REGISTRY)


@pytest.mark.parametrize("mode", ["tool-declared", "never"])
def test_a_rule_can_ask_for_more_but_not_for_less(mode: ApprovalMode) -> None:
    policy = ApprovalPolicy(mode, rule=lambda call, tool: "danger" in call.arguments)
    assert policy.needs_approval(call_of("free", what="danger"), REGISTRY)
    assert not policy.needs_approval(call_of("free", what="play"), REGISTRY)
    asks = policy.needs_approval(call_of("guarded", what="play"), REGISTRY)
    assert asks is (mode == "tool-declared")


def test_a_predicate_looks_at_the_arguments_of_one_tool() -> None:
    policy = ApprovalPolicy(when={"pay": lambda arguments: arguments["amount"] > 100})
    registry = registry_of(pay, free)
    assert policy.needs_approval(call_of("pay", amount=101), registry)
    assert not policy.needs_approval(call_of("pay", amount=100), registry)
    assert not policy.needs_approval(call_of("free", amount=101), registry)


@pytest.mark.parametrize("arguments", ["{}", "", "null", "[101]", '{"amount": "12"}', '{"amount'])
def test_arguments_that_a_predicate_cannot_judge_need_approval(arguments: str) -> None:
    policy = ApprovalPolicy(when={"pay": lambda arguments: arguments["amount"] > 100})
    call = ToolCall(id="c", name="pay", arguments=arguments)
    assert policy.needs_approval(call, registry_of(pay))


def test_what_the_model_asks_a_person_is_not_asked_for_as_well() -> None:
    call = call_of("ask_user", question="Tea?")
    assert not ApprovalPolicy(mode="always").needs_approval(call, registry_of(ask_user))


def test_an_approval_that_fails_open_a_rule_without_a_clear_answer_asks() -> None:
    def failing(call: ToolCall, tool: Tool) -> bool:
        raise KeyError(call.name)

    def vague(call: ToolCall, tool: Tool) -> bool:
        return cast(bool, None)

    for rule in (failing, vague):
        assert ApprovalPolicy(rule=rule).needs_approval(call_of("free"), REGISTRY)


# --- what is remembered


def test_a_remembered_yes_covers_the_tool_and_no_other() -> None:
    policy, registry = ApprovalPolicy(), registry_of(guarded, clean)
    assert policy.scope(call_of("guarded"), registry) == "guarded"
    assert not policy.needs_approval(call_of("guarded"), registry, remembered={"guarded"})
    assert policy.needs_approval(call_of("guarded"), registry, remembered={"guarded too", "clean"})


def test_a_tool_can_narrow_down_what_a_yes_covers() -> None:
    policy, registry = ApprovalPolicy(), registry_of(clean)
    kitchen = call_of("clean", room="kitchen")
    scope = policy.scope(kitchen, registry)
    assert scope == "clean kitchen"
    assert not policy.needs_approval(kitchen, registry, remembered={scope})
    assert policy.needs_approval(call_of("clean", room="bath"), registry, remembered={scope})
    assert policy.needs_approval(kitchen, registry, remembered={"clean"}), "it says less than that"


def test_a_remembered_yes_counts_where_a_rule_asks() -> None:
    policy = ApprovalPolicy(rule=lambda call, tool: True)
    assert not policy.needs_approval(call_of("free"), REGISTRY, remembered={"free"})


@pytest.mark.parametrize("mode", ["always", "nevr"])
def test_where_each_call_is_asked_for_no_yes_is_remembered(mode: str) -> None:
    policy = ApprovalPolicy(per_tool={"guarded": cast(ApprovalMode, mode)})
    assert policy.scope(call_of("guarded"), REGISTRY) is None
    assert policy.needs_approval(call_of("guarded"), REGISTRY, remembered={"guarded"})


@pytest.mark.parametrize("narrowed", [KeyError("room"), "", " ", 7])
def test_a_scope_that_cannot_be_told_is_not_remembered(narrowed: object) -> None:
    def scope(given: object) -> str:
        if isinstance(narrowed, Exception):
            raise narrowed
        return cast(str, narrowed)

    @tool(needs_approval=True, scope=scope)
    def paint() -> None:
        """Paint."""

    registry = registry_of(paint)
    assert ApprovalPolicy().scope(call_of("paint"), registry) is None
    everything = {"paint", "paint ", "paint  ", "paint 7"}
    assert ApprovalPolicy().needs_approval(call_of("paint"), registry, remembered=everything)


def test_a_policy_of_the_wrong_type_asks() -> None:
    policy = ApprovalPolicy(per_tool=cast(dict[str, ApprovalMode], None))
    assert policy.needs_approval(call_of("free"), REGISTRY)
    assert policy.scope(call_of("guarded"), REGISTRY) is None
    unreadable = cast(frozenset[str], 7)
    assert ApprovalPolicy().needs_approval(call_of("guarded"), REGISTRY, remembered=unreadable)


def test_a_tool_that_is_misspelt_in_the_policy_is_told(caplog: pytest.LogCaptureFixture) -> None:
    policy = ApprovalPolicy(per_tool={"gaurded": "always"}, when={"free": lambda _: True})
    policy.warn_of_unknown_tools(REGISTRY)
    (record,) = caplog.records
    assert "`gaurded`" in record.getMessage()
    assert "Did you mean `guarded`?" in record.getMessage()


def test_a_yes_to_a_script_ends_when_its_words_change(tmp_path: Path) -> None:
    script = tmp_path / "备份 all.sh"
    script.write_text("echo one")
    registry = registry_of(run_script_tool(tmp_path))
    policy, call = ApprovalPolicy(), call_of("run_script", name="备份 all.sh")
    scope = policy.scope(call, registry)
    assert scope is not None
    assert scope.startswith("run_script 备份 all.sh sha256:")
    assert not policy.needs_approval(call, registry, remembered={scope})
    other = call_of("run_script", name="备份 all.sh", arguments=["--dry"])
    assert not policy.needs_approval(other, registry, remembered={scope})
    script.write_text("rm -rf /")
    assert policy.needs_approval(call, registry, remembered={scope})
    script.unlink()
    assert policy.needs_approval(call, registry, remembered={scope})
    assert policy.scope(call, registry) is None
