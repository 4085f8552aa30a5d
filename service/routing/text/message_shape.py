"""The shape of a message, from its words alone: an opener, a follow-up, an answer, a farewell.

Word lists of English and Chinese; a language that they do not know has no shape, and is routed by
the other features.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = 160
"""Characters in which a message's beginning is looked for, and a question's end."""

_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|hiya|greetings|bonjour|good (?:morning|afternoon|evening|day))\b"
    r"|\W*(?:亲[,，]?)?(?:你好|您好|嗨|哈喽|早上好|上午好|中午好|下午好|晚上好|在吗|在么)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\b(?:i(?:'d| would) like|i(?:'m| am) (?:trying|looking|having|wondering|hoping)"
    r"|i (?:want|need)"
    r"|i was (?:hoping|wondering)"
    r"|(?:can|could|does|do|has|is|did) (?:any(?:one|body)|some(?:one|body))"
    r"|any(?:one|body) (?:know|here|have|has|got|else|using)|how (?:do|can|would|should|to)\b"
    r"|is there (?:a|an|any)|can you help|could you help|help me|remind me|quick question"
    r"|i have (?:a|an|some))\b"
    r"|帮我|帮忙|请帮|我想|想要|想找|我要|麻烦|提醒我|推荐",
    re.IGNORECASE,
)
_FOLLOW_UP = re.compile(
    r"\W*(?:and|or|also|but|so|then|plus|what about|how about|what if|in that case|instead"
    r"|ok(?:ay)?|oh|ah+|well|actually|hm+|great|perfect|i see|alright|all right|got it|wow|cool"
    r"|good|nice|lol|hehe|haha|because|cause|unless|if so|still|already|i understand"
    r"|i appreciate)\b"
    r"|\W*(?:那|还有|再|另外|也|然后|不过|但|对了|哦|噢|嗯|好吧|而且|其实|还是|既然|所以|太好|收到|行)",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"\W*(?:yes|yeah|yep|yup|no|nope|nah|sure|ok(?:ay)?|correct|right|exactly|fine|of course"
    r"|certainly|absolutely|my \w+|it'?s|it is|the (?:first|second|third|last|former|latter)"
    r"|i(?:'m| am)|none|both|either|neither|go ahead|please (?:proceed|go ahead|do|use|transfer)"
    r"|that'?s|that is|i (?:don'?t|do|did|didn'?t|have|tried|already)|here)\b"
    r"|\W*(?:是的?|对的?|好的?|可以|行|不是?|没有?|没问题|嗯|要|不要|不用|没关系|第[一二三]|前者|后者|都)",
    re.IGNORECASE,
)
_FAREWELL = re.compile(
    r"\b(?:thanks|thank you|thx|ty|cheers|merci|bye|goodbye|good ?night|that(?:'s| is) all"
    r"|that was all|have a (?:great|good|nice)|much appreciated|never ?mind|nvm)\b"
    r"|谢谢|多谢|感谢|谢了|再见|拜拜|没有?(?:其他|其它|别的|什么)?(?:的)?问题了?|辛苦|就这样|算了",
    re.IGNORECASE,
)
_DISMISSAL = re.compile(
    r"you(?:'re| are) (?:very |most )?welcome|no problem|my pleasure|glad i could|safe travels"
    r"|have a (?:great|good|nice|wonderful)|take care|reach out|feel free"
    r"|不客气|不用谢|不用客气|再见|应该的|再联系|祝您|祝你|随时",
    re.IGNORECASE,
)
_ANAPHOR = re.compile(
    r"\b(?:it|its|that|this|these|those|they|them|their|he|she|him|her|one|ones|same|there|either"
    r"|both|another|instead|above|else|again|other|others)\b"
    r"|它|他们|她们|他家|这家|那家|这个|那个|这些|那些|这里|那里|这儿|那儿|那边|这两|该|附近|周边|旁边"
    r"|刚才|刚刚|上面|其中|另一",
    re.IGNORECASE,
)
_HEADS = re.compile(
    r"\b(?:this|that|these|those|the|my|your)\s+([^\W\d_]{3,})"
    r"|(?:这|那|该|此)(?:几|两|三)?(?:家|个|些|间|座|条|款|份|次|种|件|本|位|辆)?([\u4e00-\u9fff]{2})",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"[?？]|^\W*(?:what|which|who|where|when|why|how|is|are|was|were|do|does|did|can|could|would|will"
    r"|should|has|have|any)\b|[吗呢么]\W*$|什么|多少|哪|怎么|有没有|是不是|几",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"[?？]|(?:吗|呢|么)\W*$"
    r"|\bplease (?:provide|confirm|tell|let|specify|choose|share|give)"
    r"|\blet me know\b|\bi(?:'ll| will)? need (?:your|the|to know)\b|\bwould you like\b"
    r"|\bcould you (?:please )?(?:provide|confirm|tell|share)"
    r"|请(?:问|提供|告诉|告知|确认|选择|输入|说明)|需要您|需要你",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"\b(?:would you like|do you|did you|are you|is (?:that|this|it)|shall i|should i|can i|may i"
    r"|have you|will you|does (?:that|this|it)|please confirm|proceed)\b"
    r"|吗\W*$|么\W*$|要不要|是否|是不是",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[\w.+-]+@[\w-]+\.\w[\w.-]*"  # addresses
    r"|(?:https?://|www\.)\S+"
    r"|(?:[~/][\w.-]+){2,}"  # paths
    r"|(?<![A-Za-z0-9_])(?=[A-Za-z_.-]*\d)[A-Za-z0-9]+(?:[_.-][A-Za-z0-9]+)*(?![A-Za-z0-9_])"
    r"|(?<![A-Za-z0-9_])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"
    r"|(?<![A-Za-z])[A-Z]{3,}(?![A-Za-z])"
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_HAN_WORTH = 2.5
"""How many Latin characters say as much as one Chinese character."""
_MOST_CODES = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """What a text looks like; the lengths are in Latin characters' worth."""

    length: float
    greets: bool
    requests: bool
    follows_up: bool
    answers: bool
    bids_farewell: bool
    dismisses: bool
    points_back: int
    """How many words stand for something said before (it, that one, 这家)."""
    heads: frozenset[str]
    """What is pointed at: `flight` in "this flight", 酒店 in 这家酒店."""
    is_question: bool
    asks: bool
    """Whether the text, at its end, wants an answer."""
    asks_yes_or_no: bool
    codes: frozenset[str]
    """Numbers, identifiers, addresses, acronyms, in lower case."""


