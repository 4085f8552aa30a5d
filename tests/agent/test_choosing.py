"""Which option a person's words choose, in English and Chinese."""

from __future__ import annotations

import pytest

from service.routing.choices.option_choice import chosen, may_choose

TEA = ("Green tea", "Black tea", "Coffee", "Hot chocolate")
CITIES = ("里斯本", "巴塞罗那", "去罗马看斗兽场", "待在家里")
TABLES = ("2 people", "4 people", "6 people")
SEATS = ("一等座", "二等座", "商务座")
CUPS = ("大杯", "中杯", "小杯")
TOWNS = ("北京", "上海", "广州")
DAYS = ("今天", "明天", "后天")
SEND = ("发送", "取消")
YES_NO = ("是", "否")
SIZES = ("small", "large")
KEEP = ("keep it", "delete it")
BACKUP = ("Delete the old backup", "Keep both", "Ask me later")


@pytest.mark.parametrize(
    ("words", "options", "option"),
    [
        ("Coffee", TEA, "Coffee"),
        ("  COFFEE!  ", TEA, "Coffee"),
        ("“coffee”", TEA, "Coffee"),
        ("2", TEA, "Black tea"),
        ("#2", TEA, "Black tea"),
        ("2.", TEA, "Black tea"),
        ("number two", TEA, "Black tea"),
        ("option 3 please", TEA, "Coffee"),
        ("the second", TEA, "Black tea"),
        ("I'll take the second one, please.", TEA, "Black tea"),
        ("the 3rd", TEA, "Coffee"),
        ("the last one", TEA, "Hot chocolate"),
        ("b", TEA, "Black tea"),
        ("green", TEA, "Green tea"),
        ("green teas", TEA, "Green tea"),
        ("the coffee one", TEA, "Coffee"),
        ("coffee please", TEA, "Coffee"),
        ("I'd like the green one, thanks", TEA, "Green tea"),
        ("A coffee would be great", TEA, "Coffee"),
        ("choclate", TEA, "Hot chocolate"),
        ("cofee", TEA, "Coffee"),
        ("4", TABLES, "4 people"),
        ("2", TABLES, "2 people"),
        ("the second", TABLES, "4 people"),
        ("keep both", BACKUP, "Keep both"),
        ("delete it", BACKUP, "Delete the old backup"),
        ("later", BACKUP, "Ask me later"),
        ("里斯本", CITIES, "里斯本"),
        ("里斯本吧", CITIES, "里斯本"),
        ("我想去里斯本。", CITIES, "里斯本"),
        ("第二个", CITIES, "巴塞罗那"),
        ("就第二个吧", CITIES, "巴塞罗那"),
        ("选2", CITIES, "巴塞罗那"),
        ("２", CITIES, "巴塞罗那"),
        ("二", CITIES, "巴塞罗那"),
        ("第三个吧", CITIES, "去罗马看斗兽场"),
        ("选B", CITIES, "巴塞罗那"),
        ("最后一个", CITIES, "待在家里"),
        ("罗马", CITIES, "去罗马看斗兽场"),
        ("在家", CITIES, "待在家里"),
        ("选巴塞罗那", CITIES, "巴塞罗那"),
        ("茶", ("茶", "coffee", "milk"), "茶"),
        ("来杯茶吧", ("茶", "coffee", "milk"), "茶"),
        ("茶吧", ("茶", "coffee", "milk"), "茶"),
        ("要coffee", ("茶", "coffee", "milk"), "coffee"),
        ("要第二个", CITIES, "巴塞罗那"),
        ("嗯，还是里斯本好", CITIES, "里斯本"),
        ("那就里斯本那个吧，谢谢", CITIES, "里斯本"),
        ("里斯本 please", CITIES, "里斯本"),
        ("二等的就行", SEATS, "二等座"),
        ("请给我一等座", SEATS, "一等座"),
        ("第一种", ("商务座", *SEATS[:2]), "商务座"),
        ("第二个", ("商务座", *SEATS[:2]), "一等座"),
        ("大的", CUPS, "大杯"),
        ("要小的吧", CUPS, "小杯"),
        ("来个中杯", CUPS, "中杯"),
        ("要一杯大的", CUPS, "大杯"),
        ("明天吧", DAYS, "明天"),
        ("就后天", DAYS, "后天"),
        ("选二", ("发送", "取消"), "取消"),
        ("取消吧", ("发送", "取消"), "取消"),
        ("不辣的", ("不辣", "微辣", "特辣"), "不辣"),
        ("no sugar please", ("Sugar", "No sugar"), "No sugar"),
        ("yep", ("Yes", "No"), "Yes"),
        ("No, thanks", ("Yes", "No"), "No"),
        ("是的", YES_NO, "是"),
        ("好的，谢谢", YES_NO, "是"),
        ("不用了", YES_NO, "否"),
        ("small one please", SIZES, "small"),
        ("the large looks better", SIZES, "large"),
        ("20 GB is enough", ("Basic, 5 GB", "Plus, 20 GB", "Unlimited"), "Plus, 20 GB"),
        ("weds", ("Monday", "Wednesday", "Friday"), "Wednesday"),
        ("fri please", ("Monday", "Wednesday", "Friday"), "Friday"),
        ("mushroom", ("mushrooms", "olives"), "mushrooms"),
        ("keep", KEEP, "keep it"),
        ("I'd say 2", TEA, "Black tea"),
        ("number one", TEA, "Green tea"),
    ],
)
def test_an_option_is_chosen_as_people_name_it(
    words: str, options: tuple[str, ...], option: str
) -> None:
    assert chosen(words, options) == (option,)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("tea", TEA),
        ("5", TEA),
        ("0", TEA),
        ("the ninth", TEA),
        ("green or black", TEA),
        ("coffee and hot chocolate", TEA),
        ("anything but coffee", TEA),
        ("not the coffee", TEA),
        ("What is the coffee like?", TEA),
        ("none of them", TEA),
        ("whatever", TEA),
        ("Do the backup and then tell me how coffee is grown in the south of Brazil", TEA),
        ("", TEA),
        ("?!", TEA),
        ("不要里斯本", CITIES),
        ("里斯本怎么样？", CITIES),
        ("帮我订一张票", CITIES),
        ("都不要", CITIES),
        ("第九个", CITIES),
        *(
            (words, SEATS)
            for words in ("等一下", "再说一遍", "我想一想", "请等一会儿", "等等", "一会儿见")
        ),
        *((words, SEATS) for words in ("座位靠窗", "两个", "要三份", "商量一下", "一个人去")),
        *((words, CUPS) for words in ("中午再说", "小心点", "大家都来", "大概吧", "中国好大")),
        *((words, CUPS) for words in ("两杯", "杯子脏了", "小明也要喝")),
        *(
            (words, TOWNS)
            for words in ("晚上再说", "早上好", "北京今天下雪", "上班去了", "广告太多")
        ),
        *((words, SEND) for words in ("发烧了", "取快递", "发工资了", "送我去机场", "消息太多")),
        *(
            (words, DAYS)
            for words in ("明白", "明天见面聊工作", "天气真好", "今年过年早", "后面再说")
        ),
        *(
            (words, YES_NO)
            for words in ("但是", "要是下雨呢", "还是", "可是我忙", "否则", "不一定")
        ),
        *(
            (words, SIZES)
            for words in ("-1", "−2", "+1", "a small question", "small talk about Bob")
        ),
        *((words, KEEP) for words in ("keep calm", "delete the photos", "keep me posted", "it")),
        *((words, TEA) for words in ("-1", "the one", "I'd like two", "for 2", "toffee", "1.5")),
        *(
            (words, ("plane", "train", "car"))
            for words in ("I have a plan", "train the dog", "care")
        ),
        ("late", ("Espresso", "Latte")),
        ("Do the backup", BACKUP),
        ("a hot bath", TEA),
        ("coffee makes me nervous", TEA),
        ("yes", TEA),
        ("no", TEA),
    ],
)
def test_words_that_are_not_clear_choose_nothing(words: str, options: tuple[str, ...]) -> None:
    assert chosen(words, options) == ()


