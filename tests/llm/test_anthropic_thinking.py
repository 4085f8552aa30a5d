"""The client of Anthropic's API and thinking: how it is asked for, and which thoughts go back."""

from __future__ import annotations

import pytest

from service.domain.conversation.messages import (
    Message,
    TextPart,
    ThinkPart,
    ToolCall,
    ToolResult,
)
from service.domain.errors import LLMStatusError
from tests.support.llm.anthropic_endpoint import (
    ADD,
    HELLO,
    Event,
    answer,
    assembled,
    client,
    collect,
    playing_events,
    sent,
    with_thinking,
    without_abilities,
)
from tests.support.llm.endpoint import Call, endpoint

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("tokens", "forms", "config", "max_tokens"),
    [
        (4000, ("adaptive",), {"type": "adaptive", "display": "summarized"}, 6048),
        (4000, ("adaptive", "enabled"), {"type": "adaptive", "display": "summarized"}, 6048),
        (4000, ("enabled", "disabled"), {"type": "enabled", "budget_tokens": 4000}, 6048),
        (4000, ("disabled",), None, 2048),
        (90_000, ("adaptive",), {"type": "adaptive", "display": "summarized"}, 64_000),
        (0, ("adaptive", "disabled"), {"type": "disabled"}, 2048),
        (0, ("adaptive", "between_tools"), {"type": "between_tools"}, 2048),
        (0, ("adaptive",), None, 2048 + 8192),
    ],
)
async def test_thinking_is_asked_for_in_the_form_that_the_model_takes(
    tokens: int, forms: tuple[str, ...], config: Event | None, max_tokens: int
) -> None:
    handler = with_thinking(playing_events(*answer("ok")), *forms, max_tokens=64_000)
    async with endpoint(handler) as served:
        llm = client(served.base_url, thinking_tokens=tokens)
        [part async for part in llm.stream(HELLO)]
        await collect(llm)
    assert [call.path for call in served.calls].count("/v1/models/claude-x") == 1
    for body in sent(served):
        assert (body.get("thinking"), body["max_tokens"]) == (config, max_tokens)


async def test_an_endpoint_that_tells_nothing_of_its_models_is_given_a_budget() -> None:
    async with endpoint(playing_events(*answer("ok"))) as served:
        await collect(client(served.base_url, thinking_tokens=2000))
    assert sent(served)[0]["thinking"] == {"type": "enabled", "budget_tokens": 2000}


async def test_a_model_that_is_told_not_to_think_is_not_sent_what_it_thought() -> None:
    thought = Message(
        role="assistant", content=(ThinkPart(think="hm", signature="c2ln"), TextPart(text="Hi"))
    )
    handler = with_thinking(playing_events(*answer("ok")), "adaptive", "disabled")
    async with endpoint(handler) as served:
        await collect(client(served.base_url), [*HELLO, thought, *HELLO])
    assert sent(served)[0]["messages"][1]["content"] == [{"type": "text", "text": "Hi"}]


async def test_a_turn_that_began_without_a_thought_goes_on_without_a_budget_for_one() -> None:
    call = ToolCall(id="c1", name="add", arguments="{}")
    turns = [
        *HELLO,
        Message.assistant("", (call,)),
        Message.tool(ToolResult(id="c1", content="2")),
    ]
    handler = with_thinking(playing_events(*answer("ok")), "enabled", "disabled")
    async with endpoint(handler) as served:
        llm = client(served.base_url, thinking_tokens=2000)
        [part async for part in llm.stream(turns, tools=[ADD])]
        await collect(llm, [*turns, Message.assistant("2"), *HELLO], tools=[ADD])
    begun, new = sent(served)
    assert (begun["thinking"], begun["max_tokens"]) == ({"type": "disabled"}, 2048)
    assert new["thinking"]["type"] == "enabled"


async def test_thoughts_that_no_longer_fit_the_conversation_are_left_out_from_then_on() -> None:
    refusal = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a"
        " different conversation."
    )

    async def handler(call: Call) -> None:
        kinds = {block["type"] for turn in call.body["messages"] for block in turn["content"]}
        signatures = str(call.body)
        if "thinking" in kinds and "b2xk" in signatures:
            error = {"type": "invalid_request_error", "message": refusal}
            await call.reply("400 Bad Request", {"type": "error", "error": error})
        else:
            await playing_events(*answer("ok"))(call)

    def thought(signature: str) -> Message:
        parts = (ThinkPart(think="hm", signature=signature), TextPart(text="Hi"))
        return Message(role="assistant", content=parts)

    async with endpoint(with_thinking(handler, "adaptive")) as served:
        llm = client(served.base_url, thinking_tokens=2000)
        turns = [*HELLO, thought("b2xk"), *HELLO]
        assert assembled([part async for part in llm.stream(turns)]).text == "ok"
        assert len(sent(served)) == 2
        await collect(llm, [*turns, thought("bmV3"), *HELLO])
    assert len(sent(served)) == 3
    last = str(sent(served)[-1])
    assert "bmV3" in last
    assert "b2xk" not in last


async def test_another_refusal_is_not_taken_for_one_of_thoughts() -> None:
    async def handler(call: Call) -> None:
        error = {"type": "invalid_request_error", "message": "thinking.type: not supported"}
        await call.reply("400 Bad Request", {"type": "error", "error": error})

    thought = Message(role="assistant", content=(ThinkPart(think="hm", signature="c2ln"),))
    async with endpoint(without_abilities(handler)) as served:
        with pytest.raises(LLMStatusError, match="not supported"):
            await collect(client(served.base_url), [*HELLO, thought, *HELLO])
    assert len(sent(served)) == 1
