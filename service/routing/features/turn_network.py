"""A small neural network that holds a message against every turn of its candidates.

Each exchange (the message beside one turn) becomes a hidden vector and a score; a candidate pools
those of its turns, by attention and by the logarithm of their summed exponentials, beside its own
features; *new* sees the most of what all candidates show. Trained by
`research.routing.networks`; evaluated with numpy alone, in about a millisecond.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.routing.features.embedding_features import centred, rounded
from service.routing.features.turn_features import BY_USER, EXCHANGE_FEATURES, Exchanges
from service.routing.text.text_reading import Vector

Matrix = NDArray[np.float64]
Array = NDArray[np.float32]

MOST_SPREADS = 5.0
"""How many standard deviations from its mean a feature may be."""
LAYERS = (
    "exchange",
    "exchange_more",
    "exchange_score",
    "attention",
    "candidate",
    "candidate_more",
    "among_all",
    "join_score",
    "context",
    "new_score",
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Which columns of a table go in, and how they are scaled."""

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    middle: Array
    spread: Array

    @classmethod
    def of(cls, names: Sequence[str], among: Sequence[str], middle: Array, spread: Array) -> Inputs:
        """Inputs by their names.

        Args:
            names: those that go in.
            among: the names of all columns of the table.
            middle, spread: of each that goes in, shape (len(names),).
        """
        place = {name: column for column, name in enumerate(among)}
        columns = np.array([place[name] for name in names], dtype=np.int64)
        return cls(tuple(names), columns, middle, spread)

    def scaled(self, table: Matrix | Array) -> Array:
        """The columns in standard deviations from their means; what is not known is the mean."""
        scaled = (table[..., self.columns] - self.middle) / self.spread
        np.clip(scaled, -MOST_SPREADS, MOST_SPREADS, out=scaled)
        return np.asarray(np.nan_to_num(scaled), dtype=np.float32)

    def written(self, digits: int) -> dict[str, list[Any]]:
        """As JSON."""
        return {
            "names": list(self.names),
            "middle": rounded(self.middle, digits),
            "spread": rounded(self.spread, digits),
        }

    @classmethod
    def read(cls, written: Mapping[str, Any], among: Sequence[str]) -> Inputs:
        """The inputs that were written."""
        middle, spread = (np.array(written[k], dtype=np.float32) for k in ("middle", "spread"))
        return cls.of(written["names"], among, middle, spread)


