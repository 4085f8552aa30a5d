"""Calling code that is not ours: within a time, and with every failure as one kind of error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from service.domain.errors import RondoError
from service.loop.unexpected_errors import in_words
from service.tools.protocol import caller_is_cancelled

log = logging.getLogger(__name__)

T = TypeVar("T")


class HookError(RondoError):
    """A custom hook failed."""

    kind = "hook"
    title = "A hook failed"


async def call_with_timeout(
    name: str, call: Callable[[], Awaitable[T]], *, timeout_seconds: float
) -> T:
    """Call, and come back within a time, whatever happens. Cancellation passes through.

    Args:
        name: what it is called in the log and in the error.
        call: what to do.
        timeout_seconds: how long it may take; what blocks the event loop cannot be stopped.

    Raises:
        HookError: it raised, or took too long; it is logged.
    """
    try:
        with anyio.move_on_after(timeout_seconds):
            return await call()
        reason = f"it did not come back within {timeout_seconds:g} seconds"
        log.error("%s: %s", name, reason)
    except asyncio.CancelledError as error:
        if caller_is_cancelled():
            raise
        reason = "what it waited for was cancelled"
        log.error("%s: %s", name, reason, exc_info=error)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # not ours: SystemExit must not end the daemon either
        reason = in_words(error)
        log.error("%s failed", name, exc_info=error)
    raise HookError(
        f"the hook {name} of yours failed: {reason}",
        advice="The log has the details. Correct it, or take it out of agent.hooks.",
    )
