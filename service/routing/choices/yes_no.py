"""A yes or a no in other words than those of the two options that mean just this."""

from __future__ import annotations

import re
from collections.abc import Sequence

_YES_OPTION = re.compile(
    r"(?:yes|yep|ok|okay|sure)(?: please)?|是的?|对的?|好的?|要的?|可以|行|有|同意"
)
_NO_OPTION = re.compile(
    r"(?:no|nope)(?: (?:thanks|thank you))?"
    r"|否|不|不是的?|不对|不好|不要|不用|不可以|不行|没有?|不同意"
)
_YES = re.compile(
    r"(?:yes+|yeah|yep|yup|y|sure|ok|okay|of course|certainly|definitely|absolutely|please do"
    r"|go ahead|do it|i do)(?: (?:yes|please|thanks|thank you|of course|sure|do))*"
    r"|(?:嗯+ ?)?(?:是|是的|对|对的|好|好的|可以|行|要|要的|同意|没问题|当然[要是]?"
    r"|嗯|有|有的)"
    r"(?:[吧啊呀哦]| ?谢谢)*"
)
_NO = re.compile(
    r"(?:no+|nope|nah|n|no way|not really|of course not|certainly not|i don'?t|don'?t)"
    r"(?: (?:no|please|thanks|thank you))*"
    r"|(?:不|不是的?|不[要用]了?|不行|不可以|不对|不同意|没有|否|当然不)"
    r"(?:[吧啊呀哦]| ?谢谢)*"
)


def yes_or_no(said: str, options: Sequence[str]) -> int | None:
    """The place of the option that a plain yes or no chooses; None: it is none, or they are not."""
    yes = [at for at, option in enumerate(options) if _YES_OPTION.fullmatch(option)]
    no = [at for at, option in enumerate(options) if _NO_OPTION.fullmatch(option)]
    if len(yes) != 1 or len(no) != 1:
        return None
    if _YES.fullmatch(said):
        return yes[0]
    return no[0] if _NO.fullmatch(said) else None
