r"""A small language in which a script says what a model answers.

An answer is a few lines, played from top to bottom:

==========================  ======================================================================
``text: Hello {message}``   words; ``{message}`` is what the person said last, ``{result}`` the last
                            tool result, ``\n`` a line break
``think: let me see``       reasoning
``call: NAME {"x": 1}``     a tool call (``call: NAME`` alone has no arguments)
``pause: 0.5``              seconds of silence
``usage: 120 8``            a report of tokens, input and output
``error: 429/2 slow down``  fails with this HTTP status (and seconds to wait, after the stroke), or
                            with ``connection``, ``timeout``, ``stream``, ``not-ready``, ``fatal``
``cut:``                    the stream ends in the middle
``finish: length``          the answer is not whole: its tokens are used up (or ``content_filter``)
``id: resp_1``              the id under which a provider would know the answer
==========================  ======================================================================

``text/3:``, ``think/3:`` and ``call/3:`` come in pieces of three characters. ``error x2:`` and
``cut x2:`` happen the first two times only that the same conversation comes to them.

>>> [type(step).__name__ for step in parse_answer("think: hm\ntext/2: Hello\ncut x1:")]
['ThinkDelta', 'Say', 'Fail']

A script is a list of rules with answers, separated by ``--``: the first answers the person's
message, the next one the tool results after it, and so on. ``-- x20`` plays the answer after it 20
times. Which answer comes next follows from the conversation alone, so that many run loops can share
a script, and a conversation gets the same answer again after a crash.

>>> script = parse_script('''
... # The first rule whose expression is found in the person's last message is played.
... == when weather|天气
... call: web_search {"query": "weather"}
... --
... text: It will be sunny.
... == schema which topic
... text: {"continues": "a new matter"}
... == default
... text: You said: {message}
... ''')
>>> script.rules[0].pattern.pattern, len(script.rules[0].answers)
('weather|天气', 2)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from service.domain.conversation.messages import FinishReason
from service.domain.conversation.stream_parts import (
    ResponseInfo,
    StreamPart,
    ThinkDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.errors import (
    InvalidInputError,
    LLMConnectionError,
    LLMError,
    LLMNotReadyError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
)


@dataclass(frozen=True, slots=True)
class Say:
    """Words with placeholders, in pieces of `size` characters (0: in one)."""

    text: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """The call fails here."""

    kind: str
    """An HTTP status, or a word of `_ERRORS`."""
    words: str = ""
    retry_after: float | None = None
    times: int | None = None
    """Only so many times at the same place of the same conversation; None for always."""

    def error(self) -> LLMError:
        """A new error of this kind."""
        words = self.words or "as the script says"
        if self.kind.isdigit():
            return LLMStatusError(int(self.kind), words, retry_after=self.retry_after)
        return _ERRORS[self.kind](words)


_ERRORS: dict[str, type[LLMError]] = {
    "connection": LLMConnectionError,
    "timeout": LLMTimeoutError,
    "stream": LLMStreamError,
    "not-ready": LLMNotReadyError,
    "fatal": LLMError,
}

_FINISH_REASONS: dict[str, FinishReason] = {each: each for each in get_args(FinishReason)}

Step = StreamPart | Say | Pause | Fail
Answer = tuple[Step, ...]
ECHO: Answer = (Say("You said: {message}"),)


@dataclass(frozen=True, slots=True)
class Rule:
    """Answers for the messages in which an expression is found."""

    pattern: re.Pattern[str]
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """What a scripted model answers to what."""

    rules: tuple[Rule, ...] = ()
    """For conversations; the first that matches."""
    schema_rules: tuple[Rule, ...] = ()
    """For calls with a `response_schema`, such as the router's."""
    default: Answer | None = ECHO
    """Where no rule matches, or a rule has no further answer. None: that is an error."""


