"""How long an endpoint may take, and what is said of one that takes longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from service.domain.errors import LLMTimeoutError
from service.llm.remote.endpoints import Endpoint


@contextmanager
def before(deadline: float, endpoint: Endpoint) -> Iterator[None]:
    """Break off what is not done by then. Nothing may be yielded to others from inside.

    Args:
        deadline: of the whole call, on the clock of the event loop.
        endpoint: what is called.

    Raises:
        LLMTimeoutError: it was broken off.
    """
    with anyio.CancelScope(deadline=deadline) as scope:
        yield
    if scope.cancelled_caught:
        raise took_too_long(endpoint)


def silence(endpoint: Endpoint) -> LLMTimeoutError:
    """Nothing came for as long as a silence may be."""
    return LLMTimeoutError(
        f"{endpoint.place}: nothing came for {endpoint.timeout_seconds:g} s",
        advice="Try again; RONDO_LLM__TIMEOUT_SECONDS says how long a silence may be.",
    )


def took_too_long(endpoint: Endpoint) -> LLMTimeoutError:
    """The whole call did not come to its end in time."""
    late = LLMTimeoutError(
        f"{endpoint.place} had not ended its answer after {endpoint.max_call_seconds:g} s, and was"
        " broken off",
        advice="Raise RONDO_LLM__MAX_CALL_SECONDS if answers may take that long, or lower"
        " RONDO_LLM__MAX_TOKENS.",
    )
    late.retryable = False  # once more would take as long
    return late
