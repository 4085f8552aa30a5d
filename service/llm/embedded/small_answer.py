"""The answer of a small model, as a person hears it.

It begins as it was told to, if it was; what goes round in circles is cut off. What such a model
says by reflex, it is asked about once more: "I am a nurse in Tartu." and "Help me write a love
letter." are answered with a stock sentence that says nothing else, and other messages with
themselves. Asked to answer as a good friend would, the same model answers these; what a good friend
would not answer either it refuses again, and that stands.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import product

from service.domain.conversation.messages import Message, NotePart
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.domain.errors import LLMStreamError
from service.domain.text import Script, script_of

_ENGLISH = (
    ("I'm sorry, but ", "I am sorry, but ", "I apologize, but ", "Sorry, but ", ""),
    ("I can't ", "I cannot ", "I can not ", "I'm unable to ", "I am unable to "),
    ("assist with that", "assist you with that", "help with that", "help you with that"),
    (".", " request."),
)
_CHINESE = (
    ("对不起，", "抱歉，", "很抱歉，", "非常抱歉，", ""),
    ("我无法", "我不能", "我没办法"),
    ("回答这个问题", "回答您的问题", "提供帮助", "帮助您", "完成这个任务", "满足您的要求"),
    ("。",),
)
_STOCK = tuple("".join(parts) for each in (_ENGLISH, _CHINESE) for parts in product(*each))
_ONCE_MORE: dict[Script, str] = {
    "other": "(Answer as a good friend would.)",
    "han": "（请像好朋友一样回答。）",
}
_UNIT = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:'[a-z]+)?")
_PERSONS = {
    "you": "i", "your": "my", "you're": "i'm", "yours": "mine", "are": "am", "me": "i",
    "您": "我", "你": "我",
}  # fmt: skip
_LITTLE = frozenset(("a", "the", "am", "is", "是", "叫", "的", "了", "们", "吗", "呢"))
_SHORTEST_ECHO = 4
"""Words: a short greeting may well be returned."""
_LONGEST_ECHO = 40
"""Words: nobody waits for the copy of a whole page."""
_ECHOED_AT_LEAST = 0.7
"""The share of words."""
_GOES_ON: dict[Script, str] = {"other": " I think", "han": "我觉得"}


def may_become_reflex(said: str, asked: str) -> bool:
    """Whether an answer that begins so may be a reflex.

    >>> asked = "I live in a small town near Basel."
    >>> [may_become_reflex(each, asked) for each in ("I'm sorry, but I", "You live in", "How nice")]
    [True, True, False]
    """
    begun = _plain(said)
    if any(each.startswith(begun) for each in _STOCK):
        return True
    theirs, ours = _units(asked), _units(said)[:-1]  # the last word may have only begun
    fits = _SHORTEST_ECHO <= len(theirs) <= _LONGEST_ECHO and len(ours) <= len(theirs)
    return fits and set(ours) <= set(theirs)


def is_refusal(said: str) -> bool:
    """Whether an answer begins with a whole refusal by reflex.

    >>> is_refusal("I’m sorry, but I can’t assist with that."), is_refusal("我不能帮助您偷车。")
    (True, False)
    """
    return _plain(said).startswith(_STOCK)


def is_echo(said: str, asked: str) -> bool:
    """Whether a whole answer says most of the message again, and nothing else.

    >>> is_echo("您家在几楼？", "我们家在几楼？"), is_echo("您家在四楼。", "我们家在几楼？")
    (True, False)
    """
    theirs, ours = _units(asked), _units(said)
    fits = _SHORTEST_ECHO <= len(theirs) <= _LONGEST_ECHO
    return fits and set(ours) <= set(theirs) and len(ours) >= _ECHOED_AT_LEAST * len(theirs)


def asked_once_more(messages: Sequence[Message]) -> list[Message]:
    """The conversation, with the wish to answer as a friend would behind its last words.

    Where the answer has a beginning, that goes a step further instead, as the model must then say
    something.
    """
    last = messages[-1]
    if last.role == "assistant":
        return [*messages[:-1], Message.assistant(last.text + _GOES_ON[script_of(last.text)])]
    note = NotePart(note=_ONCE_MORE[script_of(last.text)])
    # Not `model_copy`, which would take over the cached size.
    return [*messages[:-1], Message(role=last.role, content=(*last.content, note))]


def _units(text: str) -> list[str]:
    """Words, and Chinese characters one by one. Whether it is "I" or "you" does not count."""
    units = (_PERSONS.get(each, each) for each in _UNIT.findall(_plain(text).lower()))
    return [each for each in units if each not in _LITTLE]


def _plain(said: str) -> str:
    return said.lstrip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


Ask = Callable[[Sequence[Message]], AsyncGenerator[StreamPart]]

_GOES_ROUND = re.compile(r"([^\n]{6,80}?)\1{4}\Z")
_STOPS = " \t\n,.:;，。：；"


def beginning_of(messages: Sequence[Message]) -> str:
    """The beginning that the answer was given: the assistant's own words, where they come last.

    Empty for none.
    """
    last = messages[-1]
    return last.text if last.role == "assistant" and not last.tool_calls else ""


async def answered(ask: Ask, messages: Sequence[Message], *, to: str) -> AsyncGenerator[StreamPart]:
    """The answer, its beginning included.

    Where it is given by reflex, or nothing follows its beginning, it is the answer to being asked
    once more. Nothing is passed on while it may become that.

    Args:
        ask: asks the model.
        messages: the conversation.
        to: what the person said that it must not merely say again; empty where it may.
    """
    begun = beginning_of(messages)
    held: list[StreamPart] = [TextDelta(begun)] if begun else []
    words, is_held = "", True
    try:
        async with aclosing(_until_it_goes_round(ask(messages))) as parts:
            async for part in parts:
                if not is_held:
                    yield part
                    continue
                held.append(part)
                words = (words + (part.text if isinstance(part, TextDelta) else "")).lstrip(_STOPS)
                if is_refusal(words):
                    break
                if not may_become_reflex(words, to):
                    is_held = False
                    for each in held:
                        yield each
    except LLMStreamError:
        if words or not begun:
            raise
        # Nothing followed.
    else:
        if not is_held:
            return
        if not is_refusal(words) and not is_echo(words, to):
            for each in held:
                yield each
            return
    once_more = asked_once_more(messages)
    if begun:
        yield TextDelta(beginning_of(once_more))
    async with aclosing(_until_it_goes_round(ask(once_more))) as parts:
        async for part in parts:
            yield part


async def _until_it_goes_round(answer: AsyncGenerator[StreamPart]) -> AsyncGenerator[StreamPart]:
    """The answer, up to where it repeats a phrase: small models get caught in one."""
    said = ""
    async with aclosing(answer):
        async for part in answer:
            yield part
            if isinstance(part, TextDelta):
                said = (said + part.text)[-600:]
                if _GOES_ROUND.search(said):
                    return
