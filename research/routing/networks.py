"""The training of a `Network`: a softmax over each message's candidates and *new*."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from research.routing.feature_table import Floats, Integers, Table
from service.routing.features.embedding_features import centred
from service.routing.features.feature_set import (
    CANDIDATE_FEATURES,
    CONTEXT_FEATURES,
    MESSAGE_FEATURES,
)
from service.routing.features.turn_features import BY_USER, EXCHANGE_FEATURES
from service.routing.features.turn_network import LAYERS, Encoder, Inputs, Layer, Network

_LEAST_SPREAD = 1e-3
"""A feature with less of a standard deviation is taken not to vary."""
_STEEPEST = 5.0
"""The greatest length of a gradient."""
_LEAST = -1e9
"""Less than any score."""


@dataclass(frozen=True)
class Networking:
    """How a network is trained."""

    hidden: int = 80
    encoded: int = 48
    """Numbers of a vector that are held against another's."""
    of_message: int = 16
    """Numbers of the message's vector for itself."""
    epochs: int = 8
    rate: float = 2e-3
    decay: float = 0.1
    batch: int = 48
    dropped: float = 0.3
    """Share of a candidate's and the context's inputs, and of hidden numbers, that are left out."""
    dropped_vectors: float = 0.5
    """Share of a vector's numbers that are."""
    blind: float = 0.1
    """Share of the batches in which nothing is made of vectors but what the features say."""
    warm_up: int = 200
    """Steps until the rate is whole; then it falls to nothing."""
    seed: int = 0


class Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """As `Network`, for many messages at once."""

    def __init__(self, inputs: dict[str, int], width: int, how: Networking) -> None:
        super().__init__()
        hidden, encoded, message = how.hidden, how.encoded + 1, how.of_message
        if not width:
            encoded = message = 0
        random = torch.Generator().manual_seed(how.seed)

        def matrix(size: int, scale: float) -> torch.nn.Parameter:
            return torch.nn.Parameter(scale * torch.randn(width, size, generator=random))

        self.has_vectors = width > 0
        self.reply, self.user, self.assistant = (matrix(how.encoded, 0.05) for _ in range(3))
        self.message = matrix(message, 1 / math.sqrt(max(width, 1)))
        self.scale = torch.nn.Parameter(torch.tensor(5.0))
        sizes = {
            "exchange": (inputs["exchanges"] + inputs["of_message"] + encoded, hidden),
            "exchange_more": (hidden, hidden),
            "exchange_score": (hidden, 1),
            "attention": (hidden, 1),
            "candidate": (inputs["candidates"] + 1 + hidden + message, hidden),
            "candidate_more": (hidden, hidden),
            "among_all": (2 * hidden, hidden),
            "join_score": (hidden, 1),
            "context": (inputs["context"] + hidden + message, hidden),
            "new_score": (hidden, 1),
        }
        self.layers = torch.nn.ModuleDict({name: torch.nn.Linear(*sizes[name]) for name in LAYERS})
        self.drop = torch.nn.Dropout(how.dropped)
        self.drop_of_vector = torch.nn.Dropout(how.dropped_vectors)

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Scores of all candidates, and of *new* for each message."""
        layer, owner, beside = self.layers, batch["owner"], batch["beside"]
        messages, candidates = len(batch["right"]), len(owner)
        seen = [batch["exchanges"], batch["of_message"][owner[beside]]]
        of_vector = torch.zeros(messages, 0)
        if self.has_vectors:
            said, turns = self.drop_of_vector(batch["said"]), self.drop_of_vector(batch["turns"])
            heard = batch["heard"]
            sides = torch.where(
                batch["by_user"][:, None],
                (turns @ self.user)[heard],
                (turns @ self.assistant)[heard],
            )
            product = (said @ self.reply)[owner[beside]] * sides * self.scale
            seen += [product, product.sum(1, keepdim=True)]
            of_vector = said @ self.message
            if "blind" in batch:
                seen[-2:] = [torch.zeros_like(each) for each in seen[-2:]]
                of_vector = torch.zeros_like(of_vector)
        hidden = functional.silu(layer["exchange"](torch.cat(seen, 1)))
        hidden = functional.silu(layer["exchange_more"](self.drop(hidden)))
        heard_sum = _log_sum(layer["exchange_score"](hidden)[:, 0], beside, candidates)
        attention = layer["attention"](hidden)[:, 0]
        weights = torch.exp(attention - _log_sum(attention, beside, candidates)[beside])
        pooled = torch.zeros(candidates, hidden.shape[1])
        pooled = pooled.index_add(0, beside, weights[:, None] * hidden)
        each = torch.cat([batch["candidates"], heard_sum[:, None], pooled, of_vector[owner]], 1)
        each = functional.silu(layer["candidate"](self.drop(each)))
        each = functional.silu(layer["candidate_more"](self.drop(each)))
        most = torch.full((messages, each.shape[1]), _LEAST)
        most = most.scatter_reduce(0, owner[:, None].expand_as(each), each, "amax")
        most = torch.where(most == _LEAST, torch.zeros(()), most)
        among = functional.silu(layer["among_all"](torch.cat([each, most[owner]], 1)))
        join = heard_sum + layer["join_score"](among)[:, 0]
        around = self.drop(torch.cat([batch["context"], most, of_vector], 1))
        new = functional.silu(layer["context"](around))
        return join, layer["new_score"](self.drop(new))[:, 0]

    def losses(self, batch: dict[str, Tensor]) -> Tensor:
        """The negative logarithm of what each message's true place is given."""
        join, new = self(batch)
        owner, right = batch["owner"], batch["right"]
        most = torch.maximum(
            new, torch.full_like(new, _LEAST).scatter_reduce(0, owner, join, "amax")
        )
        most = most.detach()
        whole = torch.exp(new - most).index_add(0, owner, torch.exp(join - most[owner]))
        place = (batch["starts"] + right.clamp(min=0)).clamp(max=max(len(join) - 1, 0))
        true = torch.where(right < 0, new, join[place]) if len(join) else new
        return most + torch.log(whole) - true


