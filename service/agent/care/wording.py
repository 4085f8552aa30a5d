"""How a person's limits are put to the model: after their words, as they would say it themselves.

Small models heed what stands last, and in the language that is spoken; a note in brackets before
the question, or in the system prompt, they pass over. Asked in English whether it is good for them,
and in Chinese to consider it and to say why, a 1.5B model heeds most of what a person has told, and
still names the capital of Peru where there is nothing to heed. Of two limits that contradict each
other it takes the first: the newest stands first, therefore.
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
    （别忘了，我告诉过你：“Milk makes me ill.”。请考虑这一点再回答，并说明原因。）
    """
    newest_first = said[::-1]
    quotes = [f"“{in_one_line(each).translate(_INNER)}”" for each in newest_first]
    if script_of(beside) == "han":
        told = "，在那之前：".join(quotes)
        return f"（别忘了，我告诉过你：{told}。请考虑这一点再回答，并说明原因。）"
    told = " Before that: ".join(quotes)
    return (
        f"(Remember, I told you: {told} Is that good for me, then? Answer accordingly and say why.)"
    )
