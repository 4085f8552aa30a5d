"""Which of the options a person's words choose: "2", "the second one", 第二个, "green, please".

Read in English and Chinese. Nothing is guessed at: an option is named by its place, or by words of
its own beside which nothing else is said but that it is wanted. Where two options could be meant
and one is asked for, the words say what is *not* wanted, or other things too, none is chosen.

Where two options mean just yes and no, these are known in other words, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

from service.memory.ledger.terms import STOP_WORDS
from service.routing.choices.chinese_options import (
    named_in_chinese,
    place_in_chinese,
    without_frame,
)
from service.tuning import CHOICE_LEAST_LIKENESS, CHOICE_MOST_OTHER_WORDS

_YES_OPTION = re.compile(
    r"(?:yes|yep|ok|okay|sure)(?: please)?|是的?|对的?|好的?|要的?|可以|行|有|同意"
)
_NO_OPTION = re.compile(
    r"(?:no|nope)(?: (?:thanks|thank you))?"
    r"|否|不|不是的?|不对|不好|不要|不用|不可以|不行|没有?|不同意"
)
_YES = re.compile(
    r"(?:yes+|yeah|yep|yup|y|sure|ok|okay|of course|certainly|definitely|absolutely|please do"
    r"|go ahead|do it|i do)(?: (?:yes|please|thanks|thank you|of course|sure|do))*"
    r"|(?:嗯+ ?)?(?:是|是的|对|对的|好|好的|可以|行|要|要的|同意|没问题|当然[要是]?"
    r"|嗯|有|有的)"
    r"(?:[吧啊呀哦]| ?谢谢)*"
)
_NO = re.compile(
    r"(?:no+|nope|nah|n|no way|not really|of course not|certainly not|i don'?t|don'?t)"
    r"(?: (?:no|please|thanks|thank you))*"
    r"|(?:不|不是的?|不[要用]了?|不行|不可以|不对|不同意|没有|否|当然不)"
    r"(?:[吧啊呀哦]| ?谢谢)*"
)


def yes_or_no(said: str, options: Sequence[str]) -> int | None:
    """The place of the option that a plain yes or no chooses; None: it is none, or they are not."""
    yes = [at for at, option in enumerate(options) if _YES_OPTION.fullmatch(option)]
    no = [at for at, option in enumerate(options) if _NO_OPTION.fullmatch(option)]
    if len(yes) != 1 or len(no) != 1:
        return None
    if _YES.fullmatch(said):
        return yes[0]
    return no[0] if _NO.fullmatch(said) else None


_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_SIGNED = re.compile(r"[-\u2212–+]\d")
_LEAST_MISSPELT = 5
"""Letters: a shorter word that is like one of an option is often another word (late, latte)."""
_ORDINALS = (
    "first 1st",
    "second 2nd",
    "third 3rd",
    "fourth 4th",
    "fifth 5th",
    "sixth 6th",
    "seventh 7th",
    "eighth 8th",
    "ninth 9th",
    "tenth 10th",
)
_PLACES = {word: place for place, words in enumerate(_ORDINALS) for word in words.split()}
_CARDINALS = {
    word: place
    for place, word in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}
_LETTERS = {letter: place for place, letter in enumerate("abcdefgh")}
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_SHORT_FORMS = {
    **{each[:3]: each for each in (*_DAYS, *_MONTHS)},
    "tues": "tuesday",
    "weds": "wednesday",
    "thur": "thursday",
    "thurs": "thursday",
    "sept": "september",
}
_MEANT = (
    r"(?:(?:i(?:'d| would| will|'ll)?|we(?:'d|'ll)?|let'?s|please|ok|okay|yes|sure|just|then|hmm+"
    r"|um|well|probably|maybe|so|go (?:with|for)|take|pick|choose|select|say|think|guess|it'?s"
    r"|my (?:choice|pick|answer) is|make it)[\s,]+){0,6}"
)
"""What may stand before a bare number that is the place of an option. After "for", "like" or "have"
it would be how many."""
_WANTED = (
    r"(?:(?:i(?:'d| would| will|'ll)?|we(?:'d|'ll)?|let'?s|please|ok|okay|yes|sure|just|then|hmm+"
    r"|um|well|probably|maybe|so|go|with|for|take|pick|choose|select|say|think|guess|it'?s|use|do|have"
    r"|get|want|like|prefer|give me|to|my (?:choice|pick|answer) is|make it)[\s,]+){0,6}"
)
_POLITE_END = r"(?:\s+(?:please|pls|thanks|thank you|then)){0,2}"
_KIND_OF = r"(?:option|number|no\.?|nr\.?|choice|answer|item|#)"
_NUMBER = re.compile(
    rf"{_MEANT}(?:the\s+)?(?P<kind>{_KIND_OF}\s*)?[#(]?\s*(?P<word>\d{{1,2}}|[a-z]+)\s*[).]?"
    rf"{_POLITE_END}"
)
_ORDINAL = re.compile(
    rf"{_WANTED}(?:the\s+)?(?:very\s+)?(?P<word>last|[a-z]+|\d{{1,2}}(?:st|nd|rd|th))"
    rf"(?:\s+(?:one|option|choice|item))?{_POLITE_END}"
)
_ALL = re.compile(
    r"(?:(?:i(?:'d| would)? ?(?:like|want|take|need)|give me|let's (?:do|take))\s+)?"
    r"(?:all|both|every(?:thing| one)?)"
    r"(?: (?:of )?(?:them|these|those|the above|options|two|three))?"
    r"|(?:我?(?:全部?|都|两个都|全都|所有的?)(?:要|选)(?:吧|的|了)?)"
    r"|全部?(?:吧|的)?"
)
_FRAME = re.compile(
    r"\b(?:(?:i|we)(?:'ll| will|'d| would)? do|let'?s do|i(?:'d| would| will|'ll)?|we(?:'d|'ll)?"
    r"|please|pls|thanks|thank you|let'?s|let me|can"
    r"|could|would|will|go|going|take|have|get|give|want|like|prefer|choose|pick|select|think"
    r"|guess|say|rather|make it|use|with|for|the|a|an|one|ones|option|choice|it|that"
    r"|is|be|to|me|my|us|then"
    r"|just|maybe|probably|sounds|good|great|fine|ok|okay|yes|yeah|sure|hmm|um|of|some|and|also|plus"
    r"|in|on|at|by|from|favou?rite|best|better|nice|perfect|lovely|enough|looks?|seems?|works?|fits"
    r"|suits|definitely|actually|well|so)\b"
)
_NEGATION = re.compile(
    r"\b(?:not|no|none|neither|nor|never|without|except|don'?t|doesn'?t|isn'?t|won'?t|anything but"
    r"|other than|instead of|hate|cancel|forget|nothing|skip|stop)\b"
    r"|不|没有?|别|除了|以外|算了|取消|讨厌"
)
_ASKS = re.compile(
    r"[?？]\s*$|^\W*(?:what|which|who|where|when|why|how|is|are|was|do|does|did|has|have|should|could"
    r"|can|would|tell me|explain|compare)\b"
    r"|[吗呢么]\W*$|什么|怎么|为什么|哪|多少|区别|差别|有没有|是不是|能不能|介绍"
)
_BETWEEN = re.compile(
    r"\s*(?:[,;、，；/&+]|\band\b|\bplus\b|\bas well as\b|和|跟|与|还有|以及|加)\s*"
)


def chosen(words: str, options: Sequence[str], *, multiple: bool = False) -> tuple[str, ...]:
    """The options that words choose, in the order of the options; none where they choose none.

    >>> chosen("the second one", ["tea", "coffee"])
    ('coffee',)
    >>> chosen("1 and 3", ["red", "green", "blue"], multiple=True)
    ('red', 'blue')
    >>> chosen("anything but tea", ["tea", "coffee"])
    ()
    >>> chosen("a small question", ["small", "large"])
    ()
    """
    said = _plain(words)
    plain = [_plain(option) for option in options]
    if not said:
        return ()
    exact = [at for at, option in enumerate(plain) if option == said]
    if len(exact) != 1 or _SIGNED.match(words.strip()):
        exact = [at for at, option in enumerate(options) if option.strip() == words.strip()]
    if len(exact) == 1:
        return (options[exact[0]],)
    if _ASKS.search(_folded(words)) or _SIGNED.match(words.strip()):
        return ()
    if (place := yes_or_no(said, plain)) is not None:
        return (options[place],)
    if multiple and _ALL.fullmatch(said):
        return tuple(options)
    named = _places(said, plain)
    parts = [part for part in _BETWEEN.split(_folded(words)) if _plain(part)]
    if multiple and len(parts) > 1:
        each = [_places(_plain(part), plain) for part in parts]
        if all(len(places) == 1 for places in each):
            named = set().union(*each)
    if not named or (len(named) > 1 and not multiple):
        return ()
    return tuple(option for at, option in enumerate(options) if at in named)


def may_choose(words: str) -> bool:
    """Whether words that name no option could be meant to: short, and neither question nor no."""
    said = _folded(words)
    if _ASKS.search(said) or _NEGATION.search(said):
        return False
    left = _TOKEN.findall(without_frame(_FRAME.sub(" ", _plain(words))))
    return len(left) <= CHOICE_MOST_OTHER_WORDS


def _places(said: str, options: Sequence[str]) -> set[int]:
    """Which options words name, by any means."""
    # Their own words first: options may hold a no ("no sugar", 不辣), and numbers.
    named = _mentioned(said, options)
    if named:
        return named
    if _HAN.search(said) and (named := named_in_chinese(_FRAME.sub(" ", said), options)):
        return named
    if _NEGATION.search(said):
        return set()
    number = _number(said, options)
    if number is not None:
        return {number}
    tokens = [frozenset(map(_singular, _TOKEN.findall(option))) for option in options]
    content = _content(said, frozenset().union(*tokens))
    return _by_words(content, tokens) or _by_likeness(content, options)


def _mentioned(said: str, options: Sequence[str]) -> set[int]:
    """The options that are said whole, but for those within a longer one; nothing else is said."""
    mentioned = set[int]()
    left = f" {said} "
    for at in sorted(range(len(options)), key=lambda at: -len(options[at])):
        option = options[at]
        if not option or _is_number(option) or _HAN.search(option):
            continue
        pattern = rf"(?<!\w){re.escape(option)}(?!\w)"
        if re.search(pattern, left):
            mentioned.add(at)
            left = re.sub(pattern, " ", left)
    return mentioned if not _content(left) else set()


def _is_number(option: str) -> bool:
    return option.isdecimal() or len(option) < 2


def _number(said: str, options: Sequence[str]) -> int | None:
    """The place that words name: not where the number is a word of an option."""
    place = place_in_chinese(said, options)
    if place is None and (ordinal := _ORDINAL.fullmatch(said)) is not None:
        word = ordinal["word"]
        place = len(options) - 1 if word == "last" else _PLACES.get(word)
    if place is None and (number := _NUMBER.fullmatch(said)) is not None:
        place = _place(number["word"], said)
    if place is None or not 0 <= place < len(options):
        return None
    theirs = frozenset[str]().union(*map(_TOKEN.findall, options))
    return (
        None if any(word.isdecimal() and word in theirs for word in _TOKEN.findall(said)) else place
    )


def _place(word: str, said: str) -> int | None:
    if word.isdecimal():
        return int(word) - 1
    if f"the {word}" in said:  # the one, the two: that which is meant, or both
        return None
    return _CARDINALS.get(word, _LETTERS.get(word))


def _by_words(content: Sequence[str], options: Sequence[frozenset[str]]) -> set[int]:
    """Options of whose words all is that was said, or each word of which only one has."""
    if not content:
        return set()
    holding = [{at for at, option in enumerate(options) if word in option} for word in content]
    common = set.intersection(*holding)
    if common:
        return common
    return set().union(*(each for each in holding if len(each) == 1)) if all(holding) else set()


def _by_likeness(content: Sequence[str], options: Sequence[str]) -> set[int]:
    """The option that what was said is a misspelling of, or of one of whose words."""
    spoken = " ".join(content)
    if len(spoken) < _LEAST_MISSPELT or _HAN.search(spoken):
        return set()
    likenesses = []
    for at, option in enumerate(options):
        theirs = [option, *(_TOKEN.findall(option) if len(content) == 1 else ())]
        alike = (
            SequenceMatcher(None, spoken, each).ratio()
            for each in theirs
            if len(each) >= _LEAST_MISSPELT and each[0] == spoken[0]
        )
        likenesses.append((max(alike, default=0.0), at))
    likenesses.sort(reverse=True)
    (best, place), *others = likenesses
    clear = not others or others[0][0] < CHOICE_LEAST_LIKENESS
    return {place} if best >= CHOICE_LEAST_LIKENESS and clear else set()


def _content(said: str, theirs: frozenset[str] = frozenset()) -> list[str]:
    """What is left of words without those that only say that something is chosen.

    Of these, too, the words of the options are left (`theirs`), but for the commonest.
    """

    def without(match: re.Match[str]) -> str:
        word = match[0]
        return word if word in theirs and word not in STOP_WORDS and word not in _COMMON else " "

    left = _FRAME.sub(without, said)
    return [_singular(_SHORT_FORMS.get(word, word)) for word in _TOKEN.findall(left)]


_COMMON = frozenset(
    [
        "a",
        "an",
        "the",
        "it",
        "to",
        "of",
        "in",
        "on",
        "at",
        "by",
        "us",
        "please",
        "and",
        "with",
        "for",
    ]
)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _folded(words: str) -> str:
    return unicodedata.normalize("NFKC", words).casefold().replace("’", "'").strip()


def _plain(words: str) -> str:
    """Words without capitals, signs at their ends, and quotation marks."""
    bare = re.sub(r"[\"“”‘「」『』《》()（）\[\]*_`]", " ", _folded(words))
    bare = re.sub(r"[.。!！?？,，;；:：~…、]+", " ", bare)
    return " ".join(bare.split()).strip("'-– ")
