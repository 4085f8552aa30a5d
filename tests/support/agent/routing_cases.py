"""Topics of our own that several messages are routed among."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from service.routing.text.text_reading import Candidate, Turn

NOW = 1_790_000_000.0
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def topic(
    name: str, *said: str, ago: float = 120.0, awaiting: bool = False, embed: Embed | None = None
) -> Candidate:
    """A person and the assistant take turns; the newest one is `ago` seconds old."""
    turns: list[Turn] = []
    for place, text in enumerate(said):
        role: Literal["user", "assistant"] = "assistant" if place % 2 else "user"
        vector = embed([text])[0] if embed is not None else None
        turns.append(Turn(text, role, NOW - ago - 30.0 * (len(said) - 1 - place), vector))
    return Candidate(name, turns[0], turns, len(turns), awaiting)


def lisbon(embed: Embed | None = None, ago: float = 120.0) -> Candidate:
    """A trip."""
    return topic(
        "lisbon",
        "Hi, I'd like to plan a weekend in Lisbon in May.",
        "Lovely! There are direct flights on Friday evening. Which hotel area do you prefer?",
        "Somewhere near the river, not too loud.",
        "Cais do Sodré is by the river; Hotel Aurora has rooms at 140 euros a night.",
        ago=ago,
        embed=embed,
    )


def invoice(embed: Embed | None = None, ago: float = 90.0) -> Candidate:
    """A bill, for which something was asked last."""
    return topic(
        "invoice",
        "Please file the plumber's invoice RX-4471.",
        "I found it. Could you please provide the date on which you paid it?",
        ago=ago,
        embed=embed,
    )


def weather_zh(embed: Embed | None = None, ago: float = 60.0) -> Candidate:
    """The weather, in Chinese."""
    return topic(
        "weather", "你好，北京明天天气怎么样？", "北京明天晴，最高二十六度。", ago=ago, embed=embed
    )


def dumplings_zh(embed: Embed | None = None, ago: float = 200.0) -> Candidate:
    """A restaurant, in Chinese."""
    return topic(
        "dumplings",
        "您好，帮我找一家评分高的饺子馆。",
        "推荐您去老边饺子馆，这家餐馆评分4.7分，人均消费60元。",
        ago=ago,
        embed=embed,
    )