def trained_network(
    tables: Sequence[Table],
    how: Networking,
    *,
    without: Collection[str] = (),
    sees_vectors: bool = False,
) -> Network:
    """Train on all messages of several sets; sets count by their weights.

    Args:
        tables: the sets.
        how: how it is trained.
        without: names of features that it is not to see.
        sees_vectors: whether vectors go in, beside what the features say of them.
    """
    return trained_with_feeds(tables, how, without=without, sees_vectors=sees_vectors)[-1]


def trained_with_feeds(
    tables: Sequence[Table],
    how: Networking,
    *,
    without: Collection[str] = (),
    sees_vectors: bool = False,
) -> tuple[Net, list[Feed], Network]:
    """As `trained_network`, with what was trained, and what it was fed."""
    torch.manual_seed(how.seed)
    inputs = _inputs(tables, without)
    feeds = [Feed.of(table, inputs) for table in tables]
    centre = np.mean([table.turns.mean(axis=0) for table in tables], axis=0).astype(np.float32)
    if sees_vectors:
        for feed in feeds:
            feed.show_vectors(centre)
    own = tuple(place for place, n in enumerate(inputs.context.names) if n in MESSAGE_FEATURES)
    sizes = {
        "exchanges": len(inputs.exchanges.names),
        "candidates": len(inputs.candidates.names),
        "context": len(inputs.context.names),
        "of_message": len(own),
    }
    net = Net(sizes, len(centre) if sees_vectors else 0, how)
    usual = float(np.mean(np.concatenate([table.weight for table in tables])))
    _fit(net, feeds, own, usual, how)
    return net, feeds, _network(net, inputs, own, centre)


def _fit(
    net: Net, feeds: Sequence[Feed], own: tuple[int, ...], usual: float, how: Networking
) -> None:
    random = np.random.default_rng(how.seed)
    batches = [(feed, ids) for feed in feeds for ids in feed.batches(how.batch)]
    optimiser = torch.optim.AdamW(net.parameters(), lr=how.rate, weight_decay=how.decay)
    steps, step = how.epochs * len(batches), 0
    for _ in range(how.epochs):
        for place in random.permutation(len(batches)):
            feed, ids = batches[place]
            batch = feed.batch(ids, own)
            if net.has_vectors and random.random() < how.blind:
                batch["blind"] = torch.ones(1)
            step += 1
            for group in optimiser.param_groups:
                group["lr"] = how.rate * min(1.0, step / how.warm_up) * (1 - (step - 1) / steps)
            loss = (net.losses(batch) * batch["weight"]).mean() / usual
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
            torch.nn.utils.clip_grad_norm_(net.parameters(), _STEEPEST)
            optimiser.step()


