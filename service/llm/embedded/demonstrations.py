"""Examples that show a small model which tool a message needs.

They stand before the question of the tool alone, and never before an answer: what a small model is
shown leaks into what it says. An example is shown only where its tool is offered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A message, and the tool that its answer needs."""

    said: str
    tool: str = ""
    """Empty: none."""
    arguments: tuple[tuple[str, str], ...] = ()


_ALL = (
    Demonstration("Good evening"),
    Demonstration("6.5*8 = ?", "calculator", (("expression", "6.5*8"),)),
    Demonstration("What time is it in Paris?", "current_time", (("timezone", "Europe/Paris"),)),
    Demonstration("谁写了《红楼梦》？"),
    Demonstration("一百二十乘以七是多少？", "calculator", (("expression", "120*7"),)),
    Demonstration("My son was born in 2015."),
    Demonstration("今天星期几？", "current_time", (("timezone", "local"),)),
    Demonstration("Write a poem about time"),
    Demonstration("If it were Friday, which day would come next?"),
    Demonstration("When is my appointment?"),
    Demonstration("现在纽约几点？", "current_time", (("timezone", "America/New_York"),)),
    Demonstration("What happened in the elections today?", "web_search", (("query", "elections"),)),
    Demonstration("午饭35元，咖啡18元，一共多少钱？", "calculator", (("expression", "35+18"),)),
    Demonstration("How long do I boil rice?"),
    Demonstration("What is 15% of 80?", "calculator", (("expression", "80*15/100"),)),
    Demonstration("假如昨天是星期一，明天星期几？"),
    Demonstration("我有三个苹果。"),
)


def demonstrations(tools: Collection[str]) -> list[Demonstration]:
    """The examples for a model that is offered these tools."""
    return [example for example in _ALL if not example.tool or example.tool in tools]
