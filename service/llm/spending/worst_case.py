"""What a call may use at the very most, before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TokenUsage
from service.domain.conversation.token_estimates import most_tokens
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import BudgetError, ConfigurationError
from service.domain.spend import SpendCaps, Spent
from service.domain.usage import Prices
from service.llm.named_models import NamedModel
from service.llm.protocol import LLM, is_free, most_output_tokens
from service.tuning import SPEND_ANSWER_TOKENS, SPEND_MESSAGE_TOKENS

_ADVICE = (
    "Set the model's prices (llm.prices.input and llm.prices.output per million tokens; 0 where it"
    " costs nothing), or use spend.daily_tokens and spend.monthly_tokens."
)


def answer_bound(llm: LLM, max_tokens: int | None) -> int | None:
    """The bound that a call gives its answer, so that it cannot cost without end.

    Args:
        llm: the model.
        max_tokens: the bound that the caller gives, if any.
    """
    if most_output_tokens(llm, max_tokens) is not None:
        return max_tokens
    return min(SPEND_ANSWER_TOKENS, llm.context_tokens // 2)


def worst_case(
    llm: LLM,
    messages: Sequence[Message],
    *,
    prices: Prices | None,
    tools: Sequence[ToolDefinition] = (),
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
) -> Spent:
    """What a call may use at the very most.

    The prompt is told from its bytes, see `most_tokens`, as no tokenizer is at hand; the answer
    counts as long as it can become.

    Args:
        llm: the model.
        messages: the conversation.
        prices: of the model; None: it costs nothing.
        tools: what it may call.
        response_schema: what its text must satisfy.
        max_tokens: bound of the answer, if the call gives one.
    """
    offered = [str(each) for each in (*tools, *([response_schema] if response_schema else ()))]
    given = sum(map(_most_of_message, messages))
    given += sum(most_tokens(len(each.encode("utf-8", "replace")), each) for each in offered)
    given = min(given, llm.context_tokens)
    said = most_output_tokens(llm, answer_bound(llm, max_tokens)) or 0
    cost = 0.0 if prices is None else prices.cost(TokenUsage(llm.model, given, said))
    return Spent(given + said, cost)


def _most_of_message(message: Message) -> int:
    thought = message.reasoning
    calls = (call.arguments for call in message.tool_calls)
    size = message.size + len(thought.encode("utf-8", "replace"))
    return SPEND_MESSAGE_TOKENS + most_tokens(size, message.text, message.notes, thought, *calls)


def check_price(llm: LLM, prices: Prices | None, caps: SpendCaps) -> None:
    """Refuse a call of which nobody knows what it costs, where a cap is in money.

    Raises:
        BudgetError: the model has no prices, and is not free.
    """
    if prices is None and caps.bound_money and not is_free(llm):
        raise BudgetError(
            f"{llm.model} has no prices, so nobody knows what a call costs",
            title="A cap on spending in money does not let this model be asked",
            advice=_ADVICE,
        )


def check_prices(models: Mapping[str, NamedModel], caps: SpendCaps) -> None:
    """Refuse caps in money beside a model of which nobody knows what it costs.

    Raises:
        ConfigurationError: such a model.
    """
    for name, model in models.items():
        try:
            check_price(model.llm, model.prices, caps)
        except BudgetError as error:
            raise ConfigurationError(
                f"spend.daily_cost or spend.monthly_cost is set, but the model {name} has no"
                " prices: nobody knows what a call costs",
                advice=_ADVICE,
            ) from error
