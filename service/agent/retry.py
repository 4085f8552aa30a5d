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

T = TypeVar("T")

_LONGEST_WAIT = 60.0
_backoff = wait_random_exponential(multiplier=0.5, max=20)


async def retrying(
    call: Callable[[], Awaitable[T]],
    *,
    max_retries: int,
    on_retry: Callable[[int, float, LLMError], Awaitable[None]],
) -> T:
    """Make a call, and make it again while it fails with a retryable `LLMError`.

    An endpoint that asks for a wait of more than a minute is not waited for: that is for the person
    to know at once.

    Args:
        call: what to do.
        max_retries: how often to do it again.
        on_retry: told before each wait: which attempt failed (from 1), the seconds to wait, why.

    Raises:
        LLMError: the last failure.
    """

    async def before_sleep(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, LLMError):
            await on_retry(state.attempt_number, state.upcoming_sleep, error)

    # Most calls succeed at once: the machinery of retrying is set up for those that do not.
    try:
        return await call()
    except LLMError as error:
        if not max_retries or not _is_worth_another_try(error):
            raise
        failed = [error]

    async def once() -> T:
        if failed:
            raise failed.pop()
        return await call()

    attempts = AsyncRetrying(
        retry=retry_if_exception(_is_worth_another_try),
        stop=stop_after_attempt(max_retries + 1),
        wait=_wait,
        sleep=anyio.sleep,
        before_sleep=before_sleep,
        reraise=True,
    )
    return await attempts(once)


def _is_worth_another_try(error: BaseException) -> bool:
    if not isinstance(error, LLMError) or not error.retryable:
        return False
    return error.retry_after is None or error.retry_after <= _LONGEST_WAIT


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, LLMError) else None
    if asked is not None:
        return max(asked, 0.0)
    return _backoff(state)
