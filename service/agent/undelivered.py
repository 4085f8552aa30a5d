"""What is told of a message that did not get into its loop, or not where it first was to."""

from __future__ import annotations

from service.domain.errors import Problem
from service.domain.routes import Route
from service.loop import unexpected_errors

UNREADABLE = Problem(
    kind="internal",
    title="The message could not be worked on",
    detail="it is stored in a form that cannot be read",
    advice="It is safe; it may be of a newer version of Rondo. Send its words anew.",
)


def not_worked_on(error: BaseException) -> Problem:
    """What keeps a message from being delivered before the next start."""
    return unexpected_errors.problem_of(
        error,
        title="The message could not be worked on",
        advice="It is safe, and is tried again at the next start; the daemon's log says more.",
    )


def decided_again(route: Route, first: Route) -> Route:
    """A decision that was made anew, as what was chosen first had ended: with all that it took."""
    times = [each.latency_ms for each in (first, route) if each.latency_ms is not None]
    return route.model_copy(
        update={
            "latency_ms": round(sum(times), 2) if times else None,
            "reason": f"{route.reason}; what was chosen first had ended meanwhile",
        }
    )
