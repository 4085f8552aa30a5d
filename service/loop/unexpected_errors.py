"""What to make of an error that nobody expected: whose it is, and how to tell a person."""

from __future__ import annotations

import asyncio

from service.domain.errors import Problem, RondoError, StorageError
from service.tools.protocol import caller_is_cancelled


def leaves(error: BaseException) -> list[BaseException]:
    """The errors of a group and of the groups within it; of any other error, itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]


def passes_through(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Whether an error is meant for the whole task or process, and is not to be dealt with here.

    Code that is not ours may raise `CancelledError`, `GeneratorExit` or `SystemExit` as it likes:
    the first two count only where this task is really cancelled or closed, the last never.

    Args:
        error: what was raised.
        task: the task that runs the code around which it is caught, taken before it was raised: a
            coroutine that is being closed is closed from another one, or from none.
    """
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves(error)):
        return True
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task
    return isinstance(error, asyncio.CancelledError) and caller_is_cancelled()


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


def one_of(error: BaseException) -> BaseException:
    """The error that says most: of a group, one of the disk's, else one of ours, else the first."""
    errors = leaves(error)
    for kind in (StorageError, RondoError):
        for leaf in errors:
            if isinstance(leaf, kind):
                return leaf
    return errors[0]


def in_words(error: BaseException) -> str:
    """What an error says, in words that can be stored, whatever it is made of."""
    try:
        words = str(error).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  an error whose words are broken is still told
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def problem_of(
    error: BaseException,
    *,
    title: str = "The assistant made a mistake of its own",
    advice: str = "Please report it; the daemon's log has the details.",
) -> Problem:
    """An error as a value; `title` and `advice` are for those that are none of ours."""
    if isinstance(error, RondoError):
        return error.problem()
    return Problem(kind="internal", title=title, detail=in_words(error), advice=advice)
