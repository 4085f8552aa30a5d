"""The features of many messages in one table, and parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from service.agent.routing.features import CANDIDATE_FEATURES, CONTEXT_FEATURES, features
from service.agent.routing.nearness import lead
from service.agent.routing.projection import LAST_TURNS, Projection
from service.agent.routing.scripts import NO_SCRIPT, script
from service.bench.routing.replay import Asked

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]
ABSENT, USER, ASSISTANT = 0, 1, 2


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
    made_up: NDArray[np.bool_]
    """Shape (M,): whether a message is a copy of another in made-up circumstances."""

    @property
    def starts(self) -> Integers:
        """Shape (M,): where a message's candidates begin."""
        return np.searchsorted(self.owner, np.arange(len(self.right)))

    def part(self, chosen: NDArray[np.bool_]) -> Table:
        """The messages that a mask of shape (M,) chooses."""
        rows = chosen[self.owner]
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
            made_up=self.made_up[chosen],
        )

    def weighing(self, whole: float) -> Table:
        """The same with weights that sum to this."""
        return replace(self, weight=np.full_like(self.weight, whole / max(len(self.weight), 1)))


def tabulated(asked: Sequence[Asked], *, made_up: bool = False) -> Table:
    """The features of messages whose vectors are known, without those of a projection."""
    place: dict[int, int] = {}
    vectors: list[Floats] = []
    pairs: list[Floats] = []
    contexts: list[Floats] = []
    last: list[list[int]] = []
    roles: list[list[int]] = []
    for each in asked:
        found = features(each.turn.text, each.turn.at, each.candidates, each.turn.vector)
        pairs.append(found.candidates.astype(np.float32))
        contexts.append(found.context.astype(np.float32))
        for candidate in each.candidates:
            spoken = candidate.turns[-LAST_TURNS:]
            for turn in spoken:
                if id(turn.vector) not in place and turn.vector is not None:
                    place[id(turn.vector)] = len(vectors)
                    vectors.append(turn.vector)
            absent = LAST_TURNS - len(spoken)
            last.append([0] * absent + [place[id(turn.vector)] for turn in spoken])
            known = [USER if turn.role == "user" else ASSISTANT for turn in spoken]
            roles.append([ABSENT] * absent + known)
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
        script=np.array([script(each.turn.text) for each in asked]),
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
    merged["last"] = np.concatenate(
        [table.last + moved for table, moved in zip(tables, turns, strict=False)]
    )
    return Table(**merged)


def projected(table: Table, projection: Projection) -> Table:
    """The table with the features that come from a projection; NaN where it knows nothing."""
    unknown = ~np.isin(table.script, [*projection.scripts, NO_SCRIPT])
    said = projection.centred(table.said)
    spoken = projection.centred(table.turns)
    reply = (said @ projection.reply)[table.owner]
    by_user, by_assistant = spoken @ projection.user, spoken @ projection.assistant
    fit: Floats = np.zeros(len(table.owner), dtype=np.float32)
    for column in range(LAST_TURNS):
        rows, role = table.last[:, column], table.roles[:, column]
        side = np.where((role == USER)[:, None], by_user[rows], by_assistant[rows])
        fit += projection.weights[column] * (reply * side).sum(axis=1) * (role != ABSENT)
    fit[unknown[table.owner]] = np.nan
    opens = np.where(unknown, np.nan, said @ projection.opening).astype(np.float32)
    candidates, context = table.candidates.copy(), table.context.copy()
    column_of = {name: index for index, name in enumerate(CANDIDATE_FEATURES)}
    context_of = {name: index for index, name in enumerate(CONTEXT_FEATURES)}
    candidates[:, column_of["fit"]] = fit
    candidates[:, column_of["opens"]] = opens[table.owner]
    context[:, context_of["opens"]] = opens
    last_word = candidates[:, column_of["seconds_since_user"]]
    bounds = [*table.starts, len(table.owner)]
    for message in range(len(table.right)):
        own = slice(bounds[message], bounds[message + 1])
        if own.start == own.stop:
            continue
        candidates[own, column_of["lead_fit"]] = lead(fit[own].astype(np.float64))
        context[message, context_of["most_fit"]] = fit[own].max()
        context[message, context_of["newest_fit"]] = fit[own][int(np.argmin(last_word[own]))]
    return replace(table, candidates=candidates, context=context)


def without_projection(table: Table, chosen: NDArray[np.bool_]) -> Table:
    """The table in which nothing comes from a projection for the messages that a mask chooses."""
    candidates, context = table.candidates.copy(), table.context.copy()
    rows = np.flatnonzero(chosen[table.owner])
    for name in ("fit", "lead_fit", "opens"):
        candidates[rows, CANDIDATE_FEATURES.index(name)] = np.nan
    for name in ("opens", "most_fit", "newest_fit"):
        context[np.flatnonzero(chosen), CONTEXT_FEATURES.index(name)] = np.nan
    return replace(table, candidates=candidates, context=context)
