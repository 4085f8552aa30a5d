"""What a server asks the person in the middle of a call, as our questions, one after another.

By the protocol of 2026-07-28 a server keeps nothing meanwhile: it gives the requests, and a state
that only it can read, and the call is made again with the answers and that state. Both are kept as
JSON with the question in the journal, so that a person can answer days and restarts later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from mcp_types import ElicitRequest, ElicitResult, InputRequiredResult, InputResponses
from pydantic import JsonValue

from service.domain.conversation.instructions import (
    Question,
    RequestHumanPrompt,
    RequestHumanSelect,
)
from service.domain.text import quoted
from service.tools.protocol import ToolFailure

Value = str | int | float | bool | list[str] | None
DECLINE = "decline"
YES = "yes"
_NO = "no"
_LEFT_OUT = "-"
_MOST_REQUESTS = 10
_MOST_FIELDS = 20
_MOST_OPTIONS = 50
_MOST_STATE = 100_000  # characters
_MOST_WORDS = 2_000  # of one text of a server


@dataclass(slots=True)
class Elicitation:
    """The requests of a server, and how far the person has come in answering them."""

    server: str
    requests: dict[str, dict[str, Any]]
    """By the server's key: the parameters of each request, as it sent them."""
    request_state: str | None
    answers: dict[str, dict[str, Any]]
    """By the key: ``action``, and ``content`` by the names of fields, of those that were asked."""
    wrong: str = ""
    """Why the last answer could not be taken."""

    @classmethod
    def of(cls, server: str, result: InputRequiredResult) -> Elicitation:
        """What a server asks for.

        Raises:
            ToolFailure: something that nobody can be asked.
        """
        requests: dict[str, dict[str, Any]] = {}
        for key, request in (result.input_requests or {}).items():
            if not isinstance(request, ElicitRequest):
                raise ToolFailure(f"The server asks for {request.method}, which is not offered.")
            requests[key] = request.params.model_dump(by_alias=True, mode="json", exclude_none=True)
            _check(requests[key])
        if len(requests) > _MOST_REQUESTS or len(result.request_state or "") > _MOST_STATE:
            raise ToolFailure("The server asks for more than a person can be asked at once.")
        return cls(server, requests, result.request_state, {})

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Elicitation:
        """As it was kept."""
        return cls(
            str(kept["server"]),
            dict(kept["requests"]),
            kept["request_state"],
            {key: dict(each) for key, each in kept["answers"].items()},
        )

    def as_json(self) -> dict[str, JsonValue]:
        """To be kept until the person answers."""
        return {
            "server": self.server,
            "requests": cast(JsonValue, self.requests),
            "request_state": self.request_state,
            "answers": cast(JsonValue, self.answers),
        }

    def question(self) -> Question | None:
        """What the person is asked next; None where all is answered."""
        place = self._place()
        if place is None:
            return None
        key, field = place
        request = self.requests[key]
        lead = f"The tool server {self.server} asks; what you say goes to it."
        words = [lead, quoted(request["message"][:_MOST_WORDS])]
        if self.wrong:
            words.insert(0, self.wrong)
        if field is None:
            if "url" in request:
                words.append(
                    f"It wants you to open {quoted(request['url'])}\nChoose yes once you have done"
                    " what it asks for there."
                )
            return RequestHumanSelect(prompt="\n".join(words), options=(YES, DECLINE))
        schema = _fields(request)[field]
        words.append(f"{field}: {_about(schema)}".rstrip(": "))
        options, multiple = _options(schema)
        required = field in request["requestedSchema"].get("required", [])
        leave = () if required else (_LEFT_OUT,)
        if options:
            return RequestHumanSelect(
                prompt="\n".join(words), options=(*options, *leave, DECLINE), multiple=multiple
            )
        how = f'To give it nothing at all, answer "{DECLINE}".'
        if leave:
            how += f' To leave out this, answer "{_LEFT_OUT}".'
        return RequestHumanPrompt(prompt="\n".join((*words, how)))

    def take(self, answer: str) -> None:
        """Note what the person said to the last question; `wrong` tells where that is no answer."""
        place = self._place()
        if place is None:
            return
        key, field = place
        self.wrong = ""
        noted = self.answers.setdefault(key, {"action": "accept", "content": {}})
        given = answer.strip()
        if DECLINE in given.casefold().split("\n"):
            noted["action"] = "decline"
        elif field is None:
            noted["action"] = "accept" if given == YES else "cancel"
        elif given == _LEFT_OUT and field not in self.requests[key]["requestedSchema"].get(
            "required", []
        ):
            noted["content"][field] = None
        else:
            try:
                noted["content"][field] = _value(_fields(self.requests[key])[field], given)
            except ValueError as error:
                self.wrong = f"That cannot be used: {error}."

    def responses(self) -> InputResponses:
        """All answers, for the server. Of a form that was declined, nothing is told."""
        responses: InputResponses = {}
        for key, noted in self.answers.items():
            content = {name: value for name, value in noted["content"].items() if value is not None}
            accepted = noted["action"] == "accept"
            is_form = "requestedSchema" in self.requests[key]
            responses[key] = ElicitResult(
                action=cast(Literal["accept", "decline", "cancel"], noted["action"]),
                content=content if accepted and is_form else None,
            )
        return responses

    def _place(self) -> tuple[str, str | None] | None:
        """The request and the field that is asked for next; no field: a yes is."""
        for key, request in self.requests.items():
            noted = self.answers.get(key)
            if noted is not None and noted["action"] != "accept":
                continue
            fields = _fields(request)
            if not fields:
                if noted is None:
                    return key, None
                continue
            done = {} if noted is None else noted["content"]
            for field in fields:
                if field not in done:
                    return key, field
        return None