def shape(text: str) -> Shape:
    """Read a text's shape. Time is linear in its length."""
    text = text.replace("’", "'")
    head, tail = text[:_HEAD], text[-_HEAD:]
    # A greeting before the point says nothing about what stands behind it.
    start = _GREETING.match(head)
    after = head[start.end() :] if start else head
    codes = (match[0].strip(".-").lower() for match in _CODE.finditer(text))
    return Shape(
        length=len(text) + (_HAN_WORTH - 1) * len(_HAN.findall(text)),
        greets=start is not None,
        requests=_REQUEST.search(head) is not None,
        follows_up=_FOLLOW_UP.match(after) is not None,
        answers=_ANSWER.match(after) is not None,
        bids_farewell=_FAREWELL.search(tail) is not None or _FAREWELL.search(head) is not None,
        dismisses=_DISMISSAL.search(tail) is not None,
        points_back=len(_ANAPHOR.findall(head)),
        heads=frozenset((a or b).lower() for a, b in _HEADS.findall(head)),
        is_question=_QUESTION.search(head) is not None or _QUESTION.search(tail) is not None,
        asks=_ASKING.search(tail) is not None,
        asks_yes_or_no=_YES_NO.search(tail) is not None,
        codes=frozenset(list(dict.fromkeys(c for c in codes if len(c) > 1))[:_MOST_CODES]),
    )
