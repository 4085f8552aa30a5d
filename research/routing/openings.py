"""The training of `Openings`: how a message looks when it opens a topic.

The direction is one option of a softmax over a message's candidates; what it replies to, by two
small projections, and a few plain features stand beside it, so that it learns what they do not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from research.routing.feature_table import ABSENT, LAST_TURNS, USER, Integers, Table
from service.routing.features.embedding_features import Openings, centred
from service.routing.features.feature_set import CANDIDATE_FEATURES

_BESIDE = (
    "messages_between",
    "seconds_since_user",
    "share_of_last_5",
    "closed",
    "dismissed",
    "lead_overlap",
    "standing_best",
    "standing_recent",
    "own_words",
    "last_asks",
    "turns",
)
_SCALE = 5.0
_FADING = 0.75
_LEAST_OF_SCRIPT = 0.05


@dataclass(frozen=True)
class Opening:
    """How the direction is trained."""

    dimensions: int = 64
    epochs: int = 12
    rate: float = 2e-3
    decay: float = 1e-3
    penalty: float = 5e-5
    batch: int = 48
    dropped: float = 0.45
    """Share of a vector's numbers that are left out at random while training."""
    seed: int = 0


class _Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, width: int, how: Opening) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(how.seed)

        def matrix() -> torch.nn.Parameter:
            return torch.nn.Parameter(0.05 * torch.randn(width, how.dimensions, generator=random))

        self.reply, self.user, self.assistant = matrix(), matrix(), matrix()
        self.weights = torch.nn.Parameter(torch.zeros(LAST_TURNS))
        self.scale = torch.nn.Parameter(torch.tensor(_SCALE))
        self.opening = torch.nn.Parameter(torch.zeros(width))
        self.bias = torch.nn.Parameter(torch.zeros(1))
        self.beside = torch.nn.Parameter(torch.zeros(len(_BESIDE)))
        self.dropping = torch.nn.Dropout(how.dropped)

    def losses(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        owner, right = batch["owner"], batch["right"]
        last, own = self.dropping(batch["turns"]), self.dropping(batch["said"])
        by_user = (last @ self.user)[batch["last"]]
        by_assistant = (last @ self.assistant)[batch["last"]]
        roles = batch["roles"][..., None]
        said = torch.where(roles == USER, by_user, by_assistant) * (roles != ABSENT)
        heard = (said * torch.softmax(self.weights, 0)[None, :, None]).sum(1)
        reply = (own @ self.reply)[owner]
        join = (reply * heard).sum(1) * self.scale + batch["beside"] @ self.beside
        new = own @ self.opening * _SCALE + self.bias
        most = torch.maximum(new, torch.full_like(new, -1e9).scatter_reduce(0, owner, join, "amax"))
        whole = torch.exp(new - most).index_add(0, owner, torch.exp(join - most[owner]))
        place = (batch["starts"] + right.clamp(min=0)).clamp(max=max(len(join) - 1, 0))
        true = torch.where(right < 0, new, join[place]) if len(join) else new
        return most + torch.log(whole) - true


def trained_openings(tables: Sequence[Table], how: Opening) -> Openings:
    """For all sets together. Each batch is of one set; every message counts alike."""
    torch.manual_seed(how.seed)
    random = np.random.default_rng(how.seed)
    centre = np.mean([table.turns.mean(axis=0) for table in tables], axis=0).astype(np.float32)
    spoken = [torch.from_numpy(centred(table.turns, centre)) for table in tables]
    said = [torch.from_numpy(centred(table.said, centre)) for table in tables]
    columns = [CANDIDATE_FEATURES.index(name) for name in _BESIDE]
    every = np.concatenate([table.candidates[:, columns] for table in tables])
    middle, spread = np.nanmean(every, axis=0), np.nanstd(every, axis=0) + 1e-6
    beside = [
        torch.from_numpy(
            np.nan_to_num((table.candidates[:, columns] - middle) / spread).astype(np.float32)
        )
        for table in tables
    ]
    net = _Net(len(centre), how)
    optimiser = torch.optim.AdamW(net.parameters(), lr=how.rate, weight_decay=how.decay)
    matrices = (net.reply, net.user, net.assistant, net.opening)
    for _ in range(how.epochs):
        for which, ids in _batches(tables, how.batch, random):
            batch = _batch(tables[which], said[which], spoken[which], beside[which], ids)
            penalty = sum(((each**2).sum() for each in matrices), torch.zeros(()))
            loss = net.losses(batch).mean() + how.penalty * penalty
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
            optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= _FADING
    opening = np.asarray(net.opening.detach().numpy() * _SCALE, dtype=np.float32)
    return Openings(centre, opening, _scripts(tables))


def _scripts(tables: Sequence[Table]) -> tuple[str, ...]:
    """Scripts in which some set has messages enough to learn from."""
    scripts: set[str] = set()
    for table in tables:
        names, counts = np.unique(table.script, return_counts=True)
        scripts.update(names[counts >= _LEAST_OF_SCRIPT * max(len(table.script), 1)].tolist())
    return tuple(sorted(scripts))


def _batches(
    tables: Sequence[Table], size: int, random: np.random.Generator
) -> list[tuple[int, Integers]]:
    batches: list[tuple[int, Integers]] = []
    for which, table in enumerate(tables):
        # Neighbours have turns in common: a batch of them is projected in less time.
        order = np.arange(len(table.right))
        batches += [(which, order[start : start + size]) for start in range(0, len(order), size)]
    return [batches[each] for each in random.permutation(len(batches))]


def _batch(
    table: Table,
    said: torch.Tensor,
    spoken: torch.Tensor,
    beside: torch.Tensor,
    ids: Integers,
) -> dict[str, torch.Tensor]:
    bounds = np.append(table.starts, len(table.owner)) if len(ids) else np.zeros(1, dtype=np.int64)
    counts = bounds[ids + 1] - bounds[ids]
    rows = np.concatenate([np.arange(bounds[each], bounds[each + 1]) for each in ids])
    turns, last = np.unique(table.last[rows], return_inverse=True)
    return {
        "owner": torch.from_numpy(np.repeat(np.arange(len(ids)), counts)),
        "right": torch.from_numpy(table.right[ids]),
        "starts": torch.from_numpy(np.cumsum(counts) - counts),
        "said": said[torch.from_numpy(ids)],
        "turns": spoken[torch.from_numpy(turns)],
        "last": torch.from_numpy(last.reshape(-1, LAST_TURNS)),
        "roles": torch.from_numpy(table.roles[rows]),
        "beside": beside[torch.from_numpy(rows)],
    }
