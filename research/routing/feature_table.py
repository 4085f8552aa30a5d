"""The features of many messages in one table, and parts of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from research.routing.replay import Asked
from service.domain.text import main_script
from service.routing.features.feature_set import Features, features
from service.routing.features.turn_features import Exchanges

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]
ABSENT, USER, ASSISTANT = 0, 1, 2
LAST_TURNS = 4
"""How many of a loop's newest turns the direction of openings is learned beside."""


@dataclass(frozen=True, slots=True)
class Table:
    """M messages with R candidates in all."""

    candidates: Floats
    """Shape (R, len(CANDIDATE_FEATURES))."""
    context: Floats
    """Shape (M, len(CONTEXT_FEATURES))."""
    owner: Integers
    """Shape (R,): the message of a candidate, ascending."""
    right: Integers
    """Shape (M,): the place among the message's own candidates, -1 for a new one."""
    file: Integers
    """Shape (M,)."""
    weight: Floats
    """Shape (M,)."""
    said: Floats
    """Shape (M, d): the vectors of the messages."""
    turns: Floats
    """Shape (U, d): the vectors of all turns, each once."""
    last: Integers
    """Shape (R, LAST_TURNS): rows of `turns`, the newest last."""
    roles: Integers
    """Shape (R, LAST_TURNS)."""
    script: NDArray[np.str_]
    """Shape (M,): of the messages."""
    exchanges: Floats
    """Shape (P, len(EXCHANGE_FEATURES)): of the messages with all turns of their candidates."""
    beside: Integers
    """Shape (P,): the candidate of an exchange, ascending."""
    heard: Integers
    """Shape (P,): rows of `turns`."""
    made_up: NDArray[np.bool_]
    """Shape (M,): whether a message is a copy of another in made-up circumstances."""

    @property
    def starts(self) -> Integers:
        """Shape (M,): where a message's candidates begin."""
        return np.searchsorted(self.owner, np.arange(len(self.right)))

    def part(self, chosen: NDArray[np.bool_]) -> Table:
        """The messages that a mask of shape (M,) chooses."""
        rows = chosen[self.owner]
        held = rows[self.beside]
        number = np.cumsum(chosen) - 1
        return replace(
            self,
            candidates=self.candidates[rows],
            context=self.context[chosen],
            owner=number[self.owner[rows]],
            right=self.right[chosen],
            file=self.file[chosen],
            weight=self.weight[chosen],
            said=self.said[chosen],
            last=self.last[rows],
            roles=self.roles[rows],
            script=self.script[chosen],
            exchanges=self.exchanges[held],
            beside=(np.cumsum(rows) - 1)[self.beside[held]],
            heard=self.heard[held],
            made_up=self.made_up[chosen],
        )

    def features_of(self) -> Iterator[Features]:
        """Each message's, as the model sees them."""
        rows = np.searchsorted(self.owner, np.arange(len(self.right) + 1))
        turns = np.searchsorted(self.beside, np.arange(len(self.owner) + 1))
        for message in range(len(self.right)):
            first, end = rows[message], rows[message + 1]
            held = slice(turns[first], turns[end])
            yield Features(
                candidates=self.candidates[first:end].astype(np.float64),
                context=self.context[message].astype(np.float64),
                exchanges=Exchanges(
                    rows=self.exchanges[held].astype(np.float64),
                    starts=turns[first:end] - turns[first],
                    vector=self.said[message],
                    heard=[self.turns[row] for row in self.heard[held]],
                ),
            )

    def weighing(self, whole: float) -> Table:
        """The same with weights that sum to this."""
        return replace(self, weight=np.full_like(self.weight, whole / max(len(self.weight), 1)))


def tabulated(asked: Sequence[Asked], *, made_up: bool = False) -> Table:
    """The features of messages whose vectors are known, without those that are learned of them."""
    place: dict[int, int] = {}
    vectors: list[Floats] = []
    pairs: list[Floats] = []
    contexts: list[Floats] = []
    held: list[Floats] = []
    turn_counts: list[int] = []
    heard: list[int] = []
    last: list[list[int]] = []
    roles: list[list[int]] = []
    for each in asked:
        row = features(each.turn.text, each.turn.at, each.candidates, each.turn.vector)
        pairs.append(row.candidates.astype(np.float32))
        contexts.append(row.context.astype(np.float32))
        held.append(row.exchanges.rows.astype(np.float32))
        turn_counts += np.diff([*row.exchanges.starts, len(held[-1])]).tolist()
        for vector in row.exchanges.heard:
            if vector is not None:
                if id(vector) not in place:
                    place[id(vector)] = len(vectors)
                    vectors.append(vector)
                heard.append(place[id(vector)])
        for candidate in each.candidates:
            spoken = candidate.turns[-LAST_TURNS:]
            absent = LAST_TURNS - len(spoken)
            last.append([0] * absent + [place[id(turn.vector)] for turn in spoken])
            speakers = [USER if turn.role == "user" else ASSISTANT for turn in spoken]
            roles.append([ABSENT] * absent + speakers)
    counts = [len(each.candidates) for each in asked]
    return Table(
        candidates=np.concatenate(pairs),
        context=np.stack(contexts),
        owner=np.repeat(np.arange(len(asked)), counts),
        right=np.array([each.right for each in asked]),
        file=np.array([each.file for each in asked]),
        weight=np.ones(len(asked), dtype=np.float32),
        said=np.stack([each.turn.vector for each in asked if each.turn.vector is not None]),
        turns=np.stack(vectors),
        last=np.array(last),
        roles=np.array(roles),
        script=np.array([main_script(each.turn.text) for each in asked]),
        exchanges=np.concatenate(held),
        beside=np.repeat(np.arange(len(turn_counts)), turn_counts),
        heard=np.array(heard),
        made_up=np.full(len(asked), made_up),
    )


def joined(tables: Sequence[Table]) -> Table:
    """Several tables as one; `file` numbers are of use afterwards within one set only."""
    messages = np.cumsum([0, *(len(each.right) for each in tables)])
    turns = np.cumsum([0, *(len(each.turns) for each in tables)])
    merged = {
        each.name: np.concatenate([getattr(table, each.name) for table in tables])
        for each in fields(Table)
    }
    merged["owner"] = np.concatenate(
        [table.owner + moved for table, moved in zip(tables, messages, strict=False)]
    )
    rows = np.cumsum([0, *(len(each.owner) for each in tables)])
    merged["beside"] = np.concatenate(
        [table.beside + moved for table, moved in zip(tables, rows, strict=False)]
    )
    merged["heard"] = np.concatenate(
        [table.heard + moved for table, moved in zip(tables, turns, strict=False)]
    )
    merged["last"] = np.concatenate(
        [table.last + moved for table, moved in zip(tables, turns, strict=False)]
    )
    return Table(**merged)