@pytest.mark.parametrize(
    ("words", "options", "expected"),
    [
        ("1 and 3", TEA, ("Green tea", "Coffee")),
        ("1,3", TEA, ("Green tea", "Coffee")),
        ("the first and the last", TEA, ("Green tea", "Hot chocolate")),
        ("coffee and green tea", TEA, ("Green tea", "Coffee")),
        ("green, black", TEA, ("Green tea", "Black tea")),
        ("all of them", TEA, TEA),
        ("coffee", TEA, ("Coffee",)),
        ("第一个和第三个", CITIES, ("里斯本", "去罗马看斗兽场")),
        ("里斯本和罗马", CITIES, ("里斯本", "去罗马看斗兽场")),
        ("全部", CITIES, CITIES),
        ("都要", CITIES, CITIES),
        ("1、2", CITIES, ("里斯本", "巴塞罗那")),
    ],
)
def test_several_are_chosen_where_several_may_be(
    words: str, options: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert chosen(words, options, multiple=True) == expected


@pytest.mark.parametrize(
    ("words", "may"),
    [
        ("tea", True),
        ("the blue one", True),
        ("蓝色的", True),
        ("What's the difference?", False),
        ("none", False),
        ("有什么区别", False),
        ("Please write a long letter to my aunt about her birthday party", False),
    ],
)
def test_short_words_may_have_been_meant_as_a_choice(words: str, may: bool) -> None:
    assert may_choose(words) is may


@pytest.mark.parametrize("words", ["a " * 20_000, "第" * 20_000, "1, " * 5_000, "(" * 9_000])
def test_long_words_choose_nothing_and_take_no_time(words: str) -> None:
    assert chosen(words, TEA, multiple=True) in ((), ("Green tea",))
