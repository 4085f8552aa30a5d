"""Run loops made up from a seed, and vectors: by the model, or drawn where it would take too long.

Word number n of a vocabulary is drawn with a chance of about 1 / n (Zipf's law); the most frequent
ones are real, the others are made of syllables or characters. A run loop has a topic: a few words
that come back in it. Lengths are those of chat turns, most of some dozen words, some of a hundred.

Drawn vectors lie as those of a real model do: all around one direction, the mean of the model's
own vectors, in clusters. The shares of the three parts are those that give the cosines of e5-small:
about 0.75 between any two texts, 0.87 within a cluster.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from service.domain.conversation.messages import ToolCall, ToolResult
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.run_loops import Iteration, RunLoop
from service.memory.protocol import Embedded, Embedder, TokenStates, Vectors, by_token

START = datetime(2025, 1, 1, tzinfo=UTC)
PROJECTS = 20
"""How many values the metadatum ``project`` has; each run loop has one, in turn."""

_WORDS = 20_000
_TOPIC_WORDS = 40
_TOPIC_SHARE = 0.3
_TURNS = 8
_LONGEST = 120
_HOURS_BETWEEN = 1.0

_ENGLISH = (
    "the to and of a in is it you that for on was with I this be have are not as at but we they"
    " my your so if what from do can or there an all one when about how would me just will more up"
    " out time like get which some then know now could also go after good make first two see"
)
_CHINESE = (
    "的 了 我 是 你 在 不 有 就 这 也 都 和 他 要 说 会 去 很 到 吗 没 还 那 上 她 个 好 看 来"
    " 可以 我们 什么 一个 没有 今天 知道 时候 自己 觉得 怎么 现在 因为 所以 但是 如果 已经 可能"
)
_SYLLABLES = [first + vowel for first in "bcdfghjklmnprstvwz" for vowel in "aeiou"] + [
    first + vowel + last for first in "bdfglmnprst" for vowel in "aeio" for last in "nrst"
]
_COMMON, _OF_CLUSTER = 0.75, 0.12
_CLUSTERS = 1_000
_LOADING_S = 60.0
_FROM_ITS_PASSAGE = 0.3
"""How far a drawn question lies from the passage it asks about."""


class _Vocabulary(NamedTuple):
    words: Sequence[str]
    weights: Sequence[float]
    """Cumulative."""
    joint: str
    """Stands between two words."""
    stop: str


class Corpus:
    """An endless row of run loops, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._languages = (
            _vocabulary(_ENGLISH, self._english_word, " ", "."),
            _vocabulary(_CHINESE, self._chinese_word, "", "。"),
        )
        self._number = 0

    def run_loops(self, *, owner: str) -> Iterator[RunLoop]:
        """The next ones, an hour apart; every other one is Chinese."""
        while True:
            yield self._run_loop(owner)

    def query(self, text: str) -> str:
        """A question about a text: some of its words, in their order."""
        language = self._languages[0 if text.isascii() else 1]
        if language.joint:
            words = text.removesuffix(language.stop).split(language.joint)
            size, end = 8, "?"
        else:
            words, size, end = list(text.removesuffix(language.stop)), 12, "？"
        first = self._random.randrange(max(1, len(words) - size + 1))
        return language.joint.join(words[first : first + size]) + end

    def _run_loop(self, owner: str) -> RunLoop:
        number, self._number = self._number, self._number + 1
        language = self._languages[number % 2]
        topic = self._random.choices(language.words, k=_TOPIC_WORDS)
        at = START + timedelta(hours=number * _HOURS_BETWEEN)
        turns = tuple(
            self._turn(language, topic, at + timedelta(minutes=turn), number, tool=turn % 4 == 3)
            for turn in range(_TURNS)
        )
        return RunLoop(
            id=f"bench-{number:07}",
            owner=owner,
            goal=turns[0].user_message or "",
            status="completed",
            iterations=turns,
            created_at=at,
            completed_at=turns[-1].timestamp,
        )

    def _turn(
        self, language: _Vocabulary, topic: Sequence[str], at: datetime, number: int, *, tool: bool
    ) -> Iteration:
        calls: tuple[ToolCall, ...] = ()
        results: tuple[ToolResult, ...] = ()
        if tool:
            arguments = f'{{"query": "{self._text(language, topic, 4)}"}}'
            calls = (ToolCall(id=f"call-{number}", name="look_up", arguments=arguments),)
            results = (ToolResult(id=f"call-{number}", content=self._text(language, topic, 40)),)
        return Iteration(
            user_message=self._text(language, topic, 14),
            tool_calls=calls,
            tool_results=results,
            response=self._text(language, topic, 28),
            timestamp=at,
            metadata={"project": f"project {number % PROJECTS}"},
        )

    def _text(self, language: _Vocabulary, topic: Sequence[str], median: int) -> str:
        length = min(_LONGEST, max(3, round(median * self._random.lognormvariate(0, 0.6))))
        words = self._random.choices(language.words, cum_weights=language.weights, k=length)
        for index in range(length):
            if self._random.random() < _TOPIC_SHARE:
                words[index] = self._random.choice(topic)
        return language.joint.join(words) + language.stop

    def _english_word(self) -> str:
        syllables = self._random.choices(_SYLLABLES, k=self._random.choice((2, 2, 3, 3, 4)))
        return "".join(syllables)

    def _chinese_word(self) -> str:
        # The 3,000 characters from U+4E00 on stand for the 3,000 that are in use.
        return "".join(chr(0x4E00 + self._random.randrange(3_000)) for _ in range(2))


