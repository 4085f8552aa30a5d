"""The model's judgement: which of these matters does a message belong to?

The answer is constrained to descriptive labels (small models given letters always say "A"), and
the examples are turns of the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import BaseModel, ValidationError

from service.agent.generate import Generated, generate
from service.agent.llm.protocol import LLM
from service.domain.errors import LLMStreamError
from service.domain.messages import Message
from service.domain.state import RunLoopState

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
_MOST_CANDIDATES = 8
_LABEL_CHARACTERS = 80
_TURN_CHARACTERS = 200


class _Verdict(BaseModel):
    continues: str


async def judge(
    llm: LLM,
    text: str,
    candidates: Sequence[RunLoopState],
    *,
    on_generated: Callable[[Generated], None] = lambda generated: None,
) -> RunLoopState | None:
    """Ask the model which loop a message continues.

    Args:
        llm: a model that honours `response_schema`.
        text: the message.
        candidates: the loops, likeliest first.
        on_generated: told what the model gave, whether or not it can be used.

    Returns:
        The loop, or None for a new one.

    Raises:
        LLMError: the call failed, or the answer is none of those that were offered.
    """
    labels = _labels(candidates[:_MOST_CANDIDATES])
    messages = [Message.system(_SYSTEM)]
    for goals, said, answer in _EXAMPLES:
        messages += [
            Message.user(_question(said, [(goal, "") for goal in goals])),
            Message.assistant(_answer(answer)),
        ]
    known = [(label, _last_turns(state)) for label, state in labels.items()]
    messages.append(Message.user(_question(text, known)))
    schema = {
        "type": "object",
        "properties": {"continues": {"enum": [*labels, _NEW]}},
        "required": ["continues"],
        "additionalProperties": False,
    }
    generated = await generate(
        llm, messages, response_schema=schema, max_tokens=80, temperature=0.0
    )
    on_generated(generated)
    try:
        verdict = _Verdict.model_validate_json(generated.message.text).continues
    except ValidationError as error:
        raise LLMStreamError("the model's judgement is not of the asked form") from error
    if verdict == _NEW:
        return None
    if verdict not in labels:
        raise LLMStreamError("the model chose a matter that was not offered")
    return labels[verdict]


def _labels(candidates: Sequence[RunLoopState]) -> dict[str, RunLoopState]:
    """A short, distinct name for each loop, from its goal."""
    labels: dict[str, RunLoopState] = {}
    for state in candidates:
        base = " ".join(state.goal.split())[:_LABEL_CHARACTERS].strip() or "without words"
        label, count = base, 1
        while label in labels or label == _NEW:
            count += 1
            label = f"{base} ({count})"
        labels[label] = state
    return labels


def _last_turns(state: RunLoopState) -> str:
    lines = [
        f"  {turn.role}: {' '.join(turn.text.split())[:_TURN_CHARACTERS]}"
        for turn in state.last_turns(2)
    ]
    return "\n".join(lines)


def _question(text: str, known: Sequence[tuple[str, str]]) -> str:
    lines = ["Matters:"]
    for label, turns in known:
        lines.append(f"- {label}")
        if turns:
            lines.append(turns)
    lines.append(f"Newest message: {' '.join(text.split())[:_TURN_CHARACTERS]}")
    return "\n".join(lines)


def _answer(label: str) -> str:
    return json.dumps({"continues": label}, ensure_ascii=False)
