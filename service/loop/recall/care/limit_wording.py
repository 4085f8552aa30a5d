"""How a person's limits are put to the model, in the language that is spoken.

A large model is reminded of them behind the person's words. A small one passes over whatever it is
told there, or takes it for the question; but what it has said itself it goes on from. Its answer
begins with the limit, therefore, which also shows the person what the answer rests on.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.text import in_one_line, script_of

_INNER = str.maketrans("“”", "‘’")


def reminder(said: Sequence[str], beside: str) -> str:
    """The words that stand behind a message to a large model, the newest limit first.

    Args:
        said: what the person said of their limits, oldest first; nothing in it ends the quote.
        beside: the message, in whose language they are.

    >>> print(reminder(["Milk makes me ill."], "来杯拿铁吗？"))
    （别忘了，我告诉过你：“Milk makes me ill.”。）
    """
    newest_first = said[::-1]
    quotes = [f"“{in_one_line(each).translate(_INNER)}”" for each in newest_first]
    if script_of(beside) == "han":
        joined = "，在那之前：".join(quotes)
        return f"（别忘了，我告诉过你：{joined}。）"
    return f"(Remember, I told you: {' Before that: '.join(quotes)})"


def beginning(said: Sequence[str], beside: str) -> str:
    """How the answer of a small model begins, which it then goes on with.

    Args:
        said: what the person said of their limits, oldest first; nothing in it ends the quote.
        beside: the message, in whose language it is.

    >>> beginning(["I can't eat gluten."], "May I have a beer?")
    "You told me: “I can't eat gluten.” So"
    >>> print(beginning(["我不吃辣。", "我又能吃辣了。"], "水煮鱼好吗？"))
    您告诉过我：“我不吃辣。”。后来您又说：“我又能吃辣了。”。所以，
    """
    quotes = [f"“{in_one_line(each).translate(_INNER)}”" for each in said]
    if script_of(beside) == "han":
        return f"您告诉过我：{'。后来您又说：'.join(quotes)}。所以，"
    return f"You told me: {' And later: '.join(quotes)} So"
