"""What is remembered, conversations under way, and what a person says next in them.

Written by hand for these tests. The numbers of
`service.loop.recall.topic_shift` were set on others.
"""

from __future__ import annotations

from typing import NamedTuple

Turns = tuple[tuple[str, str], ...]


class Continuation(NamedTuple):
    """What a person says next."""

    turns: Turns
    words: str
    about: str | None = None
    """The remembered loop that it is about; None: it goes on, or memory knows nothing of it."""


REMEMBERED_EN: dict[str, Turns] = {
    "gym": (
        (
            "My gym membership costs 39 euros a month and can be cancelled until the 15th.",
            "39 euros, notice until the 15th.",
        ),
    ),
    "allergy": (("Our son Leo must not have nuts or sesame.", "No nuts and no sesame for Leo."),),
    "hotel": (
        (
            "In Rome we stayed at the Albergo del Sole; room 12 was quiet, towards the courtyard.",
            "Room 12, towards the courtyard. Noted.",
        ),
    ),
    "invoice": (
        (
            "The plumber's invoice is 412.60 euros and is due on the 20th of March.",
            "412.60 euros, due on 20 March.",
        ),
    ),
    "router": (
        (
            "The Fritzbox has the address 192.168.178.1 and runs firmware 7.57.",
            "192.168.178.1, firmware 7.57.",
        ),
    ),
    "mother": (
        (
            "My mother's phone number is 030 5557712; she naps between one and three.",
            "I'll keep that. Not between one and three.",
        ),
    ),
    "wine": (
        (
            "The red wine that we liked at Clara's was a Blaufränkisch from 2019.",
            "A Blaufränkisch, 2019.",
        ),
    ),
    "job": (
        (
            "I have a job interview at Siemens on Monday at ten, with Ms. Okafor.",
            "Monday, ten o'clock, Ms. Okafor. Good luck!",
        ),
    ),
    "repo": (
        (
            "The repository of the billing service is git.acme.io/billing and its main branch is"
            " called trunk.",
            "git.acme.io/billing, branch trunk.",
        ),
    ),
    "medicine": (
        ("The dog gets half a tablet of Apoquel every evening.", "Half a tablet every evening."),
    ),
    "chess": (("Which opening starts with 1. e4 c5?", "The Sicilian Defence."),),
    "poem": (
        (
            "Write me a poem about autumn.",
            "The leaves go down in copper light, the morning fog is thin and white.",
        ),
    ),
}

_EXPRESSIONS = (
    (
        "Explain regular expressions to me.",
        "A regular expression describes a set of strings. A dot matches any character, a star"
        " repeats.",
    ),
    ("How do I match digits?", "Use \\d or [0-9]."),
)
_MOVE = (
    (
        "Help me plan the move to our new flat.",
        "Let us begin with a list: boxes, van, helpers, change of address.",
    ),
    (
        "We have three rooms full of things.",
        "Then count on sixty boxes and a van of 3.5 tonnes.",
    ),
)
_STARS = (
    (
        "Why do stars twinkle?",
        "Because the air bends their light, a little differently each moment.",
    ),
)

SAID_EN = (
    Continuation(_EXPRESSIONS, "And how do I match whitespace?"),
    Continuation(_EXPRESSIONS, "What does the question mark do?"),
    Continuation(_EXPRESSIONS, "ok thanks a lot"),
    Continuation(_MOVE, "How many helpers do we need?"),
    Continuation(_MOVE, "When should we rent the van?"),
    Continuation(_STARS, "Do planets twinkle too?"),
    Continuation(_STARS, "Explain it for a child."),
    Continuation(_EXPRESSIONS, "What is the address of our Fritzbox?", "router"),
    Continuation(_EXPRESSIONS, "How is the main branch of the billing repository called?", "repo"),
    Continuation(_MOVE, "How much was the plumber's bill?", "invoice"),
    Continuation(_MOVE, "When can I call my mother?", "mother"),
    Continuation(_STARS, "What was the name of that wine at Clara's?", "wine"),
    Continuation(_STARS, "When is my interview?", "job"),
    Continuation(_MOVE, "How many tablets does the dog get?", "medicine"),
    Continuation(_STARS, "What must Leo not eat?", "allergy"),
    Continuation(_EXPRESSIONS, "Until when can I cancel the gym?", "gym"),
    Continuation(_MOVE, "Which hotel did we like in Rome?", "hotel"),
    Continuation(_EXPRESSIONS, "How tall is Mount Everest?"),
    Continuation(_STARS, "Give me a synonym for 'quick'."),
    Continuation(_MOVE, "What rhymes with orange?"),
)