@dataclass(frozen=True, slots=True)
class Encoder:
    """What the network sees of vectors of d dimensions: k numbers of each, and what they make."""

    centre: Array
    """Shape (d,): the mean of all texts."""
    reply: Array
    """Shape (d, k): of the message."""
    user: Array
    """Shape (d, k): of a turn of the person's."""
    assistant: Array
    """Shape (d, k): of a turn of the assistant's."""
    message: Array
    """Shape (d, m): of the message, for itself."""

    def beside(
        self, vector: Vector | None, heard: Sequence[Vector | None], by_user: NDArray[np.bool_]
    ) -> Array:
        """The message's numbers times each turn's, and their sum: shape (P, k + 1)."""
        products = np.zeros((len(heard), self.reply.shape[1] + 1), dtype=np.float32)
        present = np.array(
            [place for place, each in enumerate(heard) if each is not None], np.int64
        )
        if len(present) and vector is not None:
            turns = centred(np.stack([each for each in heard if each is not None]), self.centre)
            sides = np.where(by_user[present, None], turns @ self.user, turns @ self.assistant)
            products[present, :-1] = sides * (centred(vector, self.centre) @ self.reply)
            products[:, -1] = products[:, :-1].sum(axis=1)
        return products

    def own(self, vector: Vector | None) -> Array:
        """The message's numbers for itself: shape (m,)."""
        if vector is None:
            return np.zeros(self.message.shape[1], dtype=np.float32)
        return np.asarray(centred(vector, self.centre) @ self.message, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Layer:
    """x W + b."""

    weight: Array
    bias: Array

    def __call__(self, rows: Array) -> Array:
        """Of each row."""
        return np.asarray(rows @ self.weight + self.bias, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Passed:
    """What a network makes of a message before it gives scores."""

    rows: Array
    """Shape (C, ...): each candidate's features, what its turns say, the message's numbers."""
    heard: Array
    """Shape (C,): what the turns of each say for it."""
    most: Array
    """Shape (hidden,): the most of what all candidates show."""
    around: Array
    """Shape (G,): the context, scaled."""
    of_vector: Array
    """Shape (m,)."""


@dataclass(frozen=True, slots=True)
class Network:
    """The network, trained."""

    exchanges: Inputs
    candidates: Inputs
    context: Inputs
    of_message: tuple[int, ...]
    """Which of the inputs of the context are of the message alone."""
    encoder: Encoder | None
    """None: it sees no vectors, but what the features say of them."""
    layers: Mapping[str, Layer]
    """By the names in `LAYERS`."""

    def scores(
        self, candidates: Matrix, context: Matrix, exchanges: Exchanges
    ) -> tuple[Matrix, float]:
        """Scores of each candidate, and of *new*.

        Args:
            candidates: their features, shape (C, F); C is 1 at least.
            context: the features of the context, shape (G,).
            exchanges: of the message with the turns of the candidates; without the message's
                vector nothing is made of what was learned of vectors.
        """
        passed = self.passed(candidates, context, exchanges)
        join = self._join(passed.rows, passed.heard, passed.most)
        new = self._new(passed.around[None], passed)
        return join.astype(np.float64), float(new[0])

    def passed(self, candidates: Matrix, context: Matrix, exchanges: Exchanges) -> Passed:
        """What is made of a message before the scores; arguments as of `scores`."""
        layer, starts = self.layers, exchanges.starts
        counts = np.diff([*starts, len(exchanges.rows)])
        around = self.context.scaled(context)
        own = around[list(self.of_message)]
        seen, of_vector = [self.exchanges.scaled(exchanges.rows)], np.zeros(0, dtype=np.float32)
        seen.append(np.tile(own, (len(exchanges.rows), 1)))
        if self.encoder is not None:
            by_user = exchanges.rows[:, BY_USER] > 0
            seen.append(self.encoder.beside(exchanges.vector, exchanges.heard, by_user))
            of_vector = self.encoder.own(exchanges.vector)
        hidden = silu(layer["exchange"](np.concatenate(seen, axis=1)))
        hidden = silu(layer["exchange_more"](hidden))
        heard = _log_sum(layer["exchange_score"](hidden)[:, 0], starts, counts)
        pooled = _attended(layer["attention"](hidden)[:, 0], hidden, starts, counts)
        every = np.tile(of_vector, (len(starts), 1))
        rows = np.concatenate(
            [self.candidates.scaled(candidates), heard[:, None], pooled, every], axis=1
        )
        return Passed(rows, heard, self._each(rows).max(axis=0), around, of_vector)

    def _each(self, rows: Array) -> Array:
        return silu(self.layers["candidate_more"](silu(self.layers["candidate"](rows))))

    def _join(self, rows: Array, heard: Array, most: Array) -> Array:
        each = self._each(rows)
        both = np.concatenate([each, np.tile(most, (len(each), 1))], axis=1)
        score = self.layers["join_score"](silu(self.layers["among_all"](both)))[:, 0]
        return np.asarray(heard + score, dtype=np.float32)

    def _new(self, around: Array, passed: Passed) -> Array:
        """Scores of *new* in several contexts, shape (len(around),)."""
        rest = np.tile(np.concatenate([passed.most, passed.of_vector]), (len(around), 1))
        seen = silu(self.layers["context"](np.concatenate([around, rest], axis=1)))
        return self.layers["new_score"](seen)[:, 0]

    def join_gains(
        self, passed: Passed, best: int, other: int | None, groups: Sequence[Collection[str]]
    ) -> Matrix:
        """By how much a candidate's score falls with features as they are of another candidate.

        Args:
            passed: what was made of the message.
            best: the candidate.
            other: another one; None: features as they are on the mean of all conversations.
            groups: names of features that are taken together.

        Returns:
            Shape (len(groups) + 1,); last, what the single turns added.
        """
        count = len(self.candidates.names)
        end = count + 1 + self.layers["exchange_score"].weight.shape[0]
        rows = np.tile(passed.rows[best], (len(groups) + 2, 1))
        heard = np.full(len(rows), passed.heard[best], dtype=np.float32)
        instead = np.zeros_like(rows[0]) if other is None else passed.rows[other]
        for row, names in zip(rows, groups, strict=False):
            columns = [place for place, each in enumerate(self.candidates.names) if each in names]
            row[columns] = instead[columns]
        rows[-2, count:end] = instead[count:end]
        heard[-2] = instead[count]
        scores = self._join(rows, heard, passed.most).astype(np.float64)
        return np.asarray(scores[-1] - scores[:-1], dtype=np.float64)

    def new_gains(self, passed: Passed, groups: Sequence[Collection[str]]) -> Matrix:
        """By how much the score of *new* falls with features as they are on the mean.

        Returns:
            Shape (len(groups),).
        """
        around = np.tile(passed.around, (len(groups) + 1, 1))
        for row, names in zip(around, groups, strict=False):
            row[[place for place, each in enumerate(self.context.names) if each in names]] = 0.0
        scores = self._new(around, passed).astype(np.float64)
        return np.asarray(scores[-1] - scores[:-1], dtype=np.float64)

    def written(self, digits: int) -> dict[str, Any]:
        """As JSON, rounded to significant digits."""
        encoder = self.encoder
        return {
            "exchanges": self.exchanges.written(digits),
            "candidates": self.candidates.written(digits),
            "context": self.context.written(digits),
            "of_message": list(self.of_message),
            "encoder": None
            if encoder is None
            else {name: rounded(getattr(encoder, name), digits) for name in _ENCODED},
            "layers": {
                name: {
                    "weight": rounded(each.weight, digits),
                    "bias": rounded(each.bias, digits),
                }
                for name, each in self.layers.items()
            },
        }

    @classmethod
    def read(
        cls, written: Mapping[str, Any], candidates: Sequence[str], context: Sequence[str]
    ) -> Network:
        """The network that was written, for tables with columns of these names."""
        encoder = written["encoder"]
        return cls(
            exchanges=Inputs.read(written["exchanges"], EXCHANGE_FEATURES),
            candidates=Inputs.read(written["candidates"], candidates),
            context=Inputs.read(written["context"], context),
            of_message=tuple(written["of_message"]),
            encoder=encoder
            and Encoder(**{name: np.array(encoder[name], dtype=np.float32) for name in _ENCODED}),
            layers={
                name: Layer(*(np.array(each[k], dtype=np.float32) for k in ("weight", "bias")))
                for name, each in written["layers"].items()
            },
        )


_ENCODED = ("centre", "reply", "user", "assistant", "message")


def silu(values: Array) -> Array:
    """x / (1 + exp(-x)) (Hendrycks and Gimpel 2016, "Gaussian Error Linear Units")."""
    return np.asarray(values / (1.0 + np.exp(-np.clip(values, -30.0, None))), dtype=np.float32)


def _log_sum(scores: Array, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Array:
    most = np.maximum.reduceat(scores, starts)
    raised = np.exp(scores - np.repeat(most, counts))
    return np.asarray(most + np.log(np.add.reduceat(raised, starts)), dtype=np.float32)


def _attended(
    scores: Array, values: Array, starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> Array:
    """The mean of the rows of each part, weighed by the softmax of their scores."""
    weights = np.exp(scores - np.repeat(_log_sum(scores, starts, counts), counts))
    return np.asarray(np.add.reduceat(weights[:, None] * values, starts), dtype=np.float32)
