"""How near texts lie that have nothing to do with each other, in the eyes of one embedder.

A cosine alone says nothing: with one model unrelated texts lie at 0.1, with another at 0.8, and
closer in Chinese than in English, or than a question in one to an answer in the other. These
questions and statements, none of which is about the same as any other, show where that is.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.domain.errors import RondoError
from service.memory.protocol import Embedder, Vectors

_log = logging.getLogger(__name__)

_QUESTIONS = (
    "What time does the ferry leave?",
    "Who won the chess game yesterday?",
    "How much salt goes into the dough?",
    "Which size are the winter boots?",
    "Where did I leave the keys of the cellar?",
    "Why does the printer not answer?",
    "What was the name of the violinist?",
    "When does my insurance end?",
    "Has the gardener cut the hedge?",
    "How do I reach the night nurse?",
    "What did the auditor ask for?",
    "Which colour is the new sofa?",
)
_STATEMENTS = (
    "The rabbit has torn the curtain again.",
    "We meet the lawyer on Thursday at ten.",
    "My sister moved to Toronto for her studies.",
    "The compiler complains about a missing semicolon.",
    "For the soup take two leeks and a litre of stock.",
    "I ran eight kilometres and my ankle is swollen.",
    "The museum is closed until the roof is mended.",
    "Her flight was diverted because of fog.",
    "The plumber charges ninety an hour.",
    "Please remind me to water the orchids.",
    "He practises the trumpet in the garage.",
    "The mortgage was approved last week.",
)
_QUESTIONS_HAN = (
    "轮渡几点开？",
    "昨天的象棋比赛谁赢了？",
    "面团里放多少盐？",
    "冬天的靴子是几码的？",
    "地下室的钥匙我放在哪儿了？",
    "打印机为什么没有反应？",
    "那位小提琴手叫什么名字？",
    "我的保险什么时候到期？",
    "园丁修剪过篱笆了吗？",
    "怎么联系夜班护士？",
    "审计的人要了哪些材料？",
    "新沙发是什么颜色的？",
)
_STATEMENTS_HAN = (
    "兔子又把窗帘扯破了。",
    "我们星期四上午十点见律师。",
    "妹妹去多伦多读书了。",
    "编译器提示少了一个分号。",
    "煲汤要两根大葱和一升高汤。",
    "我跑了八公里，脚踝肿了。",
    "博物馆在修屋顶，暂时不开放。",
    "因为大雾，她的航班备降了。",
    "水管工一个小时收九十块。",
    "提醒我给兰花浇水。",
    "他在车库里练小号。",
    "房贷上周批下来了。",
)


class Spread(NamedTuple):
    """Where the cosines of unrelated questions and passages lie."""

    mean: float
    deviation: float


class Unrelated(NamedTuple):
    """The same for each pair of scripts."""

    other: Spread
    """Neither in Chinese."""
    han: Spread
    """Both in Chinese."""
    across: Spread
    """One of them in Chinese."""


OF_THE_BUNDLED = Unrelated(
    other=Spread(0.7402, 0.0235), han=Spread(0.8170, 0.0166), across=Spread(0.7260, 0.0227)
)
"""What `measured` gives for the bundled multilingual-e5-small, so that a start need not wait."""
SHIFT_OF_THE_BUNDLED = Path(__file__).with_name("bundled_language_shift.json")
"""`Languages.shift` of the same."""
_BUNDLED = "bundled:multilingual-e5-small"


class Languages(NamedTuple):
    """What is known of an embedder, of texts in Chinese and of others."""

    unrelated: Unrelated
    shift: Vectors
    """From texts that are not in Chinese to the same in Chinese: shape (dimension,).

    It is nearly the same for any text, so that a question moved by it finds what a translation of
    it would.
    """


def languages_of(embedder: Embedder) -> Languages | None:
    """What is known of an embedder, or can be measured; None when it fails."""
    if _BUNDLED in embedder.identity.split():
        shift = json.loads(SHIFT_OF_THE_BUNDLED.read_text(encoding="utf-8"))
        return Languages(OF_THE_BUNDLED, np.array(shift, dtype=np.float32))
    try:
        return measured(embedder)
    except RondoError as error:
        _log.warning("nearness is not told from distance: %s", error.problem().in_words())
        return None


def measured(embedder: Embedder) -> Languages:
    """Measure an embedder: it embeds two dozen short questions and as many passages.

    Raises:
        EmbeddingError: they cannot be embedded.
    """
    questions = embedder.embed_queries([*_QUESTIONS, *_QUESTIONS_HAN])
    passages = embedder.embed_passages([*_STATEMENTS, *_STATEMENTS_HAN])
    cosines = questions @ passages.T
    half, other = len(_QUESTIONS), len(_STATEMENTS)
    across = np.concatenate([cosines[:half, other:].ravel(), cosines[half:, :other].ravel()])
    unrelated = Unrelated(
        other=_spread(cosines[:half, :other]),
        han=_spread(cosines[half:, other:]),
        across=_spread(across),
    )
    of_questions = questions[half:].mean(axis=0) - questions[:half].mean(axis=0)
    of_passages = passages[other:].mean(axis=0) - passages[:other].mean(axis=0)
    return Languages(unrelated, (of_questions + of_passages) / 2)


_LEAST_DEVIATION = 0.01


def _spread(cosines: npt.NDArray[np.float32]) -> Spread:
    return Spread(float(cosines.mean()), max(_LEAST_DEVIATION, float(cosines.std())))