REMEMBERED_ZH: dict[str, Turns] = {
    "gym": (("我的健身卡每月三百元，十五号之前可以取消。", "三百元，十五号之前。"),),
    "allergy": (("我儿子乐乐不能吃坚果和芝麻。", "乐乐不吃坚果和芝麻。"),),
    "hotel": (
        ("在西安我们住的是钟楼饭店，十二号房靠院子，很安静。", "十二号房，靠院子，记下了。"),
    ),
    "invoice": (("水管工的账单是四百一十二元，三月二十日之前付。", "四百一十二元，三月二十日。"),),
    "router": (("路由器的地址是192.168.178.1，固件版本7.57。", "好的。"),),
    "mother": (("我妈的电话是55577712，她一点到三点午睡。", "一点到三点不打电话。"),),
    "wine": (("在小红家喝的那瓶红酒是2019年的赤霞珠。", "2019年赤霞珠。"),),
    "job": (("周一上午十点我在西门子面试，面试官是欧女士。", "周一十点，欧女士，祝你好运！"),),
    "repo": (("账务服务的仓库是git.acme.io/billing，主分支叫trunk。", "记下了，分支trunk。"),),
    "medicine": (("狗每天晚上吃半片药。", "每晚半片。"),),
    "chess": (("1. e4 c5是什么开局？", "西西里防御。"),),
    "poem": (("写一首关于秋天的诗。", "黄叶随风落，晨雾薄如纱。"),),
}

_EXPRESSIONS_ZH = (
    ("给我讲讲正则表达式。", "正则表达式描述一组字符串，点匹配任意字符，星号表示重复。"),
    ("怎么匹配数字？", "用\\d或者[0-9]。"),
)
_MOVE_ZH = (
    ("帮我计划搬家。", "先列个清单：箱子、货车、帮手、改地址。"),
    ("我们有三个房间的东西。", "那大概要六十个箱子和一辆大货车。"),
)
_STARS_ZH = (("星星为什么会闪烁？", "因为大气不断地折射它们的光。"),)

SAID_ZH = (
    Continuation(_EXPRESSIONS_ZH, "那怎么匹配空格？"),
    Continuation(_EXPRESSIONS_ZH, "问号是什么意思？"),
    Continuation(_EXPRESSIONS_ZH, "好的，多谢你。"),
    Continuation(_MOVE_ZH, "需要几个帮手？"),
    Continuation(_MOVE_ZH, "什么时候租车合适？"),
    Continuation(_STARS_ZH, "行星也会闪吗？"),
    Continuation(_STARS_ZH, "给小孩子讲一遍。"),
    Continuation(_EXPRESSIONS_ZH, "我们路由器的地址是多少？", "router"),
    Continuation(_EXPRESSIONS_ZH, "账务仓库的主分支叫什么？", "repo"),
    Continuation(_MOVE_ZH, "水管工的账单是多少钱？", "invoice"),
    Continuation(_MOVE_ZH, "什么时候可以给我妈打电话？", "mother"),
    Continuation(_STARS_ZH, "在小红家喝的是什么酒？", "wine"),
    Continuation(_STARS_ZH, "我的面试是什么时候？", "job"),
    Continuation(_MOVE_ZH, "狗每天吃几片药？", "medicine"),
    Continuation(_STARS_ZH, "乐乐不能吃什么？", "allergy"),
    Continuation(_EXPRESSIONS_ZH, "健身卡最晚几号取消？", "gym"),
    Continuation(_MOVE_ZH, "在西安我们住哪家饭店？", "hotel"),
    Continuation(_EXPRESSIONS_ZH, "珠穆朗玛峰有多高？"),
    Continuation(_STARS_ZH, "“快”的同义词有哪些？"),
    Continuation(_MOVE_ZH, "给我一个成语。"),
)
