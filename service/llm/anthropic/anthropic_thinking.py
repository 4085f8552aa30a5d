"""How much a Claude model is asked to think, in the form that this very model takes.

There are three forms, and each model refuses some of them: a budget (up to Claude 4.6), adaptive
thinking (from 4.6 on), and none, which some models call ``disabled``, one ``between_tools``, and
some do not know. The API tells which it takes, so that no list of names is needed here; endpoints
that do not tell know the oldest form, the budget.

Source: https://platform.claude.com/docs/en/build-with-claude/thinking
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.llm.openai.openai_wire import Wire

ROOM = 8192
"""Tokens for a model that thinks whether it is asked to or not."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the API tells of a model.

    >>> types = {"adaptive": {"supported": True}, "enabled": {"supported": False}}
    >>> told = {"capabilities": {"thinking": {"types": types}}, "max_tokens": 128_000}
    >>> sorted(Abilities.of(told).thinking), Abilities.of(told).max_tokens
    (['adaptive'], 128000)
    """

    thinking: frozenset[str] | None = None
    """The forms of thinking that it takes; None where that is not told."""
    max_tokens: int | None = None
    """The longest answer that may be asked for."""

    @classmethod
    def of(cls, told: object) -> Abilities:
        """Read ``GET /v1/models/{id}``; whatever is not of the expected form is not told."""
        info = _object(told)
        types = _object(_object(_object(info.get("capabilities")).get("thinking")).get("types"))
        forms = {name for name, form in types.items() if _object(form).get("supported") is True}
        most = info.get("max_tokens")
        return cls(
            thinking=frozenset(forms) if types else None,
            max_tokens=most if isinstance(most, int) and most > 0 else None,
        )


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a request says of thinking."""

    config: Wire | None
    """The member ``thinking``; None to say nothing."""
    room: int
    """How many tokens it takes beside those of the answer: the API counts them together."""

    @property
    def is_off(self) -> bool:
        """Whether the model is told not to think, so that earlier thoughts are of no use."""
        return self.config == _OFF

    @property
    def has_budget(self) -> bool:
        """Whether it is the oldest form, which has rules of its own."""
        return self.config is not None and self.config["type"] == "enabled"


_OFF: Wire = {"type": "disabled"}
NO_THINKING = Thinking(_OFF, room=0)


def thinking(tokens: int, abilities: Abilities) -> Thinking:
    """What to ask of a model.

    Args:
        tokens: how much it may think; 0 for not at all, where it can do without.
        abilities: what is known of it.

    >>> thinking(2048, Abilities()).config
    {'type': 'enabled', 'budget_tokens': 2048}
    >>> thinking(0, Abilities(thinking=frozenset({"adaptive", "between_tools"}))).config
    {'type': 'between_tools'}
    """
    forms = abilities.thinking
    if tokens:
        if forms is not None and "adaptive" in forms:
            return Thinking({"type": "adaptive", "display": "summarized"}, room=tokens)
        if forms is None or "enabled" in forms:
            return Thinking({"type": "enabled", "budget_tokens": tokens}, room=tokens)
        return Thinking(None, room=0)
    if forms is None:
        return Thinking(None, room=0)
    if "disabled" in forms:
        return NO_THINKING
    if "between_tools" in forms:
        return Thinking({"type": "between_tools"}, room=0)
    return Thinking(None, room=ROOM if "adaptive" in forms else 0)


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