@dataclass(frozen=True, slots=True)
class _AllInputs:
    exchanges: Inputs
    candidates: Inputs
    context: Inputs


def _inputs(tables: Sequence[Table], without: Collection[str]) -> _AllInputs:
    def inputs(names: Sequence[str], of: str) -> Inputs:
        kept = [name for name in names if name not in without]
        columns = [names.index(name) for name in kept]
        rows = np.concatenate([getattr(table, of) for table in tables])[:, columns]
        counts = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
        middle = np.nansum(rows, axis=0, dtype=np.float64) / counts
        spread = np.sqrt(np.nansum((rows - middle) ** 2, axis=0) / counts)
        spread[spread < _LEAST_SPREAD] = 1.0  # what never varied would leap once it does
        return Inputs.of(kept, names, middle.astype(np.float32), spread.astype(np.float32))

    return _AllInputs(
        inputs(EXCHANGE_FEATURES, "exchanges"),
        inputs(CANDIDATE_FEATURES, "candidates"),
        inputs(CONTEXT_FEATURES, "context"),
    )


@dataclass(slots=True)
class Feed:
    """A table, scaled, in parts."""

    table: Table
    exchanges: Floats
    candidates: Floats
    context: Floats
    rows: Integers
    """Where each message's candidates begin, and where the last ends."""
    held: Integers
    """Where each candidate's exchanges begin, and where the last ends."""
    said: Floats | None = None
    turns: Floats | None = None

    @classmethod
    def of(cls, table: Table, inputs: _AllInputs) -> Feed:
        """Scale a table."""
        return cls(
            table,
            inputs.exchanges.scaled(table.exchanges),
            inputs.candidates.scaled(table.candidates),
            inputs.context.scaled(table.context),
            np.searchsorted(table.owner, np.arange(len(table.right) + 1)),
            np.searchsorted(table.beside, np.arange(len(table.owner) + 1)),
        )

    def show_vectors(self, centre: Floats) -> None:
        """Let vectors be seen as well."""
        self.turns = centred(self.table.turns, centre)
        self.said = centred(self.table.said, centre)

    def batches(self, size: int) -> list[Integers]:
        """Neighbours have turns in common: a batch of them takes less time."""
        every = np.arange(len(self.table.right))
        return [every[start : start + size] for start in range(0, len(every), size)]

    def batch(self, ids: Integers, of_message: Sequence[int]) -> dict[str, Tensor]:
        """Of messages that follow one another."""
        table = self.table
        rows = slice(self.rows[ids[0]], self.rows[ids[-1] + 1])
        held = slice(self.held[rows.start], self.held[rows.stop])
        context = self.context[ids]
        arrays = {
            "exchanges": self.exchanges[held],
            "beside": table.beside[held] - rows.start,
            "by_user": table.exchanges[held, BY_USER] > 0,
            "candidates": self.candidates[rows],
            "owner": table.owner[rows] - ids[0],
            "context": context,
            "of_message": context[:, list(of_message)],
            "right": table.right[ids],
            "starts": self.rows[ids] - rows.start,
            "weight": table.weight[ids],
        }
        if self.said is not None and self.turns is not None:
            turns, heard = np.unique(table.heard[held], return_inverse=True)
            arrays |= {"said": self.said[ids], "turns": self.turns[turns], "heard": heard}
        return {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in arrays.items()}


def _log_sum(scores: Tensor, part: Tensor, parts: int) -> Tensor:
    most = torch.full((parts,), _LEAST).scatter_reduce(0, part, scores, "amax").detach()
    raised = torch.exp(scores - most[part])
    return most + torch.log(torch.zeros(parts).index_add(0, part, raised))


def _network(net: Net, inputs: _AllInputs, of_message: tuple[int, ...], centre: Floats) -> Network:
    def array(tensor: Tensor) -> Floats:
        return np.asarray(tensor.detach().numpy(), dtype=np.float32)

    encoder = Encoder(
        centre=centre,
        reply=array(net.reply * net.scale),
        user=array(net.user),
        assistant=array(net.assistant),
        message=array(net.message),
    )
    return Network(
        exchanges=inputs.exchanges,
        candidates=inputs.candidates,
        context=inputs.context,
        of_message=of_message,
        encoder=encoder if net.has_vectors else None,
        layers={
            name: Layer(array(each.weight).T.copy(), array(each.bias))
            for name, each in net.layers.items()
        },
    )
