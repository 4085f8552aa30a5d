"""Whether an answer claims to have done something that no tool of its run loop has done.

Told without a language model, English and Chinese: somebody who says "I have sent it" or 已发送
speaks of a change in the world; "I can send it", "you sent it" and "last week I sent it" do not.
Patterns know the usual forms, and `claim_model` has learned from examples what claims sound like:
a sentence counts where that is sure of it, or where a pattern fits and it does not object. How
often both are right is told in `docs/run-loops.md`.

>>> claimed_deeds("Done! I've sent the email to Anna.")
['send']
>>> claimed_deeds("I can send it once you confirm. 邮件还没有发送。")
[]
>>> claimed_deeds("好的，已为你预订了周五的桌子。")
['book']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.domain.errors import Problem
from service.loop.claims.claim_model import claim_probability
from service.loop.claims.deeds import DEEDS, Deed
from service.tuning import CLAIM_LIKELY, CLAIM_POSSIBLE

KIND = "unsupported-claim"
"""Of the problem that tells it."""


_IN_WORDS = {
    "send": "something was sent",
    "save": "something was saved",
    "delete": "something was deleted",
    "cancel": "something was cancelled",
    "book": "something was booked or paid for",
    "schedule": "something was scheduled",
    "call": "somebody was told",
    "run": "something was changed or run",
    "write": "something was written or moved",
    "do": "it was done",
}

_THINGS = (
    r"files?|folders?|director(?:y|ies)|disk|drive|desktop|calendars?|reminders?|alarms?|timers?|"
    r"meetings?|appointments?|events?|contacts?|address book|accounts?|profile|passwords?|"
    r"database|table in|spreadsheet|google|outlook|notion|icloud|dropbox|slack|github|"
    r"repositor\w+|"
    r"repo|branch|pull request|ticket|issue #?\d+|inbox|playlist|shopping (?:list|cart)|"
    r"cart|basket|"
    r"to-?do list|task list|wishlist|whitelist|photos?|album|lights?|lamps?|thermostat|heating|"
    r"temperature|door|doors|tv|speaker|volume|music|wi-?fi|bluetooth|router|server|service|"
    r"printer|phone|laptop|computer|app|system|software|packages?|settings?|subscription|"
    r"notifications?|screen|oven|washing machine|vacuum|robot|blinds|curtains|car|air con\w*|"
    r"wake-?up|standing order|auto-?pay|billing|invoice|order|delivery|backups?|firewall|config\w*|"
    r"cron|daemon|ssh|docker|your (?:list|notes?|budget|records|log|logbook|diary|journal|address)|"
    r"\S+\.(?:txt|md|py|csv|xlsx?|docx?|pdf|json|ya?ml|toml|html?|js|sh|png|jpe?g|zip|log|conf)\b"
)
_CHINESE_THINGS = (
    "文件|文件夹|目录|磁盘|硬盘|桌面|日历|日程|提醒|闹钟|定时|倒计时|会议|约会|联系人|通讯录|账户|"
    "账号|密码|数据库|云盘|网盘|邮箱|购物车|购物清单|待办|任务列表|清单里|清单中|歌单|相册|照片|灯|空调|暖气|"
    "温度|门|窗|电视|音量|音乐|蓝牙|网络|路由器|服务|服务器|打印机|手机|电脑|应用|系统|软件|设置|"
    "订阅|通知|备忘录|表格里|账本|记账|窗帘|扫地机|洗衣机|热水器|烤箱|车|分支|仓库|代码库|程序|"
    "防火墙|脚本|地址改|行程里|[\\w-]+\\.(?:txt|md|py|csv|xlsx?|docx?|pdf|json)"
)

_ADVERBS = (
    r"(?:(?:just|already|now|also|successfully|finally|gone ahead and|went ahead and|then|"
    r"automatically|safely|permanently|officially|both|all|and|quickly|manually|immediately|"
    r"hereby|taken care of it and)\s+){0,3}"
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTED = re.compile(r"“[^”]*”|\"[^\"\n]*\"|「[^」]*」|『[^』]*』|《[^》]*》|‘[^’\n]{12,}’")
_BLOCK_QUOTE = re.compile(r"^\s*>.*$", re.MULTILINE)
_MARKS = re.compile(
    r"[*_#~]+|\[(?=[^\]]*\]\()|\]\([^)]*\)|^\s*(?:[-+•✅☑✔️🎉👍📧📅]|\d+[.)])\s*", re.MULTILINE
)
_END = re.compile(r"(?<=[!?。！？…])\s*|(?<=\.)\s+(?=\S)|[\n;；]+|\s[—–-]{1,2}\s|(?<=[a-z]):\s+")
_PAST = re.compile(
    r"\b(?:last (?:week|month|year|time|night|spring|summer|autumn|fall|winter|\w+day)|yesterday|"
    r"earlier|previously|\w+ ago|back in|in (?:19|20)\d\d|in (?:january|february|march|april|may|"
    r"june|july|august|september|october|november|december)|on (?:mon|tues|wednes|thurs|fri|satur|"
    r"sun)day|according to|your (?:notes|records|history|log) (?:say|show|indicate)|as of|since|"
    r"when we (?:last )?(?:spoke|talked)|our (?:last|previous|earlier) (?:chat|conversation)|"
    r"the (?:last|previous) (?:chat|conversation|session)|this morning)\b|"
    r"昨天|前天|上次|上周|上个?月|去年|之前|以前|此前|先前|当时|曾|那天|早些时候|根据|据你|记录显示|"
    r"历史记录|\d+\s*(?:天|周|个?月|年|小时)前|几天前|去年|(?:19|20)\d\d\s*年|今早|今天早上",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"\b(?:if|once|unless|until|whether|would|could|should|might|may|can|cannot|can't|will|won't|"
    r"shall|let me|let's|going to|about to|want(?:ed)? me to|like me to|need(?:s)? to|able to|"
    r"unable|failed|try|tried|trying|not|never|no|nothing|none|haven't|hasn't|wasn't|weren't|"
    r"isn't|aren't|didn't|couldn't|don't|doesn't|without|before|make sure|please|imagine|suppose|"
    r"pretend|example|for instance|e\.g\.|how to|in order to|as soon as|when(?:ever)?|after|"
    r"i'?ll|you'?ll|we'?ll|it'?ll|instead of|rather than|means that|usually|typically|often|"
    r"always|draft|wish|hope|assum\w+|pending|wait(?:ing|s)? (?:for|until))\b",
    re.IGNORECASE,
)
_CHINESE_UNREAL = re.compile(
    r"如果|要是|假如|若|一旦|只要|等你|等您|等到|是否|要不要|需要我|想让我|可以|能够|能帮|能为|无法|"
    r"不能|没法|没有|没|未|尚|还没|并非|(?<![参开社机])会(?![议员计所场面者晤客])|将于|打算|准备|计划|请|建议|应该|需要|必须|例如|"
    r"比如|譬如|通常|一般|假设|怎么|如何|吗|呢|之后|以后|后，|后就|后再|后会|时，|的话|草稿|失败|不是|"
    r"除非|以便|为了|或者|别|不要|不必|免得|试着|尝试|希望|待|正在|正要|马上|稍后|即将|才能|好像|似乎|看来|听说|据说"
)
_OTHERS = re.compile(
    r"^(?:\W*)(?:you|you've|you have|he|she|they|it seems|someone|somebody|anna|your (?:wife|"
    r"husband|boss|colleague|friend|brother|sister|mother|father|mom|dad|bank|doctor))\b",
    re.IGNORECASE,
)
_CHINESE_OTHERS = re.compile(
    r"(?:^|[，,、])\s*(?:你|您|他|她|它|他们|她们|你们|对方|公司|银行|客服|商家|老师|医生|同事|朋友|"
    r"妈妈|爸爸|老板|店家|系统管理员|管理员|作者|用户)(?:自己|本人|那边|们)?(?:已经|已|刚刚|刚|就|也|都|把|在|的(?:妻子|丈夫|同事|朋友))"
)
_OF_THE_TEXT = re.compile(
    r"\b(?:below|above|following|here(?:'s| is| are)|paragraph|sentence|wording|tone|draft|text|"
    r"essay|poem|story|summary|translation|version|headline|intro(?:duction)?|answer|reply below|"
    r"function|variable|code|snippet|formula|outline|bullet|section|example|list below|"
    r"conversation|keep that in mind|in mind)\b|"
    r"如下|以下|下面|上面|上文|段落|段|句子|句|措辞|语气|草稿|文字|正文|这首|诗|故事|摘要|译文|版本|"
    r"标题|开头|结尾|函数|变量|代码如|公式|大纲|要点|例子|答案|解释|版面",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"(?:(?:ok(?:ay)?|sure|great|alright|yes|perfect)\W+)?(?:all |it's all |it's |that's |it is |"
    r"that is )?(?:done|taken care of|all set|sorted|handled|completed?)(?: now| for you|"
    r" already)?\W*|"
    r"(?:好的?|行|没问题|嗯)?\W*(?:已经?|都|全部|我)?(?:搞定|办好|办妥|弄好|处理好|完成|做好|办完|设好|"
    r"处理完)(?:了|啦|咯)?\W*",
    re.IGNORECASE,
)


_OBJECT = r"\b(?= (?:the|your|it|them|that|an?|all|to|for|both|this|these|those|\d))"


def _english(deed: Deed) -> re.Pattern[str]:
    verbs = rf"(?:{deed.participles})"
    return re.compile(
        r"\b(?:"
        rf"(?:i|we)(?:'ve| have|'d)? {_ADVERBS}{verbs}\b"
        rf"|(?:i|we)(?:'ve| have)\b.{{1,80}}?(?:,| and) {_ADVERBS}{verbs}{_OBJECT}"
        rf"|(?:has|have|'s|'ve) (?:now |just |already |all |both )*been {_ADVERBS}{verbs}\b"
        rf"|(?:is|are|'s|'re) (?:now |all |already |officially |successfully ){{1,3}}{verbs}\b"
        rf"|your (?:[\w.'-]+ ){{1,9}}?(?:is|are|was|were) {_ADVERBS}{verbs}\b"
        rf"|successfully {verbs}\b"
        r")|"
        rf"^\W*(?:(?:done|all set|ok(?:ay)?|sure|great|perfect|alright|good news|yes|all done|"
        rf"got it|no problem|certainly|of course|there you go|confirmed)\W+)?"
        rf"{_ADVERBS}{verbs}{_OBJECT}",
        re.IGNORECASE,
    )


def _chinese(deed: Deed) -> re.Pattern[str]:
    verbs = f"(?:{deed.chinese})"
    ends = (
        "(?:好了|完了|完毕|完成|成功|到位|妥当|好|掉了|掉|出去了|出去|过去了"
        "|给|到|在|至|进|成|了|啦)"
    )
    between = "[^，。！？；,!?;]{0,24}?"
    return re.compile(
        rf"(?:已经?|刚刚|刚才|刚)(?:成功|全部|都|自动|帮|为|替|给|把|将|向|与|和|跟|经|按|在|于|从|你|您|通过){between}{verbs}"
        rf"|(?:已经?|刚刚|刚才|刚){verbs}"
        rf"|已经?{between}{verbs}{ends}"
        rf"|我(?:帮|为|替|给|把|将|已|刚|也|这就|都|先|顺便){between}{verbs}{between}(?:了|好|完|成功|掉)"
        rf"|我{verbs}(?:了|好了|完了)"
        rf"|(?:^|[，,：:])(?:帮|为|替|给)(?:你|您){between}{verbs}{between}(?:了|好|完|成功)"
        rf"|{verbs}(?:成功|完毕|完成|好了|好啦|掉了|出去了|完了)"
        rf"|(?:^|[，,])(?:把|将){between}{verbs}{between}(?:了|好了)"
    )


_ENGLISH = tuple((deed, _english(deed)) for deed in DEEDS)
_CHINESE = tuple((deed, _chinese(deed)) for deed in DEEDS)
_WORDS = tuple(
    (deed.name, re.compile(rf"\b(?:{deed.participles})\b|{deed.chinese}", re.IGNORECASE))
    for deed in DEEDS
)
_OUTSIDE = re.compile(rf"\b(?:{_THINGS})", re.IGNORECASE)
_CHINESE_OUTSIDE = re.compile(_CHINESE_THINGS)
_HAN = re.compile(r"[\u3400-\u9fff]")


def claimed_deeds(answer: str) -> list[str]:
    """The kinds of change that an answer claims to have made, each once, see `Deed.name`; "do"
    where it is nothing but "Done."."""
    text = unicodedata.normalize("NFKC", answer).replace("’", "'").replace("‘", "'")
    plain = text
    for pattern in (_CODE, _BLOCK_QUOTE, _QUOTED, _MARKS):
        plain = pattern.sub(" ", plain)
    if _DONE.fullmatch(plain.strip()):
        return ["do"]
    kinds: dict[str, None] = {}
    for sentence in filter(None, (each.strip() for each in _END.split(plain))):
        kinds.update(dict.fromkeys(_in_sentence(sentence)))
    return [kind for kind in kinds if kind != "do" or len(kinds) == 1]


def _in_sentence(sentence: str) -> list[str]:
    probability = claim_probability(sentence)
    if probability < CLAIM_POSSIBLE:
        return []
    if by_patterns := [*_by_patterns(sentence)]:
        return by_patterns
    if probability < CLAIM_LIKELY or sentence.endswith("?"):
        return []
    return [name for name, words in _WORDS if words.search(sentence)] or ["do"]


def _by_patterns(sentence: str) -> Iterable[str]:
    chinese = bool(_HAN.search(sentence))
    if sentence.endswith("?") or _PAST.search(sentence):
        return
    if (_CHINESE_OTHERS if chinese else _OTHERS).search(sentence):
        return
    for deed, pattern in _CHINESE if chinese else _ENGLISH:
        match = pattern.search(sentence)
        if match is None:
            continue
        clause = _clause(sentence, match, chinese=chinese)
        if (_CHINESE_UNREAL if chinese else _UNREAL).search(clause):
            continue
        outside = (_CHINESE_OUTSIDE if chinese else _OUTSIDE).search(sentence)
        if _OF_THE_TEXT.search(sentence) and not outside:
            continue
        if deed.needs_object and not outside:
            continue
        if " by " in sentence[match.end() :] and not chinese and " by you" not in sentence:
            tail = sentence[match.end() :]
            if re.search(r"\bby [A-Z]", tail):
                continue  # somebody else did it
        yield deed.name


def _clause(sentence: str, match: re.Match[str], *, chinese: bool) -> str:
    """The words that can take back what a match says: those before it, and the match itself."""
    begin = max((sentence.rfind(mark, 0, match.start()) for mark in ",，:："), default=-1) + 1
    if not chinese and re.match(
        r"\W*(?:if|once|when|unless|as soon as|after|before)\b", sentence, re.IGNORECASE
    ):
        begin = 0
    return sentence[begin : match.end()]


class DoneByTool(NamedTuple):
    """A call that succeeded and may have changed something."""

    name: str
    """Of the tool."""
    words: str
    """Its description, and the call's arguments."""


def unsupported(answer: str, done: Sequence[DoneByTool]) -> Problem | None:
    """What a person is told of an answer that claims what no tool has done; None where none does.

    Args:
        answer: the model's words.
        done: all calls of the run loop that succeeded, but for those of read-only tools.
    """
    claims = [each for each in claimed_deeds(answer) if not _supported(each, done)]
    if not claims:
        return None
    what = ", ".join(_IN_WORDS[each] for each in claims)
    return Problem(
        kind=KIND,
        title="The answer claims more than was done",
        detail=f"It says that {what}, and no tool of this run loop has done that",
        advice="Look for yourself before you rely on it.",
    )


def _supported(name: str, done: Sequence[DoneByTool]) -> bool:
    if name == "do":
        return bool(done)
    tools = re.compile(next(each.tools for each in DEEDS if each.name == name), re.IGNORECASE)
    return any(tools.search(f"{each.name} {each.words}") for each in done)
