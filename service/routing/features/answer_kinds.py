"""What kinds of answers a question asks for, and of which kinds a message is.

English and Chinese; of a question in another language it is not known what it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from service.routing.features.embedding_features import Matrix
from service.routing.text.text_reading import Loop

KIND_FEATURES = ("fits_kind", "misfits_kind", "kinds_asked")
"""Of a candidate: whether the message is of a kind that was asked for there last, whether something
was and it is not, and of how many kinds."""
_READ = 200
"""Characters of a question's end, and of a message's beginning."""
_MAY_ASK = re.compile(r"[?？吗呢]")


def _either(english: str, chinese: str) -> re.Pattern[str]:
    return re.compile(rf"{english}|{chinese}", re.IGNORECASE)


ASKED_FOR = {
    "number": _either(
        r"\bhow (?:many|much|old|long|far|big|tall|large|often|high|wide)\b"
        r"|\b(?:budget|amount|price"
        r"|number|quantity|age|size|sum|percentage|phone)\b",
        "多少|几(?![点号])|预算|号码|电话|数量|年龄|多大|多长|多久|金额|价格|尺寸",
    ),
    "time": _either(
        r"\b(?:when|what (?:time|date|day|year|month)|which (?:day|date|month|week|year)|how soon"
        r"|date|deadline|birthday)\b",
        "什么时候|几点|哪天|几号|日期|时间|何时|生日|哪一?年|星期几|周几",
    ),
    "place": _either(
        r"\b(?:where|which (?:city|town|country|folder|place|directory|file|room|airport|station)"
        r"|address|location|destination|folder|path)\b",
        "哪里|哪儿|哪个?(?:城市|地方|文件夹|机场|车站|区|座)|地址|位置|地点|从哪|去哪|在哪|目的地|文件夹|路径",
    ),
    "name": _either(
        r"\bnames?\b|\bwho(?:m|se)?\b|\bcalled\b|\btitle\b|\bsubject\b",
        "谁|叫什么|姓名|名字|标题|哪位|哪些人|称呼|题目|主题",
    ),
    "words": _either(
        r"\b(?:topic|about|say|text|message|content|story|describe|tell (?:me|them)|details?"
        r"|written?|like|anything|mention)\b",
        "写什么|什么内容|内容|说什么|说些什么|怎么说|描述|喜欢|什么样|风格|要求|故事",
    ),
    "yes_or_no": _either(
        r"(?:^|[.,;!?]\s+)(?:do|does|is|are|should|shall|can|could|would|will|did|have|has|may)\b",
        "吗[？?]?$|是否|要不要|需不需要|是不是|可不可以|好不好",
    ),
    "reason": _either(r"\b(?:why|reason|how come)\b", "为什么|为何|原因|理由"),
}
_SURNAME = (
    "(?:[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖萧田董袁潘蒋蔡"
    "余杜叶程苏魏吕丁沈姚卢姜崔钟谭陆汪范廖贾韦邹孟熊秦邱薛闫阎侯陶黎贺顾毛郝龚邵钱戴莫孔汤]|欧阳|司马|诸葛|上官)"
)
OF_KIND = {
    "number": _either(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty"
        r"|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|half|dozen|cheap\w*|few"
        r"|couple|both|just (?:me|us))\b",
        "[一二三四五六七八九十百千万两俩半]|便宜|越.越好|不限|(?:我|你)(?:跟|和)",
    ),
    "time": _either(
        r"\d|\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?\b|\b(?:jan\w*|feb\w*"
        r"|mar(?:ch)?|apr\w*|may|june?|july?|aug\w*|sept?\w*|oct\w*|nov\w*|dec\w*|today|tonight"
        r"|tomorrow|morning|noon|afternoon|evening|night|week\w*|month|year|soon|later|now|asap"
        r"|before|after|any ?time|spring|summer|autumn|winter)\b",
        "[年月日号点]|周|星期|礼拜|今天|明天|后天|上午|下午|早|晚|现在|马上|尽快|月底|年底|假期|之后|以前",
    ),
    "place": _either(
        r"^(?:in|at|to|on|near|from|into|under|somewhere|here|there|the)\b|[/\\~]|\d+ \w+"
        r"|^(?-i:[A-Z])",
        "[市路街区省县楼家店村镇国号里]|公司|学校|机场|车站|这边|附近|位置|老家|^[\u4e00-\u9fff]{2,5}$",
    ),
    "name": _either(
        r"^(?:i am|i'm|my|call me|it'?s|it is|just|put|the|use)\b|^(?-i:[A-Z])",
        "我叫|我是|叫我|姓|先生|女士|小姐|老师|经理|[老小][\u4e00-\u9fff]|大家|全|公司|^[\u4e00-\u9fff]{2,4}$"
        rf"|^(?:就|请|写|叫|用|是){{0,2}}{_SURNAME}[\u4e00-\u9fff]{{0,2}}",
    ),
    "words": _either(
        r"^(?:that|tell|say|ask|write|keep|mention|something|about|you|how|the|when|make|put)\b",
        "^(?:说|告诉|问|写|就|请他|让他|随便|你)|一点|一些|喜欢|差不多",
    ),
    "yes_or_no": _either(
        r"^(?:yes|yeah|yep|no|nope|sure|ok(?:ay)?|please|only|if|not|of course"
        r"|i (?:do|don'?t|think)|maybe|definitely|absolutely|fine|both|all|go ahead)\b",
        "^(?:是|要|不|可以|好|只|行|对|嗯|都|随便|没|有|当然)",
    ),
    "reason": _either(
        r"^(?:because|since|the|it|they|i|my|we|to|so|there)\b", "因为|由于|为了|太|坏|不"
    ),
}


def kind_features(text: str, loops: Sequence[Loop]) -> Matrix:
    """One row a candidate, columns as in `KIND_FEATURES`."""
    of_message = {kind for kind, pattern in OF_KIND.items() if pattern.search(text[:_READ])}
    rows = np.zeros((len(loops), len(KIND_FEATURES)))
    for row, loop in zip(rows, loops, strict=True):
        last = loop.turns[-1]
        end = last.text[-_READ:]
        if last.role != "user" and _MAY_ASK.search(end):
            asked = {kind for kind, pattern in ASKED_FOR.items() if pattern.search(end)}
            fits = not asked.isdisjoint(of_message)
            row[:] = fits, bool(asked) and not fits, len(asked)
    return rows