def _vocabulary(real: str, invent: Callable[[], str], joint: str, stop: str) -> _Vocabulary:

    words: dict[str, None] = dict.fromkeys(real.split())
    while len(words) < _WORDS:
        words[invent()] = None
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return _Vocabulary(list(words), weights, joint, stop)


class MixedEmbedder:
    """An `Embedder` before the real one: passages by the model or drawn, as it is told.

    A question always costs what the model takes for it; where passages are drawn, what is given is
    drawn as well: near the passage that it asks about.
    """

    def __init__(self, model: Embedder, *, all_real: bool, samples: Sequence[str]) -> None:
        """Take the mean of the model's vectors of `samples` as the drawn ones' direction."""
        self._model = model
        self._by_token = by_token(model)
        self._all_real = all_real
        self.by_model = True
        """Whether the model embeds the next passages."""
        own, self._information = self._of_samples(samples)
        estimated = sum(map(estimate_tokens, samples))
        self._tokens_of_estimated = len(self._information) / max(1.0, estimated)
        mean = own.mean(axis=0)
        self._mean = mean / np.linalg.norm(mean)
        self._dimension = own.shape[1]
        self._centres = np.random.default_rng(0).standard_normal((_CLUSTERS, self._dimension))
        self._seen: dict[str, npt.NDArray[np.float32]] = {}
        self._questions: dict[str, Vectors] = {}
        self._passages: dict[str, str] = {}

    @property
    def identity(self) -> str:
        """Never the model's own: some of these vectors are not."""
        return f"benchmark {self._model.identity}"

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_queries`."""
        return self._expected(texts, self._model.embed_queries(texts))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed_passages`."""
        if not self.by_model and not self._all_real:
            return self._drawn(texts)
        vectors = self._model.embed_passages(texts)
        if not self.by_model:
            self._seen.update(zip(texts, vectors, strict=True))
        return vectors

    @property
    def token_identity(self) -> str | None:
        """As with `identity`; None where the model gives no states of tokens."""
        own = self._by_token.token_identity if self._by_token else None
        return own and f"benchmark {own}"

    def embed_queries_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_queries_by_token`."""
        if self._by_token is None:
            return Embedded(self.embed_queries(texts), None)
        vectors, tokens = self._by_token.embed_queries_by_token(texts)
        if tokens is not None:
            tokens = [self._expected_tokens(*each) for each in zip(texts, tokens, strict=True)]
        return Embedded(self._expected(texts, vectors), tokens)

    def embed_passages_by_token(self, texts: Sequence[str]) -> Embedded:
        """See `TokenEmbedder.embed_passages_by_token`."""
        if self._by_token is None or not len(self._information):
            return Embedded(self.embed_passages(texts), None)
        if not self.by_model and not self._all_real:
            return Embedded(self._drawn(texts), [self._drawn_tokens(each) for each in texts])
        embedded = self._by_token.embed_passages_by_token(texts)
        if not self.by_model:
            self._seen.update(zip(texts, embedded.vectors, strict=True))
        return embedded

    def wait_for_tokens(self, seconds: float) -> bool | None:
        """See `TokenEmbedder.wait_for_tokens`."""
        return self._by_token.wait_for_tokens(seconds) if self._by_token else None

    def vectors_again(self, texts: Sequence[str]) -> Vectors:
        """The same vectors once more, of passages that `by_model` was not asked for."""
        if not self._all_real:
            return self._drawn(texts)
        return np.stack([self._seen[text] for text in texts])

    def expect(self, question: str, passage: str) -> None:
        """Say which passage a question asks about, before anything is timed."""
        if not self._all_real:
            noise = _rng(question).standard_normal(self._dimension) / np.sqrt(self._dimension)
            near = self._drawn([passage]) + _FROM_ITS_PASSAGE * noise
            self._questions[question] = (near / np.linalg.norm(near)).astype(np.float32)
            self._passages[question] = passage

    def for_question(self, question: str, real: Vectors) -> Vectors:
        """What stands for a question whose vector by the model is `real`, of shape (1, dimension).

        Where passages are drawn, a vector near the passage that it asks about.
        """
        return self._questions.get(question, real)

    def _expected(self, texts: Sequence[str], real: Vectors) -> Vectors:
        rows = [self.for_question(text, row[None]) for text, row in zip(texts, real, strict=True)]
        return np.concatenate(rows)

    def _drawn(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self._dimension))
        scale = 1 / np.sqrt(self._dimension)
        for row, text in zip(rows, texts, strict=True):
            rng = _rng(text)
            centre = self._centres[rng.integers(_CLUSTERS)] * scale
            own = rng.standard_normal(self._dimension) * scale
            row[:] = np.sqrt(_COMMON) * self._mean + np.sqrt(_OF_CLUSTER) * centre
            row += np.sqrt(1 - _COMMON - _OF_CLUSTER) * own
        unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _expected_tokens(self, question: str, real: TokenStates) -> TokenStates:
        """As many tokens as the question has, some of them drawn for the passage it asks about."""
        if question not in self._passages:
            return real
        states, drawn = real.states.copy(), self._drawn_tokens(self._passages[question]).states
        some = min(len(states), len(drawn))
        states[:some] = drawn[:some] / np.linalg.norm(drawn[:some], axis=1, keepdims=True)
        return real._replace(states=states)

    def _of_samples(self, samples: Sequence[str]) -> tuple[Vectors, Vectors]:
        """Their vectors, and how informative their tokens are; none where there are no states."""
        if self._by_token is None or not self._by_token.wait_for_tokens(_LOADING_S):
            return self._model.embed_passages(samples), np.zeros(0, dtype=np.float32)
        vectors, tokens = self._by_token.embed_passages_by_token(samples)
        return vectors, np.concatenate([each.information for each in tokens or ()])

    def _drawn_tokens(self, text: str) -> TokenStates:
        """About as many tokens as the model makes of it, and as informative as those of samples."""
        rng, tokens = _rng(text), max(1, round(self._tokens_of_estimated * estimate_tokens(text)))
        states = rng.standard_normal((tokens, self._dimension), dtype=np.float32)
        return TokenStates(states, rng.choice(self._information, tokens))


def _rng(text: str) -> np.random.Generator:
    return np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:16]))
