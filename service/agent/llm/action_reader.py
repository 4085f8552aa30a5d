"""Reads an answer of the form that `ActionSchema` gives, while it streams.

A reply's words are passed on as they come. An action is passed on when it is complete, as a tool
call. Text that is not of the form at all is taken for the words of a reply.
"""

from __future__ import annotations

import json
import re

from service.agent.llm.action_schema import ActionSchema
from service.agent.llm.json_text import JsonStringReader
from service.domain.errors import LLMStreamError
from service.domain.ids import new_id
from service.domain.stream import StreamPart, TextDelta, ToolCallDelta

_ACTION = re.compile(r'\s*\{\s*"action"\s*:\s*"([^"\\]*)"')
_TEXT = re.compile(r'\s*,\s*"text"\s*:\s*"')


class ActionReader:
    """Turns the text of one answer into stream parts."""

    def __init__(self, form: ActionSchema) -> None:
        self._form = form
        self._text = ""
        self._action: str | None = None
        self._words: JsonStringReader | None = None
        self._plain = False

    def feed(self, piece: str) -> list[StreamPart]:
        """What this piece of the answer brings, perhaps nothing."""
        if self._words is not None:
            return _said(self._words.feed(piece))
        if self._plain:
            return _said(piece)
        self._text += piece
        if self._action is None:
            match = _ACTION.match(self._text)
            if match is None:
                return self._perhaps_plain()
            self._action = match[1]
        if self._action == self._form.reply:
            match = _ACTION.match(self._text)
            opening = _TEXT.match(self._text, match.end()) if match else None
            if opening is not None:
                self._words = JsonStringReader()
                return _said(self._words.feed(self._text[opening.end() :]))
        return []

    def finish(self) -> list[StreamPart]:
        """What is passed on at the end: the tool call, if the answer was one.

        A reply that was cut off by the bound of tokens ends in an ellipsis.

        Raises:
            LLMStreamError: the answer broke off in the middle of an action.
        """
        if self._words is not None:
            return [] if self._words.closed else _said("…")
        if self._plain:
            return []
        try:
            answer = json.loads(self._text, strict=False)
            name = answer.pop("action")
            arguments = answer.get("arguments", {}) if name in self._form.nested else answer
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            broken = LLMStreamError(
                "the embedded model's answer broke off inside a tool call",
                advice="Ask in other or fewer words, or set up a better model with"
                " RONDO_LLM__BASE_URL and RONDO_LLM__MODEL.",
            )
            broken.retryable = False  # at temperature 0 the same would come again
            raise broken from error
        if name == self._form.reply:
            return _said(str(answer.get("text", "")))
        text = json.dumps(arguments, ensure_ascii=False)
        return [ToolCallDelta(0, id=f"call_{new_id()}", name=str(name), arguments=text)]

    def _perhaps_plain(self) -> list[StreamPart]:
        start = self._text.lstrip()
        if start and not start.startswith("{"):
            self._plain = True
            return _said(self._text)
        return []


def _said(text: str) -> list[StreamPart]:
    return [TextDelta(text)] if text else []
