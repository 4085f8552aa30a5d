"""How options are named in Chinese, where no space tells a word from a part of another one.

An option is named by all of it, by two characters or more that only it has, or by what is left of
it when the beginning and the end that all options share are taken off (大 of 大杯, 中杯, 小杯);
beside that stands nothing but what says that it is wanted. So 大的吧 names 大杯, and 大家都来 none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTERS = "abcdefgh"
_DIGITS = {
    digit: place
    for digits in ("一二三四五六七八九十", _LETTERS)
    for place, digit in enumerate(digits)
}
_MEASURE = "[个项种款条家间张份杯本位类只件双辆块瓶碗套班]"
_CALLED_FOR = (
    r"(?:(?:嗯+|好|好的|行|可以|哦|ok)\s+)?(?:那就|那|就|还是|当然|肯定)?"
    r"(?:请|麻烦)?(?:你)?(?:帮我们?|给我们?|为我|替我)?(?:我们|我|咱们)?(?:觉得|比较|更|最)?(?:想要|想|要|喜欢)?"
    r"(?:就)?(?:选择?|要|来|去|点|用|买|订|喝|吃|坐|是)?"
)
_THAT = rf"(?:(?:那|这)?一?{_MEASURE})?\s*"
_BE_IT = (
    rf"\s*(?:的话)?的?(?:(?:那|这)一?{_MEASURE}|一{_MEASURE})?"
    r"(?:吧|好了|就好|就行了?|就可以了?|也行|也可以|可以|行|好|比较好|更好|最好|挺好|不错|啊|呀|哦)?吧?"
    r"(?:\s*(?:谢谢你?|多谢))?"
)
_PLACE = re.compile(
    rf"{_CALLED_FOR}(?:第|选项|方案)?(?P<digit>\d{{1,2}}|[一二三四五六七八九十]|[a-h])"
    rf"(?P<measure>号|{_MEASURE})?(?:选项|方案)?{_BE_IT}"
)
_SAYS_PLACE = re.compile("第|选|方案")
_LAST = re.compile(rf"{_CALLED_FOR}最后(?:一?{_MEASURE})?{_BE_IT}")
_FRAME = re.compile(
    r"我(?:们)?|想要?|要|就|请|帮我?|给我?|选择?|来|吧|的话|的|那(?:个|款|种|家)?"
    r"|这(?:个|款|种|家)?|一?[个款杯份种家项]|好的?|可以"
    r"|谢谢|还是|觉得|喜欢|更|比较|用|是|呢|啊|嗯|了|和|跟|与|还有|以及|行"
)
_MOST_BESIDE = 40
"""Characters: more beside an option say more than that it is wanted."""


def named_in_chinese(said: str, options: Sequence[str]) -> set[int]:
    """The options that words with Chinese in them name, and say nothing else."""
    said = said.strip()
    named = set[int]()
    for at, names in enumerate(_names(options)):
        for name in names:
            form = rf"{_CALLED_FOR}{_THAT}{re.escape(name)}{_BE_IT}"
            if len(said) <= len(name) + _MOST_BESIDE and re.fullmatch(form, said):
                named.add(at)
                break
    return named or _by_part(said, options)


def place_in_chinese(said: str, options: Sequence[str]) -> int | None:
    """The place that words name in Chinese: 第二个, 选2, 二. 两个 and 三杯 are how many."""
    if len(said) > _MOST_BESIDE:
        return None
    if _LAST.fullmatch(said):
        return len(options) - 1
    match = _PLACE.fullmatch(said)
    if match is None:
        return None
    digit = match["digit"]
    clear = _SAYS_PLACE.search(said[: match.start("digit")]) or match["measure"] == "号"
    if not clear and (match["measure"] is not None or digit in _LETTERS):
        return None
    place = int(digit) - 1 if digit.isdecimal() else _DIGITS[digit]
    elsewhere = any(
        _HAN.match(digit) and digit in option for at, option in enumerate(options) if at != place
    )
    return None if elsewhere and not clear else place


def without_frame(said: str) -> str:
    """Words without those Chinese ones that only say that something is chosen."""
    return _FRAME.sub(" ", said)


def _names(options: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What each option is called: all of it, and what only it has."""
    beginning = _beginning(options) if len(options) > 1 else ""
    ends = [option[len(beginning) :][::-1] for option in options]
    end = _beginning(ends) if len(options) > 1 else ""
    for option in options:
        own = option[len(beginning) : len(option) - len(end)].strip()
        yield tuple(dict.fromkeys(filter(None, (option, own if _HAN.search(own) else ""))))


def _beginning(options: Sequence[str]) -> str:
    """What all of them begin with."""
    first, last = min(options), max(options)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first if same is None else first[:same]


def _by_part(said: str, options: Sequence[str]) -> set[int]:
    """Options that hold what is left of the words, two characters at least."""
    holding = set[int]()
    whole = re.compile(rf"{_CALLED_FOR}{_THAT}(?P<part>.{{2,30}}?){_BE_IT}")
    match = whole.fullmatch(said) if len(said) <= _MOST_BESIDE else None
    for part in filter(None, (said, match["part"] if match else "")):
        if len(_HAN.findall(part)) > 1:
            holding = {at for at, option in enumerate(options) if part in option}
        if holding:
            break
    return holding
