"""What embeddings say beyond nearness: whether a message replies to a turn, or opens a matter.

A reply is often not alike to what it replies to ("Could you give me your user id?", "It's
anna_7"). Two small projections, trained on conversations, bring a reply and what it replies to
together; one direction tells messages that open a matter from those that go on with one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.routing.text.text_reading import Turn, Vector
from service.routing.text.text_script import NO_SCRIPT, script

LAST_TURNS = 4
"""How many of a loop's newest turns a reply is held against."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Learned on centred vectors of one embedder, of d dimensions; k is small."""

    centre: Vector
    """Shape (d,): the mean of all texts."""
    reply: NDArray[np.float32]
    """Shape (d, k): of the message."""
    user: NDArray[np.float32]
    """Shape (d, k): of a turn of the person's."""
    assistant: NDArray[np.float32]
    """Shape (d, k): of a turn of the assistant's."""
    weights: Vector
    """Shape (LAST_TURNS,): of the turns, oldest first."""
    opening: Vector
    """Shape (d,): where messages lie that open a matter."""
    scripts: tuple[str, ...]
    """Scripts of the texts that it was learned on. Of messages in others it knows nothing: with
    one script left out of the training, messages in it were all taken for openings, or none."""

    @property
    def dimensions(self) -> int:
        """How long the vectors are that it was learned on."""
        return len(self.centre)

    def knows(self, text: str) -> bool:
        """Whether it can say anything of a message."""
        found = script(text)
        return found == NO_SCRIPT or found in self.scripts

    def centred(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors without what all have in common, of length 1."""
        return centred(vectors, self.centre)

    def opens(self, vector: Vector) -> float:
        """How much a message is like those that open a matter."""
        return float(self.centred(vector) @ self.opening)

    def fits(self, vector: Vector, loops: Sequence[Sequence[Turn]]) -> NDArray[np.float64]:
        """How well a message replies to the last turns of each loop, shape (len(loops),)."""
        rows: list[Vector] = []
        places: list[tuple[int, int, bool]] = []
        for index, turns in enumerate(loops):
            for back, turn in enumerate(reversed(turns[-LAST_TURNS:])):
                if turn.vector is not None:
                    rows.append(turn.vector)
                    places.append((index, LAST_TURNS - 1 - back, turn.role == "user"))
        found = np.zeros(len(loops))
        if not rows:
            return np.full(len(loops), np.nan)
        reply = self.centred(vector) @ self.reply
        said = self.centred(np.stack(rows))
        by_user, by_assistant = said @ (self.user @ reply), said @ (self.assistant @ reply)
        for (index, place, is_user), one, other in zip(places, by_user, by_assistant, strict=True):
            found[index] += self.weights[place] * (one if is_user else other)
        return found

    def written(self, digits: int = 4) -> dict[str, list[Any]]:
        """As JSON, rounded to significant digits."""
        arrays = {
            each.name: rounded(getattr(self, each.name), digits)
            for each in fields(self)
            if each.name != "scripts"
        }
        return {**arrays, "scripts": list(self.scripts)}

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Projection:
        """The projection that was written."""
        arrays = {
            each.name: np.array(written[each.name], dtype=np.float32)
            for each in fields(cls)
            if each.name != "scripts"
        }
        return cls(**arrays, scripts=tuple(written["scripts"]))


def centred(vectors: NDArray[np.float32], centre: Vector) -> NDArray[np.float32]:
    """Vectors without what all have in common, of length 1."""
    moved = vectors - centre
    lengths = np.linalg.norm(moved, axis=-1, keepdims=True)
    return np.asarray(moved / np.maximum(lengths, 1e-9), dtype=np.float32)


def rounded(values: NDArray[np.float32], digits: int) -> list[Any]:
    """A vector or a matrix as lists of numbers of so many significant digits."""
    if values.ndim > 1:
        return [rounded(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") for value in values.tolist()]
