"""What a piece of a list is: a request, an announcement of requests, a word of thanks.

Lists of words in English and Chinese, of what people ask an assistant for. They are short on
purpose: what is not known is no request, and then the message stays whole.
"""

from __future__ import annotations

import re
from functools import partial

_english = partial(re.compile, flags=re.IGNORECASE)

# Repeated alternatives that begin alike are taken possessively (`(?>…)`, `*+`), or are bounded:
# what nobody meant as a list must not take long.

# --- requests

_VERBS = (
    "analy[sz]e|answer|arrange|ask|book|calculate|call|cancel|change|check|choose|compare|compose"
    "|compute|confirm|convert|create|define|describe|design|draft|email|e-mail|estimate|explain"
    "|figure out|fill in|find|fix|forward|generate|get me|give me|help me|invite|let me know|list"
    "|look (?:up|for|into|at)|mail|make|message|move|name|order|organi[sz]e|outline|phone|pick|plan"
    "|play|prepare|print|proofread|propose|provide|quote me|recommend|remind|rename|renew|reply"
    "|research|reschedule|reserve|review|rewrite|ring|save|schedule|search|send|set|show|sort out"
    "|start a timer|suggest|sum up|summari[sz]e|tell|text|track|translate|update|verify|wake me"
    "|work out|write"
)
_POLITE = (
    r"(?:(?:and|also|please|pls|kindly|(?:can|could|would|will) you(?: please)?"
    r"|i(?:'d|’d| would) like you to|i (?:need|want) you to|help me(?: to)?)[\s,]+){0,5}"
)
_ASKS = (
    "what|what's|what’s|whats|how|how's|how’s|why|when|when's|when’s|where|where's|where’s|who"
    "|who's|who’s|which|whose|is|are|do|does|did|can|could|will|should"
)
_ENGLISH_REQUEST = _english(rf"{_POLITE}(?:(?:{_VERBS})\b|(?:{_ASKS})\s+\S+\s+\S)")

_CHINESE_VERBS = (
    "安排|比较|对比|查|发邮件|发短信|发消息|翻译|概括|告诉我|规划|计划|计算|算|解释|介绍|联系|列出|列一"
    "|起草|起个|取消|设个|设置|设定|搜|提醒|推荐|通知|写|修改|选|预订|预约|约|找|整理|总结|订|讲讲|讲个"
    "|说说|看看|看一下|画一|做一?[个份张]|准备一|打电话|回复|检查|续|播放|打印|分析|润色"
)
_CHINESE_POLITE = (
    r"(?:请你?|麻烦你?|劳驾|能不能|能否|可以|可不可以|能|你能|我想|我要|我想请你|帮我?|帮忙|替我|为我"
    r"|给我|还有|另外|也|再|先|顺便|[，,\s]){0,6}"
)
_CHINESE_REQUEST = re.compile(
    rf"{_CHINESE_POLITE}(?:{_CHINESE_VERBS}|(?:给|跟|向|为|把).{{1,30}}?"
    r"(?:写|发|寄|打电话|起个?名|起个|订|翻译|转给|准备|回|留言))"
)
_CHINESE_QUESTION = re.compile(
    "怎么|怎样|什么|哪里|哪儿|哪个|哪些|哪家|哪种|哪天|多少|多久|多大|多远|多高|几点|几天|为何|谁|如何|"
    "是否|能不能|可不可以|有没有|是不是|[吗呢]$"
)
_CJK = re.compile(r"[\u3400-\u9fff]")
_CLOSING = " \t\r\n.。;；,，!！"


def is_request(words: str) -> bool:
    """Whether these words ask something, or ask for something, and could stand alone."""
    first = words.strip().split("\n", 1)[0].strip().rstrip(_CLOSING)
    return _is_chinese_request(first) or _is_english_request(first)


def _is_chinese_request(line: str) -> bool:
    if len(line) < 4 or not _CJK.search(line):
        return False
    asks = line.endswith(("?", "？")) or _CHINESE_QUESTION.search(line) is not None
    return asks or _CHINESE_REQUEST.match(line) is not None


def _is_english_request(line: str) -> bool:
    """Also of one that holds Chinese names or words."""
    if len(line.split()) < 3:
        return False
    return line.endswith(("?", "？")) or _ENGLISH_REQUEST.match(line) is not None


# --- what refers to another item

