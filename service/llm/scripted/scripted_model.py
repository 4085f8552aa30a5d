"""A model that answers from a script: for tests, demonstrations and benchmarks.

>>> llm = ScriptedModel(turns=['call: add {"a": 1, "b": 2}', "text: Three."])
>>> llm.model
'scripted'
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import (
    StreamPart,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import ConfigurationError, InvalidInputError, LLMError, LLMStreamError
from service.llm.protocol import LLMStatus
from service.llm.scripted.script_language import (
    Answer,
    Fail,
    Pause,
    Rule,
    Say,
    Script,
    parse_answer,
    parse_script,
    pieces,
)

_KEPT_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Request:
    """A call that was made, for tests to look at."""

    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    response_schema: dict[str, Any] | None


class ScriptedModel:
    """Plays a script. Satisfies `service.llm.protocol.LLM`.

    Rules of the script come first: they follow from the conversation alone. Where none matches, the
    turns are used up in order, one a call; after them comes the script's default. A call for a
    schema is answered by schema rules only. Without tools on offer, answers that call tools give
    way to the default, as no model calls what it is not offered.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        turns: Iterable[str | Answer] = (),
        model: str = "scripted",
        context_tokens: int = 32_768,
    ) -> None:
        """Make a model of a script.

        Args:
            script: rules and default; without one, a call after the last turn is an error.
            turns: answers in order (text is read as `service.llm.scripted.script_language` says).
            model: the name to report.
            context_tokens: the window to report.

        Raises:
            InvalidInputError: a turn cannot be understood.
        """
        self._script = script or Script(default=None)
        self._turns = deque(
            parse_answer(turn) if isinstance(turn, str) else tuple(turn) for turn in turns
        )
        self._model = model
        self._context_tokens = context_tokens
        self._failures: Counter[tuple[object, ...]] = Counter()
        self.requests: deque[Request] = deque(maxlen=_KEPT_REQUESTS)
        """The last calls that were made, oldest first."""

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Read a script file.

        Raises:
            ConfigurationError: there is no such file, or it is not a script; says which line.
        """
        try:
            return cls(parse_script(path.read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the script {path} cannot be read: {error}",
                advice="Give the path of a script file as RONDO_LLM__MODEL.",
            ) from error
        except InvalidInputError as error:
            raise ConfigurationError(f"{path}: {error.detail}", advice=error.advice) from error

    @property
    def model(self) -> str:
        """The name to report."""
        return self._model

    @property
    def context_tokens(self) -> int:
        """The window to report."""
        return self._context_tokens

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Nothing is to be made ready."""

    def status(self) -> LLMStatus:
        """Always ready."""
        return LLMStatus(True, f"{self._model}: answers come from a script")

    async def aclose(self) -> None:
        """Nothing is held."""

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Play the answer to this conversation (see the protocol; bounds are not kept).

        Raises:
            LLMError: as the script says, or because it says nothing.
        """
        self.requests.append(
            Request(tuple(messages), tuple(tool.name for tool in tools), response_schema)
        )
        answer = self._answer(messages, bool(tools), response_schema)
        await anyio.lowlevel.checkpoint()
        something = False
        for number, step in enumerate(answer):
            if isinstance(step, Pause):
                await anyio.sleep(step.seconds)
            elif isinstance(step, Fail):
                if self._fails(step, number, messages):
                    raise step.error()
            else:
                for part in _parts(step, messages):
                    yield replace(part, model=self._model) if isinstance(part, TokenUsage) else part
                    something = something or isinstance(part, ToolCallDelta)
                    something = something or (
                        isinstance(part, TextDelta) and bool(part.text.strip())
                    )
        if not something:
            raise LLMStreamError("the script gave neither words nor a tool call")

    def _answer(
        self, messages: Sequence[Message], offered: bool, schema: dict[str, Any] | None
    ) -> Answer:
        said = _last_of("user", messages)
        if schema is not None:
            answer = _by_rule(self._script.schema_rules, said, 0)
            if answer is None:
                raise LLMError("the script has no answer to calls with a schema")
            return answer
        rules = self._script.rules
        answer = _by_rule(rules, said, _step(messages)) if rules else None
        if answer is None and self._turns:
            answer = self._turns.popleft()
        if answer is None or (not offered and _calls(answer)):
            answer = self._script.default
        if answer is None:
            raise LLMError(
                f"the script has no answer to {said[:80]!r}", advice="Add a turn or a rule for it."
            )
        return answer

    def _fails(self, step: Fail, number: int, messages: Sequence[Message]) -> bool:
        if step.times is None:
            return True
        place = (number, len(messages), messages[0].text, messages[-1].text)
        self._failures[place] += 1
        return self._failures[place] <= step.times


def _by_rule(rules: Sequence[Rule], said: str, step: int) -> Answer | None:
    for rule in rules:
        if rule.pattern.search(said):
            return rule.answers[step] if step < len(rule.answers) else None
    return None


def _step(messages: Sequence[Message]) -> int:
    """How often the model has answered since the person spoke last."""
    answers = 0
    for message in reversed(messages):
        if _is_spoken(message):
            break
        answers += message.role == "assistant"
    return answers


def _is_spoken(message: Message) -> bool:
    """Whether a person said it: what Rondo itself says is a note beside no words."""
    return message.role == "user" and (bool(message.words) or not message.notes)


def _last_of(role: str, messages: Sequence[Message]) -> str:
    newest_first = (each for each in reversed(messages) if each.role == role)
    return next((each.text for each in newest_first if role != "user" or _is_spoken(each)), "")


def _calls(answer: Answer) -> bool:
    return any(isinstance(step, ToolCallDelta) for step in answer)


def _parts(step: StreamPart | Say, messages: Sequence[Message]) -> Iterator[StreamPart]:
    if not isinstance(step, Say):
        yield step
        return
    text = step.text
    if "{message}" in text:
        text = text.replace("{message}", _last_of("user", messages))
    if "{result}" in text:
        text = text.replace("{result}", _last_of("tool", messages))
    for piece in pieces(text, step.size):
        yield TextDelta(piece)