def parse_script(text: str) -> Script:
    """Read a whole script.

    Raises:
        InvalidInputError: a line cannot be understood; says which.
    """
    rules: list[Rule] = []
    schema_rules: list[Rule] = []
    default: Answer | None = ECHO
    for number, head, body in _blocks(text):
        answers = tuple(_answers(number, body))
        verb, _, expression = head.partition(" ")
        try:
            rule = Rule(re.compile(expression.strip(), re.IGNORECASE), answers)
        except re.error as error:
            raise _wrong(number, f"{expression!r} is not a regular expression: {error}") from error
        if verb == "when":
            rules.append(rule)
        elif verb == "schema":
            schema_rules.append(rule)
        elif verb == "default" and not expression and len(answers) == 1:
            default = answers[0]
        else:
            raise _wrong(number, "expected `== when …`, `== schema …` or one `== default`")
    return Script(tuple(rules), tuple(schema_rules), default)


def parse_answer(text: str, *, first_line: int = 1) -> Answer:
    """Read the lines of one answer.

    Raises:
        InvalidInputError: a line cannot be understood; says which.
    """
    steps: list[Step] = []
    calls = 0
    for number, line in enumerate(text.splitlines(), start=first_line):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            steps.extend(_steps(line, calls))
        except (ValueError, KeyError) as error:
            raise _wrong(number, f"{line!r}: {error}") from error
        calls += line.startswith("call")
    return tuple(steps)


_LINE = re.compile(r"(?P<verb>\w+)(/(?P<size>[1-9]\d*))?( x(?P<times>\d+))?:\s?(?P<rest>.*)")


def _steps(line: str, index: int) -> Iterator[Step]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("not of the form `verb: words`")
    size = int(match["size"] or 0)
    times = int(match["times"]) if match["times"] else None
    rest = match["rest"]
    match match["verb"]:
        case "text":
            yield Say(_unescaped(rest), size)
        case "think":
            yield from (ThinkDelta(piece) for piece in pieces(_unescaped(rest), size))
        case "call":
            yield from _call(index, rest, size)
        case "pause":
            yield Pause(float(rest))
        case "usage":
            used, _, written = rest.partition(" ")
            yield TokenUsage("scripted", int(used), int(written))
        case "finish":
            yield ResponseInfo(finish_reason=_FINISH_REASONS[rest.strip()])
        case "id":
            yield ResponseInfo(id=rest.strip())
        case "cut":
            yield Fail("stream", "the stream was cut", times=times)
        case "error":
            kind, _, words = rest.partition(" ")
            kind, _, wait = kind.partition("/")
            if not kind.isdigit() and kind not in _ERRORS:
                raise ValueError(f"an error is a status or one of {', '.join(_ERRORS)}")
            yield Fail(kind, words, float(wait) if wait else None, times)
        case verb:
            raise ValueError(f"unknown verb {verb!r}")


def _call(index: int, rest: str, size: int) -> Iterator[Step]:
    name, _, arguments = rest.strip().partition(" ")
    if not name:
        raise ValueError("a call needs the name of a tool")
    arguments = arguments.strip() or "{}"
    if size == 0:
        yield ToolCallDelta(index, name=name, arguments=arguments)
        return
    yield ToolCallDelta(index, name=name)
    yield from (ToolCallDelta(index, arguments=piece) for piece in pieces(arguments, size))


def pieces(text: str, size: int) -> list[str]:
    """A text in pieces of so many characters; 0: in one.

    >>> pieces("Hello", 2)
    ['He', 'll', 'o']
    """
    if size == 0:
        return [text]
    return [text[start : start + size] for start in range(0, len(text), size)]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """The rules of a script: number of the first line, the words after ``==``, the body."""
    current: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("== "):
            if current is not None:
                yield current
            current = (number, line[3:].strip(), [])
        elif current is not None:
            current[2].append(line)
        elif line.strip() and not line.startswith("#"):
            raise _wrong(number, "a script begins with a line such as `== when hello`")
    if current is not None:
        yield current


def _answers(number: int, body: list[str]) -> Iterator[Answer]:
    lines: list[str] = []
    start, times = number + 1, 1
    for offset, line in enumerate([*body, "--"], start=number + 1):
        separator = re.fullmatch(r"--( x(\d+))?\s*", line)
        if separator is None:
            lines.append(line)
            continue
        if answer := parse_answer("\n".join(lines), first_line=start):
            yield from [answer] * times
        lines, start, times = [], offset + 1, int(separator[2] or 1)


def _wrong(number: int, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"line {number} of the script: {reason}",
        advice=f"The language is described in {json.dumps(__name__)}.",
    )