_REFERS = re.compile(
    r"(?:and\s+)?(?:then|next|after(?:wards| that| this)|finally|lastly|once)\b"
    rf"|{_POLITE}\S+(?: me| out| up)?\s+(?:it|them|that|this|those|these|both|one|each)\b"
    r"|.*\b(?:it|its|he|she|they|him|his|her|hers|them|their|theirs|that|those|too|also|as well)\b"
    r"|.*\b(?:this|these)\b(?! (?:morning|afternoon|evening|week|weekend|month|year|spring|summer"
    r"|autumn|winter|monday|tuesday|wednesday|thursday|friday|saturday|sunday))"
    r"|.*\b(?:the (?:same|above|former|latter|previous|results?|answers?)|all of (?:them|these)"
    r"|instead|(?:first|previous) (?:one|answer|question|item))\b"
    r"|(?:然后|接着|之后|随后|最后|(?:请你?|帮我|帮忙|麻烦你?|[，,\s]){0,3}再(?!见))"
    r"|.*(?:也(?!许|门)|同一)"
    r"|.*(?:[它她他]|那[个里儿些天时件家条种份]|那(?=[么要是多])|这[个里儿些天件家条种份](?!月|周|星期|季度|礼拜)|上面|前面|上述|以上|刚才|其中|同样|一样的|这个结果|第一个|上一)",
    flags=re.IGNORECASE | re.DOTALL,
)


_THE = re.compile(r"\bthe (\w+)\b(?!\s+(?:of|in|for|at|from|on|about)\b)", re.IGNORECASE)


def refers_back(words: str, before: str = "") -> bool:
    """Whether these words need others to be understood: some of those before them, if given."""
    if _REFERS.match(words.strip()) is not None:
        return True
    earlier_words = set(re.findall(r"\w+", before.lower()))
    return any(noun.lower() in earlier_words for noun in _THE.findall(words))


# --- what stands around a list

_GREETING = (
    r"(?:(?:hi|hello|hey|good (?:morning|afternoon|evening))(?:\s+(?:there|rondo|again))?[\s,.!]*)?"
)
_ENGLISH_ANNOUNCEMENT = _english(
    _GREETING
    + r"(?:(?>please|pls|(?:can|could|would|will) you(?: please)?|here(?:'s|’s| is| are)|there are|"
    r"i(?:'ve|’ve| have)(?: got)?|i(?:'d|’d| would) like|i (?:need|want)|you to|to ask|my|for me|"
    r"help(?: me)?(?: out)?(?: with)?|do|handle|take care of|deal with|look into|answer|today|now|"
    r"a few|a couple of|some|several|these|the following|the|two|three|four|five|six|seven|\d|"
    r"quick|short|small|little|other|different|separate|unrelated|"
    r"things?|tasks?|questions?|requests?|favou?rs?|errands?|matters?|to[- ]?dos?|list|jobs?|"
    r"for (?:me|you|today)|this (?:morning|afternoon|evening|week)|if you can|when you can)"
    r"[\s,.:;!?—-]*+)*+"
)
_CHINESE_ANNOUNCEMENT = re.compile(
    r"(?:(?:你好|您好|嗨|早上好|下午好|晚上好)[，,！!。\s]*)?"
    r"(?>请教|请|麻烦|帮我|帮忙|劳驾|我|有|想|问题?|做|办|处理|回答|完成|解决|一下|以下|下面|如下"
    r"|今天|这|几|两|二|三|四|五|六|七|\d|件|个|项|点|小|不同的|事情?|任务|请求|待办|要|你|的)*+"
    r"[：:，,。；;！!？?、\s]*"
)
_THANKS = _english(
    r"(?:(?:many |much )?(?:thanks|thank you|thx|cheers|please)"
    r"(?: (?:a lot|so much|very much|in advance|again))?"
    r"|谢谢你?|多谢|感谢|拜托了?|辛苦了?|谢了)?[\s.,!。，！~:)]*"
)


def is_announcement(head: str) -> bool:
    """Whether these words only say that requests follow; so does nothing at all."""
    forms = (_ENGLISH_ANNOUNCEMENT, _CHINESE_ANNOUNCEMENT)
    return any(form.fullmatch(head.strip()) is not None for form in forms)


def is_thanks(tail: str) -> bool:
    """Whether these words only thank; so does nothing at all."""
    return _THANKS.fullmatch(tail.strip()) is not None


def sentences(words: str) -> list[str]:
    """The sentences, as far as signs of their ends tell."""
    return [
        each for each in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", words.strip()) if each.strip()
    ]
