"""Arguments that a person wrote in place of the model's: what they say, and whether they fit."""

from __future__ import annotations

import json
from typing import Any

from service.tools.arguments import json_object
from service.tools.protocol import ChecksArguments, Tool, ToolFailure


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
        _check_against_schema(tool.definition.parameters, json_object(arguments))


def _written(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ToolFailure(f"The arguments are not valid JSON ({error}).") from error


def _sorted(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)  # as text: to Python, true is 1 and 1 is 1.0


def _check_against_schema(schema: dict[str, Any], given: dict[str, Any]) -> None:
    """For tools that only have a JSON Schema (https://json-schema.org/draft/2020-12)."""
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
        wrong = [_in_words(error) for error in kind(schema, registry=Registry()).iter_errors(given)]
    except (SchemaError, Unresolvable, RecursionError) as error:
        raise ToolFailure(
            f"The tool's own schema cannot be used to check them ({type(error).__name__})."
        ) from error
    if wrong:
        raise ToolFailure("The arguments do not fit:\n" + "\n".join(f"- {each}" for each in wrong))


def _in_words(error: Any) -> str:  # jsonschema has no types
    place = ".".join(map(str, error.absolute_path))
    message = error.message if len(error.message) <= 300 else f"{error.message[:300]}…"
    return f"{place}: {message}" if place else str(message)
