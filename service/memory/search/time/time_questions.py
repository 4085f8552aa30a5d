"""Questions that ask for a time and for nothing else: "8 May 2023", "What did we say yesterday?".

What is left of such a question without its time expressions is function words, and words of
talking and doing, whose topic is what is asked for.

>>> rests = "What did we talk about ?", " 我说了什么？", "the boat on "
>>> [asks_for_nothing(rest) for rest in rests]
[True, True, False]
"""

from __future__ import annotations

import re

from service.memory.ledger.terms import STOP_WORDS, terms

_HAN = re.compile(r"[\u3400-\u9fff]")
_SAYS_NOTHING = STOP_WORDS | frozenset(
    terms(
        "since till during between around back day date week month year time happen occur talk"
        " discuss chat speak mention ask answer write conversation message anything everything"
        " something there remember recall find show search please"
    )
)
_SAYS_NOTHING_CHINESE = frozenset(
    "我你您他她它咱们和跟与同的地得了过吗呢吧啊呀在于是有都还也曾从自到至以之那这个天些什么啥哪事儿"
    "情说讲聊谈讨论提问答发生做干过去期间里时候对话记录内容消息请帮找查看一下搜索忆起来怎样安排"
)


def asks_for_nothing(rest: str) -> bool:
    """Whether the rest of a question, without its time expressions, names no topic."""
    if any(each not in _SAYS_NOTHING_CHINESE for each in _HAN.findall(rest)):
        return False
    return all(term in _SAYS_NOTHING for term in terms(_HAN.sub(" ", rest)))
