"""Reading the arguments that a model wrote, and telling it what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.json_values import unwritable_number
from service.tools.model_text import did_you_mean, well_formed
from service.tools.protocol import NoOutcome, ToolFailure

_LONGEST_SHOWN = 80
_DEEPEST = 100
"""Levels of objects and arrays: far fewer than what comes after the reading can take."""
_TOO_DEEP = f"The arguments are nested more than {_DEEPEST} levels deep. Make them flatter."


def read_arguments(
    text: str, model: type[BaseModel], definition: ToolDefinition
) -> dict[str, object]:
    """The arguments as values by name. An empty text and ``null`` count as no arguments.

    Raises:
        ToolFailure: the text is not JSON, not an object, or does not fit the schema; the words
            name each argument and what is expected of it.
    """
    try:
        given = json_object(text)
    except ToolFailure as failure:
        raise NoOutcome(f"{failure} {_usage(definition)}") from failure
    try:
        values = model.model_validate(given)
    except ValidationError as error:
        wrong = "\n".join(f"- {_in_words(item, definition.parameters)}" for item in error.errors())
        raise NoOutcome(
            f"The arguments do not fit `{definition.name}`:\n{wrong}\n{_usage(definition)}"
        ) from error
    return {name: getattr(values, name) for name in model.model_fields}


def json_object(text: str) -> dict[str, Any]:
    """The arguments as JSON values by name. An empty text and ``null`` count as no arguments.

    Raises:
        ToolFailure: the text is not JSON, not an object, or nested too deeply.
    """
    try:
        # models write line breaks into strings as they are; nothing is gained by refusing them
        given = json.loads(text, strict=False) if text.strip() else {}
    except ValueError as error:
        raise NoOutcome(f"The arguments are not valid JSON ({error}).") from error
    except RecursionError as error:
        raise NoOutcome(_TOO_DEEP) from error
    if not _is_shallow(given):
        raise NoOutcome(_TOO_DEEP)
    if number := unwritable_number(given):
        raise NoOutcome(f"The arguments are not valid JSON: {number}. Give a finite number.")
    given = {} if given is None else _well_formed(given)
    if not isinstance(given, dict):
        raise NoOutcome(f"The arguments must be one JSON object, not {_shown(given)}.")
    return given


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return True
        level = inner
    return False


def _well_formed(value: object) -> object:
    """JSON can spell lone surrogates, which no file, pipe or socket takes."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {well_formed(name): _well_formed(item) for name, item in value.items()}
    return value


def _in_words(item: ErrorDetails, schema: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in item["loc"]) or "arguments"
    properties: Mapping[str, Any] = schema["properties"]
    if item["type"] == "missing":
        expected = properties.get(field)
        return f"{field}: missing" + (f"; expected {_expected(expected)}" if expected else "")
    if item["type"] == "extra_forbidden":
        return f"{field}: there is no such argument.{did_you_mean(field, properties)}"
    message = item["msg"]
    return f"{field}: {message[:1].lower()}{message[1:]}, not {_shown(item['input'])}"


def _usage(definition: ToolDefinition) -> str:
    properties: Mapping[str, Any] = definition.parameters["properties"]
    if not properties:
        return f"`{definition.name}` takes no arguments: send {{}}."
    required = definition.parameters.get("required", [])
    each = (
        f"{name} ({_type(schema)}{', required' if name in required else ''})"
        for name, schema in properties.items()
    )
    return f"`{definition.name}` takes a JSON object with: {', '.join(each)}. Correct it and retry."


def _expected(schema: Mapping[str, Any]) -> str:
    description = schema.get("description")
    return _type(schema) + (f": {description}" if description else "")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(v, ensure_ascii=False) for v in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", "value"))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
