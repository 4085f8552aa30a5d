"""The language model's judgement: which of these topics does a message belong to?

The answer is constrained to descriptive labels (small models given letters always say "A"), and
the examples are turns of the conversation. What was said in a topic stands on lines of its own
that begin with who said it: no words can pass for another line, label or message.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from service.domain.conversation.messages import Message
from service.domain.conversation.token_estimates import estimate_tokens, prefix_within
from service.domain.errors import LLMStreamError
from service.domain.usage import Prices
from service.llm.protocol import LLM
from service.llm.spending.accounts import Account, Spending
from service.routing.text.text_reading import Candidate
from service.tuning import (
    ROUTER_LLM_ANSWER_TOKENS,
    ROUTER_LLM_LABEL_TOKENS,
    ROUTER_LLM_LEAST_TURN_TOKENS,
    ROUTER_LLM_MESSAGE_SHARE,
    ROUTER_LLM_MOST_TURNS,
    ROUTER_LLM_READ_CHARACTERS,
    ROUTER_LLM_SHARE,
    ROUTER_LLM_TOKENS,
    ROUTER_LLM_TURN_TOKENS,
)

_NEW = "a new matter"
_SYSTEM = (
    "Several matters are being talked about with an assistant. Decide which of them the newest"
    f" message continues. Choose “{_NEW}” when it is about something else."
)
_EXAMPLES = (
    (
        ["plan a weekend in Lisbon", "file the invoice of the plumber"],
        "And how is the weather there in May?",
        "plan a weekend in Lisbon",
    ),
    (["北京明天天气怎么样"], "那上海呢？", "北京明天天气怎么样"),
    (["plan a weekend in Lisbon"], "What does 'ephemeral' mean?", _NEW),
    (["帮我写一封请假邮件"], "推荐一部科幻电影", _NEW),
)
_WAITS = "  (the assistant waits for an answer)"
_NONE_CHOSEN = "The language model chose none of the topics"
_JSON = re.compile(r"\{.*\}", re.DOTALL)
_UNPRINTABLE = frozenset(("Cc", "Cs", "Zl", "Zp"))


class _Verdict(BaseModel):
    model_config = ConfigDict(extra="ignore")

    continues: str


async def judge(
    llm: LLM,
    text: str,
    candidates: Sequence[Candidate],
    *,
    account: Account | None = None,
    prices: Prices | None = None,
) -> int | None:
    """Ask the model which topic a message continues.

    Args:
        llm: a model that honours `response_schema`.
        text: the message.
        candidates: the topics, likeliest first; those that find no room are left out.
        account: by what the call is let through, and counted, whether or not its answer can be
            used; None: nobody counts it.
        prices: of the model.

    Returns:
        Which of the candidates, or None for a new topic.

    Raises:
        LLMError: the call failed, or the answer is none of those that were offered.
        BudgetError: a cap on spending does not let it.
    """
    budget = min(ROUTER_LLM_TOKENS, int(llm.context_tokens * ROUTER_LLM_SHARE))
    message = _shortened(
        _line(text), max(int(budget * ROUTER_LLM_MESSAGE_SHARE), ROUTER_LLM_TURN_TOKENS)
    )
    topics = _described(candidates, budget - estimate_tokens(message))
    messages = [Message.system(_SYSTEM)]
    for goals, said, answer in _EXAMPLES:
        messages += [
            Message.user(_question(said, [(goal, ()) for goal in goals])),
            Message.assistant(_answer(answer)),
        ]
    messages.append(Message.user(_question(message, topics)))
    labels = [label for label, _ in topics]
    schema = {
        "type": "object",
        "properties": {"continues": {"enum": [*labels, _NEW]}},
        "required": ["continues"],
        "additionalProperties": False,
    }
    account = account or Spending(None).account(owner="", purpose="routing")
    generated = await account.generate(
        llm,
        messages,
        prices=prices,
        response_schema=schema,
        max_tokens=ROUTER_LLM_ANSWER_TOKENS,
        temperature=0.0,
    )
    return _read(generated.message.text, labels)


def _read(answer: str, labels: Sequence[str]) -> int | None:
    match = _JSON.search(answer)  # some endpoints put it into a fence
    try:
        verdict = _Verdict.model_validate_json(match[0] if match else answer).continues
    except ValidationError as error:
        raise LLMStreamError(
            "the model's judgement is not of the asked form", title=_NONE_CHOSEN
        ) from error
    chosen = _line(verdict).casefold()
    if chosen == _NEW:
        return None
    for place, label in enumerate(labels):
        if label.casefold() == chosen:
            return place
    raise LLMStreamError("the model chose a topic that was not offered", title=_NONE_CHOSEN)


def _described(candidates: Sequence[Candidate], budget: int) -> list[tuple[str, Sequence[str]]]:
    """Labels, each unlike all others, with what was said last; as many as find room, at least one.

    What a topic does not use of its share falls to those after it.
    """
    described: list[tuple[str, Sequence[str]]] = []
    taken = {_NEW}
    for place, candidate in enumerate(candidates):
        label = _label(candidate, taken)
        left = budget // (len(candidates) - place) - estimate_tokens(label)
        if left < 0 and described:
            break
        taken.add(label.casefold())
        lines = _last_turns(candidate, left)
        budget -= estimate_tokens(label) + sum(map(estimate_tokens, lines))
        described.append((label, lines))
    return described


def _label(candidate: Candidate, taken: set[str]) -> str:
    first = candidate.turns[0].text if candidate.turns else ""
    goal = _line(candidate.goal.text) or _line(first)
    base = goal[: prefix_within(goal, ROUTER_LLM_LABEL_TOKENS)].strip() or "without words"
    label, count = base, 1
    while label.casefold() in taken:
        count += 1
        label = f"{base} ({count})"
    return label


def _last_turns(candidate: Candidate, budget: int) -> Sequence[str]:
    """What was said last, oldest first, within a number of tokens."""
    lines = [_WAITS] if candidate.awaiting else []
    if candidate.asked is not None and candidate.asked.options:
        offered = "; ".join(option.text for option in candidate.asked.options)
        line = f"  (options: {_shortened(_line(offered), ROUTER_LLM_TURN_TOKENS)})"
        budget -= estimate_tokens(line)
        lines.append(line)
    for turn in reversed(candidate.turns[-ROUTER_LLM_MOST_TURNS:]):
        room = min(ROUTER_LLM_TURN_TOKENS, budget)
        if room < ROUTER_LLM_LEAST_TURN_TOKENS:
            break
        line = f"  {turn.role}: {_shortened(_line(turn.text), room)}"
        budget -= estimate_tokens(line)
        lines.append(line)
    return lines[::-1]


def _question(text: str, topics: Sequence[tuple[str, Sequence[str]]]) -> str:
    lines = ["Matters:"]
    for label, said in topics:
        lines += [f"- {label}", *said]
    lines.append(f"Newest message: {text}")
    return "\n".join(lines)


def _answer(label: str) -> str:
    return json.dumps({"continues": label}, ensure_ascii=False)


def _line(text: str) -> str:
    """A text on one line, without control characters and halves of characters."""
    if len(text) > ROUTER_LLM_READ_CHARACTERS:
        half = ROUTER_LLM_READ_CHARACTERS // 2
        text = f"{text[:half]} {text[-half:]}"
    printable = (" " if unicodedata.category(each) in _UNPRINTABLE else each for each in text)
    return " ".join("".join(printable).split())


def _shortened(line: str, tokens: int) -> str:
    """A line's beginning and its end, where questions stand."""
    if estimate_tokens(line) <= tokens:
        return line
    beginning = line[: prefix_within(line, tokens * 2 // 3)]
    backwards = line[::-1]
    end = backwards[: prefix_within(backwards, tokens // 3)][::-1]
    return f"{beginning} … {end}"
