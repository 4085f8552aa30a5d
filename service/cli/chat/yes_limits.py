"""A yes within limits, as a person says it at a terminal: to these arguments, until a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from service.cli.chat.argument_editor import ask_line
from service.cli.daemon.stream_items import Json
from service.cli.terminal.output import aside, plain
from service.domain.conversation.messages import ToolCall
from service.domain.errors import InvalidInputError
from service.domain.history.approval_rules import Narrowing, rule_in_words

_EXAMPLES = "Say “18:00”, “1h”, “24 hours” or “tomorrow at 9”."
_FOR = re.compile(r"(?:for\s+)?(\d+)\s*(m|min|minutes?|h|hours?|d|days?)", re.IGNORECASE)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def ask_for_limits(
    call: ToolCall, scope: str | None, *, confirmed: Callable[[str], bool]
) -> Json | None:
    """The limits of a yes to a call, once the person has seen what it covers then; None where they
    would rather have it otherwise.

    Args:
        call: as it is to run.
        scope: what a yes covers; None: not known, as the call was edited.
        confirmed: asks for a yes or a no.

    Raises:
        EOFError, KeyboardInterrupt: they would rather not say.
    """
    exact = confirmed("With just these arguments?")
    narrow = Narrowing(arguments=exact, until=_until())
    if narrow.is_none:
        aside().print("These are no limits.", style="yellow")
        return None
    always = not confirmed("For this run loop alone?")
    about = scope or f"{call.name}, as you have edited it"
    rule = rule_in_words(about, call.name, narrow, arguments=call.arguments if exact else "")
    where = "in every run loop" if always else "in this run loop"
    aside().print(f"Your yes covers {plain(rule)}, {where}.", style="bold")
    if not confirmed("Is that right?"):
        return None
    remember = "always" if always else "run_loop"
    return {"remember": remember, "narrow": narrow.model_dump(mode="json")}


def _until() -> datetime | None:
    while True:
        said = ask_line(f"Until when? {_EXAMPLES} Enter: no end › ").strip()
        if not said:
            return None
        try:
            return read_until(said)
        except InvalidInputError as error:
            aside().print(error.problem().in_words(), style="yellow")


def read_until(said: str) -> datetime:
    """The end of a time, as a person says it.

    Raises:
        InvalidInputError: it is not understood, past, or comes again and again.
    """
    from service.schedules.phrases.reading import read_when  # slow, and rarely needed
    from service.storage.clock import local_zone_name

    words = re.sub(r"^(?:until|till|直到|到)\s*", "", said.strip(), flags=re.IGNORECASE)
    span = _FOR.fullmatch(words)
    if span is not None:
        words = f"in {int(span[1])} {_UNITS[span[2][0].lower()]}"
    timing = read_when(words, now=datetime.now(UTC), zone=local_zone_name() or "UTC")
    if timing.recurrence is not None:
        raise InvalidInputError(f"{said!r} comes again and again", advice=_EXAMPLES)
    return timing.start
