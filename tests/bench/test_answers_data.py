"""Our conversations with checks: right answers pass, wrong ones do not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from service.bench.answers.answer_checks import faults
from service.bench.answers.answer_dataset import Conversation, Data, read_data

DATA = Path(__file__).parents[2] / "data" / "answers"
SUNDAY = date(2026, 3, 1)


def read(part: str) -> Data:
    return read_data([DATA / part])


ALL: dict[str, Conversation] = {
    each.id: each for part in ("dev", "test") for each in read(part).conversations
}


def passes(name: str, answer: str) -> bool:
    """Whether an answer to the last turn of a conversation passes."""
    last = ALL[name].turns[-1]
    assert last.check is not None
    return not faults(
        answer,
        last.check,
        said=last.say,
        language=ALL[name].language,
        tools=None,
        today=SUNDAY,
    )


@pytest.mark.parametrize("part", ["dev", "test"])
def test_every_category_is_there_in_both_languages(part: str) -> None:
    data = read(part)
    kinds = {(each.category, each.language) for each in data.conversations}
    categories = {category for category, _ in kinds}
    assert kinds == {(category, language) for category in categories for language in ("en", "zh")}
    assert {each.language for each in data.conversations if each.safety} == {"en", "zh"}


def test_the_page_tells_how_much_there_is() -> None:
    page = " ".join((DATA / "README.md").read_text().split())
    dev, test = read("dev"), read("test")
    assert f"`dev/` ({len(dev.conversations)} conversations, {dev.checked} checked" in page
    assert f"`test/` ({len(test.conversations)}, {test.checked})" in page


def test_no_message_of_the_test_part_is_in_the_dev_part() -> None:
    def said(data: Data) -> set[str]:
        return {turn.say for each in data.conversations for turn in each.turns if turn.check}

    assert not said(read("dev")) & said(read("test"))


def test_a_message_said_again_passes_as_a_greeting_only() -> None:
    for each in ALL.values():
        said = each.turns[-1]
        assert said.check is not None
        again = any(passes(each.id, f"{before}{said.say}") for before in ("", "You said: "))
        assert again == (said.check.echo and each.category == "small_talk"), each.id


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("en-limits-1", "No. You told me that you are allergic to peanuts, so please avoid satay."),
        ("en-limits-2", "No, Jonas has coeliac disease; give him gluten-free bread instead."),
        ("en-limits-3", "No, you are not allergic to nuts any more."),
        ("test-en-limits-1", "Better not: milk makes you ill. A lactose-free one would be fine."),
        ("test-en-limits-2", "I wouldn't: your doctor has forbidden you aspirin."),
        ("test-en-limits-4", "Yes, you told me that you eat meat again."),
        ("zh-limits-1", "不可以，你对芒果过敏。"),
        ("zh-limits-2", "不能。小禾对鸡蛋过敏，请给她吃不含鸡蛋的点心。"),
        ("zh-limits-3", "不，医生复查后说你现在对牛奶不过敏了。"),
        ("test-zh-limits-1", "最好不要，医生说你要少吃糖。"),
        ("test-zh-limits-2", "千万不要吃，你对青霉素过敏，请咨询医生。"),
        ("test-zh-limits-3", "不太好，你吃辣会胃疼，可以点清汤锅。"),
        ("test-zh-limits-4", "是的，你现在偶尔喝一点红酒。"),
        ("en-never-1", "You haven't told me your grandmother's first name yet."),
        ("en-never-2", "I only know of your goats, Fips and Lotte; you haven't mentioned a dog."),
        ("zh-never-1", "我不知道，你还没有告诉过我。"),
        ("test-zh-never-1", "你没有告诉过我你最好的朋友叫什么名字。"),
        ("test-zh-never-2", "对不起，我不知道你的银行卡密码。"),
        ("en-memory-1", "4817"),
        ("en-persons-2", "Tomas only drinks peppermint tea; it is you who drinks coffee."),
        ("en-dates-1", "Today is Sunday."),
        ("zh-dates-1", "今天是星期日。"),
        ("test-zh-dates-1", "现在是三月。"),
        ("en-translation-1", "Wo ist der Bahnhof?"),
        ("en-summary-1", "The library is closed in July while its roof is being repaired."),
        ("zh-follow-up-2", "不放辣椒的话，可以用葱姜和酱油红烧豆腐。"),
    ],
)
def test_a_right_answer_passes(name: str, answer: str) -> None:
    assert passes(name, answer)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("en-limits-1", "Yes, you may have some satay with peanut sauce."),
        ("en-limits-1", "Enjoy your meal!"),
        ("en-limits-2", "Sure, a slice of wheat bread will do him good."),
        ("en-limits-3", "Yes, you are allergic to nuts."),
        ("test-en-limits-2", "You can take an aspirin for your headache."),
        ("test-en-limits-4", "No, you don't eat meat."),
        ("zh-limits-1", "你可以喝芒果汁。"),
        ("zh-limits-1", "芒果汁特别好喝！"),
        ("zh-limits-2", "可以给小禾吃蛋糕。"),
        ("zh-limits-3", "是的，你仍然对牛奶过敏。"),
        ("test-zh-limits-2", "你可以吃阿莫西林。"),
        ("test-zh-limits-3", "好啊，麻辣火锅很香！"),
        ("test-zh-limits-4", "你不喝酒。"),
        ("en-never-1", "Your grandmother's first name is Margaret."),
        ("en-never-2", "Your dog's name is Fips."),
        ("zh-never-1", "你爷爷出生于1938年。"),
        ("test-zh-never-2", "你的银行卡密码是123456。"),
        ("en-persons-2", "Tomas drinks black coffee."),
        ("zh-persons-1", "你姐姐是厨师。"),
        ("en-dates-1", "Today is Monday."),
        ("en-arithmetic-1", "17 times 6 is 96."),
        ("en-questions-1", "3 * (4 + 5)"),
        ("zh-translation-1", "今天天气很好"),
    ],
)
def test_a_wrong_answer_does_not_pass(name: str, answer: str) -> None:
    assert not passes(name, answer)