def _check(request: dict[str, Any]) -> None:
    fields = _fields(request)
    if not str(request.get("message", "")).strip() or len(fields) > _MOST_FIELDS:
        raise ToolFailure("The server asks without words, or for too much at once.")
    for name, schema in fields.items():
        if not isinstance(schema, dict) or schema.get("type") not in _KINDS:
            raise ToolFailure(f"The server asks for {name!r}, of a kind that cannot be asked.")
        options, _ = _options(schema)
        if len(options) > _MOST_OPTIONS or {DECLINE, _LEFT_OUT} & set(options):
            raise ToolFailure(f"The server asks for {name!r} with options that cannot be shown.")


_KINDS = ("string", "number", "integer", "boolean", "array")


def _fields(request: Mapping[str, Any]) -> dict[str, Any]:
    fields = request.get("requestedSchema", {}).get("properties", {})
    return fields if isinstance(fields, dict) else {}


def _about(schema: Mapping[str, Any]) -> str:
    words = [str(schema[name]) for name in ("title", "description") if schema.get(name)]
    bounds = [
        f"{name} {schema[name]}"
        for name in ("format", "minimum", "maximum", "minLength", "maxLength", "default")
        if name in schema
    ]
    told = ". ".join(words)[:_MOST_WORDS]
    kind = "" if schema["type"] in ("string", "array", "boolean") else f" ({schema['type']})"
    return f"{told}{kind}" + (f" ({', '.join(bounds)})"[:_MOST_WORDS] if bounds else "")


def _options(schema: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """What can be chosen, and whether several can."""
    if schema["type"] == "boolean":
        return (YES, _NO), False
    if schema["type"] == "array":
        return tuple(_values(schema.get("items", {}))), True
    return tuple(_values(schema)), False


def _values(schema: Mapping[str, Any]) -> dict[str, str]:
    """The server's values by the words for them."""
    if "enum" in schema:
        names = schema.get("enumNames") or schema["enum"]
        pairs = zip(names, schema["enum"], strict=False)
    else:
        choices = schema.get("oneOf") or schema.get("anyOf") or []
        pairs = zip(
            (each.get("title") or each.get("const") for each in choices),
            (each.get("const") for each in choices),
            strict=True,
        )
    return {str(name): str(value) for name, value in pairs}


def _value(schema: Mapping[str, Any], given: str) -> Value:
    """The value of a field.

    Raises:
        ValueError: it is none; says why.
    """
    options, multiple = _options(schema)
    if multiple:
        values = _values(schema.get("items", {}))
        chosen = [values.get(each, "") for each in given.split("\n")]
        if not all(chosen):
            raise ValueError(f"choose of {', '.join(options)}")
        return chosen
    if options:
        if given not in options:
            raise ValueError(f"choose one of {', '.join(options)}")
        return given == YES if schema["type"] == "boolean" else _values(schema)[given]
    if schema["type"] == "string":
        return _text(schema, given)
    try:
        number = int(given) if schema["type"] == "integer" else float(given)
    except ValueError as error:
        kind = "a whole number" if schema["type"] == "integer" else "a number"
        raise ValueError(f"{kind} is asked for") from error
    low, high = schema.get("minimum", float("-inf")), schema.get("maximum", float("inf"))
    if not low <= number <= high:
        raise ValueError(f"it is from {low} to {high}")
    return number


def _text(schema: Mapping[str, Any], given: str) -> str:
    low, high = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
    if not low <= len(given) <= high:
        raise ValueError(f"it has {low} to {high} characters")
    return given
