"""Retrying model calls: exponential back-off with jitter, or as long as the endpoint asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from service.domain.errors import LLMError
from service.llm.backoff import Backoff

T = TypeVar("T")


async def retrying(
    call: Callable[[], Awaitable[T]],
    *,
    max_retries: int,
    backoff: Backoff = Backoff(),  # noqa: B008 (it is immutable)
    on_retry: Callable[[int, float, LLMError], Awaitable[None]],
) -> T:
    """Make a call, and make it again while it fails with a retryable `LLMError`.

    Args:
        call: what to do.
        max_retries: how often to do it again.
        backoff: how long to wait before each time; an endpoint that asks for a longer wait than
            its ``longest_wait_seconds`` is not waited for.
        on_retry: told before each wait: which attempt failed (from 1), the seconds to wait, why.

    Raises:
        LLMError: the last failure.
    """

    def is_worth_another_try(error: BaseException) -> bool:
        if not isinstance(error, LLMError) or not error.retryable:
            return False
        return (error.retry_after or 0) <= backoff.longest_wait_seconds

    async def before_sleep(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, LLMError):
            await on_retry(state.attempt_number, state.upcoming_sleep, error)

    # Most calls succeed at once: the machinery of retrying is set up for those that do not.
    try:
        return await call()
    except LLMError as error:
        if not max_retries or not is_worth_another_try(error):
            raise
        failed = [error]

    async def once() -> T:
        if failed:
            raise failed.pop()
        return await call()

    attempts = AsyncRetrying(
        retry=retry_if_exception(is_worth_another_try),
        stop=stop_after_attempt(max_retries + 1),
        wait=_Wait(backoff),
        sleep=anyio.sleep,
        before_sleep=before_sleep,
        reraise=True,
    )
    return await attempts(once)


class _Wait:
    def __init__(self, backoff: Backoff) -> None:
        self._growing = wait_random_exponential(
            multiplier=backoff.base_seconds, max=backoff.max_seconds
        )

    def __call__(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, LLMError) else None
        return self._growing(state) if asked is None else max(asked, 0.0)
