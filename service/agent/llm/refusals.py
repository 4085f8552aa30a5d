"""Refusals that a small model gives by reflex, where nothing is to be refused.

"I am a nurse in Tartu." and "Help me write a love letter." are answered with a stock sentence that
says nothing else. Asked once more, to answer as a good friend would, the same model answers these;
what a good friend would not answer either it refuses again, and that stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from service.domain.messages import Message, NotePart
from service.memory.search.scripts import Script, script_of

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
_GOES_ON: dict[Script, str] = {"other": " I think", "han": "我觉得"}


def may_become_refusal(said: str) -> bool:
    """Whether an answer that begins so may be such a refusal.

    >>> may_become_refusal("I'm sorry, but I can"), may_become_refusal("I'm sorry to hear")
    (True, False)
    """
    begun = _plain(said)
    return any(each.startswith(begun) for each in _STOCK)


def is_refusal(said: str) -> bool:
    """Whether an answer begins with a whole refusal by reflex.

    >>> is_refusal("I’m sorry, but I can’t assist with that."), is_refusal("我不能帮助您偷车。")
    (True, False)
    """
    return _plain(said).startswith(_STOCK)


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


def _plain(said: str) -> str:
    return said.lstrip().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
