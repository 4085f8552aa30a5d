"""How a person's limits are put to the model: after their words, as they would say it themselves.

Small models heed what stands last, and in the language that is spoken; a note in brackets before
the question, or in the system prompt, they pass over. Asked to keep it in mind, a 1.5B model says
that the shrimp salad is fine; asked in English whether it is good for them, and in Chinese what
it means, it answers that, and still names the capital of Peru where there is nothing to heed.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.quoting import in_one_line
from service.memory.search.scripts import script_of

_INNER = str.maketrans("“”", "‘’")


def reminder(said: Sequence[str], beside: str) -> str:
    """The words that stand behind a message.

    Args:
        said: what the person said of their limits, oldest first; nothing in it ends the quote.
        beside: the message, in whose language they are.

    >>> print(reminder(["Milk makes me ill."], "来杯拿铁吗？"))
    （我告诉过你：“Milk makes me ill.”。请先说说这意味着什么，再回答。）
    """
    quotes = [f"“{in_one_line(each).translate(_INNER)}”" for each in said]
    if script_of(beside) == "han":
        told = "后来又说：".join(f"{each}。" for each in quotes)
        return f"（我告诉过你：{told}请先说说这意味着什么，再回答。）"
    told = " And later: ".join(quotes)
    return (
        f"(Remember, I told you: {told} Is that good for me, then? Answer accordingly and say why.)"
    )
