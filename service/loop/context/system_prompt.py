"""What a call of the model begins with: who it is, and what its owner wants of it.

It stays the same from call to call of a loop, so that endpoints can cache it.

A small model is told little, in the language that is spoken, and shown rather than said. A model
of one or two billion weights takes what stands before it for what is to be said. Told in English
how to answer, it answers in English; told to say so when it does not know, it says so of what
stands two lines above, or invents a phone number. So it reads one line in the person's language,
and then sees how that is done: of the same topic it does not know what was not told, and knows it
once it was told. The turns are of a topic that hardly anybody asks about, as what they hold can
come back in an answer. Their words are the same in every run loop, so that they are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain

from service.domain.conversation.instructions import LastAnswerReason
from service.domain.conversation.messages import Message
from service.domain.history.events import Recollection
from service.domain.history.state import RunLoopState
from service.domain.text import Script, in_one_line, script_of
from service.llm.protocol import LLM, Size, size_of
from service.loop.executor_deps import ExecutorDeps

SCRIPTS: tuple[Script, ...] = ("other", "han")

_PERSONA: dict[Size, dict[Script, str]] = {
    "small": {
        "other": "You are Rondo, a helpful personal assistant who remembers what the user tells"
        " about themselves.",
        "han": "你是 Rondo，一个乐于助人的私人助手，会记住用户说的关于自己的事。",
    },
    "tiny": {
        "other": "You are Rondo, a helpful personal assistant.",
        "han": "你是 Rondo，一个乐于助人的私人助手。",
    },
}
_SHOWN: dict[Size, dict[Script, tuple[tuple[str, str], ...]]] = {
    "small": {
        "other": (
            ("My cellar shelf has seven boards.", "Noted: your cellar shelf has seven boards."),
            ("How many boards does my cellar shelf have?", "Your cellar shelf has seven boards."),
            ("What colour is my cellar shelf?", "You have not told me its colour."),
            (
                "When is my cousin Tilda's wedding?",
                "You have not told me when Tilda's wedding is.",
            ),
            ("Thank you.", "You're welcome!"),
        ),
        "han": (
            ("我地下室的架子有七层。", "记住了，您地下室的架子有七层。"),
            ("我地下室的架子有几层？", "您地下室的架子有七层。"),
            ("我地下室的架子是什么颜色的？", "您没有告诉过我那个架子是什么颜色的。"),
            ("我表哥小谭哪天结婚？", "您没有告诉过我小谭哪天结婚。"),
            ("谢谢。", "不客气！"),
        ),
    },
    "tiny": {
        "other": (
            ("What is my shoe size?", "You have not told me your shoe size, so I do not know it."),
            ("I take shoe size 41.", "Good to know: you take size 41."),
            ("So what is my shoe size?", "Your shoe size is 41."),
            ("Which brand are my shoes?", "You have not told me that, so I do not know."),
        ),
        "han": (
            ("我的鞋码是多少？", "您还没有告诉过我您的鞋码，所以我不知道。"),
            ("我穿 41 码的鞋。", "好的，我记住了，您穿 41 码的鞋。"),
            ("那我的鞋码是多少？", "您的鞋码是 41 码。"),
            ("我的鞋是什么牌子的？", "这个您没有告诉过我，我不知道。"),
        ),
    },
}
_INNER = str.maketrans("“”", "‘’")


def small_opening(
    size: Size,
    script: Script,
    *,
    instructions: str = "",
    replaces: bool = False,
    also: str = "",
    personal: bool = True,
) -> list[Message]:
    """How every conversation with a small model begins.

    Args:
        size: of the model; not a large one.
        script: of what the person says.
        instructions: what the owner wants of it.
        replaces: whether they are all there is; else they are added to the built-in ones.
        also: what is to be said besides.
        personal: whether the person speaks of their own life; requests that anybody could make are
            answered best with next to nothing before them.
    """
    persona = "" if replaces else _PERSONA[size if personal else "tiny"][script]
    said = "\n\n".join(filter(None, (persona, instructions, also)))
    opening = [Message.system(said)]
    if replaces or not personal:
        return opening
    for asked, answered in _SHOWN[size][script]:
        opening += [Message.user(asked), Message.assistant(answered)]
    return opening


def spoken(state: RunLoopState) -> Script:
    """The script of what a person said last with any letters in it."""
    landing = [each.message for each in state.unseen]
    for message in chain(reversed(landing), reversed(state.history)):
        if message.role == "user" and any(letter.isalpha() for letter in message.text):
            return script_of(message.text)
    return "other"


def recalled_for_small(pieces: Sequence[Recollection], script: Script) -> str:
    """What is remembered, as the person would say it themselves, in one line; empty for nothing.

    Nothing in it ends a quote.
    """
    user_quotes = [_quote(piece) for piece in pieces if piece.anchor.segment_type == "user_message"]
    answered = [_quote(piece) for piece in pieces if piece.anchor.segment_type == "response"]
    if script == "han":
        said = [f"我以前告诉过你：{'，'.join(user_quotes)}。"] if user_quotes else []
        said += [f"你那时回答：{'，'.join(answered)}。"] if answered else []
        return f"（{''.join(said)}）" if said else ""
    said = [f"Earlier I told you: {' '.join(user_quotes)}"] if user_quotes else []
    said += [f"You answered then: {' '.join(answered)}"] if answered else []
    return f"({' '.join(said)})" if said else ""


def _quote(piece: Recollection) -> str:
    return f"“{in_one_line(piece.content).translate(_INNER)}”"


PERSONA = (
    "You are Rondo, a personal assistant with a long memory. Answer in the language of the"
    " person you talk to, briefly and truthfully. Use a tool when it helps; never invent what a"
    " tool or your memory would have to tell. When you do not know, say so."
)
_LAST_ANSWER: dict[LastAnswerReason, str] = {
    "iterations": "All steps that you may take are used up, and",
    "failures": "Your tool calls failed again and again, and",
    "repetition": "The same tool call came to the same result again and again, and",
}
_WITHOUT_TOOLS = (
    "no more tool calls are possible now. Answer with what you have found so far, and say openly"
    " what is missing."
)


def opening_of(
    deps: ExecutorDeps,
    state: RunLoopState,
    llm: LLM,
    *,
    personal: bool = True,
    last_answer: LastAnswerReason | None = None,
) -> list[Message]:
    """What the next call of a run loop begins with.

    Args:
        deps: what the agent works with.
        state: the run loop.
        llm: who is asked.
        personal: whether the person speaks of their own life.
        last_answer: why this is the last call, without tools; None when it is not.
    """
    size = size_of(llm)
    if size != "large":
        return small_opening(
            size,
            spoken(state),
            instructions=deps.instructions,
            replaces=deps.replaces_instructions,
            also=last_words(last_answer),
            personal=personal,
        )
    return [
        system_message(
            state.created_at,
            instructions=deps.instructions,
            replaces=deps.replaces_instructions,
            last_answer=last_answer,
        )
    ]


def all_openings(llm: LLM, *, instructions: str, replaces: bool) -> list[list[Message]]:
    """All that calls of a model can begin with, but for the day; see `system_message`."""
    size = size_of(llm)
    if size != "large":
        return [
            small_opening(size, script, instructions=instructions, replaces=replaces)
            for script in SCRIPTS
        ]
    return [[system_message(None, instructions=instructions, replaces=replaces)]]


def system_message(
    began: datetime | None,
    *,
    instructions: str = "",
    replaces: bool = False,
    last_answer: LastAnswerReason | None = None,
) -> Message:
    """The system message: the same for all run loops of a day, so that endpoints can cache it.

    Args:
        began: when the conversation began; None: how all conversations begin, of whatever day.
        instructions: what the owner wants of it.
        replaces: whether they are all there is; else they are added to the built-in ones.
        last_answer: why this is the last call, without tools; None when it is not. The model is
            told so whoever has written the rest.
    """
    parts = [instructions] if replaces else [PERSONA, instructions]
    if not replaces and began is not None:
        parts.append(f"This conversation began on {began.astimezone():%A, %Y-%m-%d}.")
    return Message.system("\n\n".join(filter(None, (*parts, last_words(last_answer)))))


def last_words(reason: LastAnswerReason | None) -> str:
    """What tells a model that it can call no tools any more, and why; empty for no reason."""
    return "" if reason is None else f"{_LAST_ANSWER[reason]} {_WITHOUT_TOOLS}"
