"""Calls by which the model asks a person."""

from __future__ import annotations

import logging

from service.domain.conversation.instructions import Question
from service.domain.conversation.messages import ToolCall
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)


def question_of(registry: ToolRegistry, call: ToolCall) -> Question | None:
    """What a call asks of a person.

    None for a call that does something else, and for one whose arguments cannot be used: run, it
    comes to a failure that tells the model why.
    """
    asking = registry.asking(call.name)
    if asking is None:
        return None
    try:
        return asking.question(call)
    except ToolFailure:
        return None
    except Exception:  # noqa: BLE001 - a call that is not asked is answered by the tool itself
        _log.exception("What a call of %s asks cannot be told; it is not asked", call.name)
        return None
