"""Reading the arguments that a model wrote, or a person in its place, and telling what is
wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.json_values import unwritable_number
from service.tools.model_text import did_you_mean, well_formed
from service.tools.protocol import ChecksArguments, NoOutcome, Tool, ToolFailure


def edited_arguments(text: str, original: str) -> str | None:
    """The arguments in one form; None where they say the same as the model's own.

    Raises:
        ToolFailure: the text is no JSON object.
    """
    written = _written(json_object(text))
    try:
        is_same = _sorted(json_object(text)) == _sorted(json_object(original))
    except ToolFailure:  # what the model wrote was no JSON object
        is_same = False
    return None if is_same else written


def check_arguments(tool: Tool, arguments: str) -> None:
    """See to it that arguments fit a tool.

    Raises:
        ToolFailure: they do not; says why.
    """
    if isinstance(tool, ChecksArguments):
        tool.check(arguments)
    else:
        check_against_schema(tool.definition.parameters, json_object(arguments))


def _written(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ToolFailure(f"The arguments are not valid JSON ({error}).") from error


def _sorted(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)  # as text: to Python, true is 1 and 1 is 1.0


def check_against_schema(schema: dict[str, Any], given: dict[str, Any]) -> None:
    """See to it that values fit a JSON Schema (https://json-schema.org/draft/2020-12).

    Raises:
        ToolFailure: they do not, or the schema cannot be used; says why.
    """
    # Imported late: no other work needs it.
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        # An empty registry: a reference to somewhere else must not be fetched.
        wrong = [
            _schema_error(error) for error in kind(schema, registry=Registry()).iter_errors(given)
        ]
    except (SchemaError, Unresolvable, RecursionError) as error:
        raise ToolFailure(
            f"The tool's own schema cannot be used to check them ({type(error).__name__})."
        ) from error
    if wrong:
        raise ToolFailure("The arguments do not fit:\n" + "\n".join(f"- {each}" for each in wrong))


def _schema_error(error: Any) -> str:  # jsonschema has no types
    place = ".".join(map(str, error.absolute_path))
    message = error.message if len(error.message) <= 300 else f"{error.message[:300]}…"
    return f"{place}: {message}" if place else str(message)


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
