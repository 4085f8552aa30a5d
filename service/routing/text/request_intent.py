"""Whether a message asks or wants something itself, by its words: English, Chinese without marks.

A Chinese question often has neither 吗 nor a mark at its end (快递到了没, 今天星期几), and a
request no 请 (查余额, 约个牙医). Words that stand for anything (哪天都行) ask nothing.
"""

from __future__ import annotations

import re

from service.routing.text.list_items import is_request

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
