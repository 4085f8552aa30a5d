"""Whether a message, or an item of a list, asks or wants something, by its words.

A Chinese question often has neither 吗 nor a mark at its end (快递到了没, 今天星期几), and a
request no 请 (查余额, 约个牙医). Words that stand for anything (哪天都行) ask nothing.

An item of a list is a request, an announcement of requests, or a word of thanks. Its lists of what
people ask an assistant for are short on purpose: what is not known is no request, and then the
message stays whole.
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
_CHINESE_QUESTION_IN_LIST = re.compile(
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
    asks = line.endswith(("?", "？")) or _CHINESE_QUESTION_IN_LIST.search(line) is not None
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


_IMPERATIVE = re.compile(
    r"(?:please\s+|can you\s+|could you\s+)?(?!(?:to|in|on|at|the|a|an|my|our|it|that|this|for|with"
    r"|from|just|only|about|around|maybe|something|somewhere|not|no|yes|and|or|but|if|as|by|near|all"
    r"|both|any|every|some|none|i|we|you|he|she|they|there|because|since|when|after|before|under"
    r"|over|until|between|first|second|third|last|is|are|was|of|so|too|very|also|then)\b)[a-z]+"
    r"\s+(?:me|my|the|a|an|some|all|our|his|her|their|off|on|up|down|out|for"
    r"|three|two|\w+ (?:my|the))\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(?:please\s+)?(?:add|block|buy|close|delete|do|download|log|lock|mark|open|pause|pay|print"
    r"|put on|read|remove|run|start|stop the|switch|teach|turn|unlock|upload|wake"
    r"|spell|feed|ring|phone|text|find|book|order|call(?! me)|sing"
    r"|put (?!me|it|the|my)\w+ on|mow|light|make|convert|translate|water)\s+\w"
    r"|.{2,40}\breminder$|turn \w+ \w|.{2,30}, how$",
    re.IGNORECASE,
)
_CHINESE_IMPERATIVE = re.compile(
    r"(?:请|麻烦|能不能|可以)?(?:你)?(?:再|先|去)?(?:帮我|帮忙|帮[^\W\d]|给我(?![的])|给.{1,6}(?:发|打|写|买|寄|取|讲|回|出)"
    r"|替我|把|提醒|播放?[^\W\d]|打开|打[一个]|关[掉闭上]|设置?[个一成好]|定[个一]|订[^\W\d]|查|翻译|翻一|推荐|写[一个首封份篇]"
    r"|讲[个一讲]|列[一出个]|算[一下算]|找[一个找家]|放[首点一]|开[一下启]|我想(?!去)|想(?:学|喝|吃|看)|看[下看一]|记[一下得]"
    r"|约[个一]|续|退掉|搜|教我|唱|导航|下单|叫[个辆]|来[首点段]|发[个条封]|回[个一]|取消.{0,4}[的个闹会课]|买[点些两]"
    r"|(?![一二三四五六七八九十两几每这那整半就先随某多哪])[^\W\d_a-zA-Z]{1,2}一?[个份首张封篇局盘段下](?![人月星小半])[^\W\d_a-zA-Z]{2})"
    r"|[^，,]{2,8}[，,](?:下单|买|订|提醒|记得|帮)|[^，,]{2,6}(?:了|没了)记得|.{2,12}(?:发我|给我)一?[份个下]|.{2,8}的提醒"
)
_DROPS = re.compile(
    r"(?:please\s+)?(?:cancel|drop|forget|leave|skip|stop|never ?mind)"
    r"\s*(?:it|that|this|all)?\s*(?:$|[,.;!])"
    r"|(?:算了|取消|先?不[用要]?)[吧了]?\s*(?:$|[，。,])",
    re.IGNORECASE,
)
_ENGLISH_QUESTION = re.compile(
    r"[?？]\s*$|^\W*(?:(?:what|who|where|when|why|how)(?! (?:i|we|he|she|they|you|it)\b)"
    r"|which|is|are|was|were|do (?!(?:the|a|my|not|this|that|it)\b)|does|did|can|could|has"
    r"|have|should)(?:'s)?\b|^\W*any \w+ (?:for|on|about|from|in)\b"
    r"|,\s*(?:where|when|how|who|what|why)(?: (?:is|are|was) (?:it|they|that))?\W*$",
    re.IGNORECASE,
)
_CHINESE_QUESTION = re.compile(
    r"[吗么呢]\W*$|什么|啥|怎么|怎样|咋|如何|为何|何时|哪|谁|多少|多[高长久远大重深快厚宽]"
    r"|(?<![好十百千这那上])几(?:[点号天个月年岁克斤分度站层楼米条张次路页位块本集局]|比几|\W*$)"
    r"|[初周第期是于]几|([\u4e00-\u9fff])[不没]\1|是否|有没有|能否"
    r"|[\u4e00-\u9fff]{2}(?<![还都也])没有?\W*$|[\u4e00-\u9fff]{3}(?<![也都])不\W*$"
)
_SUGGESTS = re.compile(
    r"(?:maybe|perhaps|possibly)\b[^?？]{1,40}[?？]?"
    r"|(?:或许|也许|可能|要不|不如)[^?？吗么谁哪几什]{1,12}(?:[?？呢]|吧？)?"
    r"|(?!what|who|where|when|why|how)[a-z]+[?？]",
    re.IGNORECASE,
)
"""An answer of which a person is not sure: maybe the Alps?"""
_ANY = re.compile(
    r"(?:随便|无论|不管|不论|没|没有)(?:是|要|选)?(?:什么|哪|谁|多少|几|怎)"
    r"|(?:什么|哪[^\W\d]{0,2}|谁|多少|几[^\W\d]|怎么.?)[都也](?:行|可以|好|成|没|不|能|要|喜欢|无所谓)"
)

_TERMS = re.compile(
    r"最[多少晚早便舒快]|一定|必须|^需要|^可以|能不能|要不要|能[^\W\d]{1,8}吗|^哪[个种]|为什么要"
    r"|^要.{0,8}吗|要.{0,8}(?:干什么|做什么)"
    r"|一般|(?:大概|一共|要|^)多少|平时|去年|上个月|会不会"
    r"|\b(?:have to|needed|need to|which of|usually|normally|possible|necessary|allowed|matter"
    r"|included?|does (?:it|that|she|he)|is (?:he|she) usually|can (?:it|they|you)|are they"
    r"|which is|how long (?:will|does|may)|them)\b",
    re.IGNORECASE,
)
_LOOKED_UP = re.compile(
    r"\b(?:weather|forecast|traffic|news|headlines|scores?|results? of|status|balance"
    r"|hours|timetable"
    r"|prices?|recipe|capital of|population|meaning of|definition|synonym|near(?:est|by| me)"
    r"|battery|exchange rate|horoscope|tallest|biggest|fastest|question"
    r"|flights?|bus(?:es)?|trains?|ideas|fees?|petrol"
    r"|sun(?:set|rise)|rain(?:ing|ed)?|reminder|mayor|stocks?)\b"
    r"|天气|新闻|油价|股[价票市]|汇率|比分|余额|做法|菜谱|路况|空气质量|快[递件]|包裹|航班|话费|[电水]费|行情|流量"
    r"|日历|日程|闹钟|音乐|地铁|公交|的电话|首都|查询|挂号|打车|机票|高铁|门票|客服|彩票|药店|下[雨雪]",
    re.IGNORECASE,
)


def asks_of_terms(words: str) -> bool:
    """Whether a question is like those about what was asked: what it costs, whether it must."""
    return _TERMS.search(words) is not None


def looks_up(words: str) -> bool:
    """Whether words name what people look up, which needs no verb: weather tomorrow, 油价."""
    return _LOOKED_UP.search(words) is not None


def asks_something(words: str) -> bool:
    """Whether words are a question."""
    if _SUGGESTS.fullmatch(words):
        return False
    if _ENGLISH_QUESTION.search(words) is not None:
        return True
    return _CHINESE_QUESTION.search(_ANY.sub("", words)) is not None


def wants_something(words: str) -> bool:
    """Whether words ask for something to be done."""
    if _DROPS.match(words):
        return False
    return (
        is_request(_ANY.sub("", words))
        or _VERB.match(words) is not None
        or _IMPERATIVE.match(words) is not None
        or _CHINESE_IMPERATIVE.match(words) is not None
    )
