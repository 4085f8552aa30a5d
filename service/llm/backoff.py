"""How long it is waited before a call of a model is made again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between the tries: random ones, up to a bound that doubles with each."""

    base_seconds: float = 0.5
    """The bound of the first."""
    max_seconds: float = 20
    """The bound of all."""
    longest_wait_seconds: float = 60
    """How long a wait is waited for that the endpoint itself asks for; a longer one fails at once:
    that is for the person to know."""
