"""From a typed function to a model of its arguments, and from that to a plain JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.errors import PydanticUserError

from service.domain.conversation.tool_definitions import ToolContext
from service.domain.errors import ConfigurationError

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def arguments_of(
    function: Callable[..., object], *, name: str
) -> tuple[type[BaseModel], str | None]:
    """The model of a function's arguments, and the parameter that takes the `ToolContext`, if any.

    Raises:
        ConfigurationError: a parameter has no usable annotation, or cannot be given by name.
    """
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise _unusable(name, f"its annotations cannot be read: {error}") from error
    fields: dict[str, Any] = {}  # what `create_model` takes: (annotation, default) by name
    context_parameter = None
    for parameter in parameters:
        if parameter.annotation is ToolContext:
            context_parameter = parameter.name
            continue
        if parameter.kind not in _BY_NAME or parameter.name.startswith("_"):
            raise _unusable(name, f"`{parameter}` cannot be given by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise _unusable(name, f"`{parameter.name}` has no annotation")
        required = parameter.default is inspect.Parameter.empty
        fields[parameter.name] = (parameter.annotation, ... if required else parameter.default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    try:
        return create_model(name, __config__=config, **fields), context_parameter
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        raise _unusable(name, str(error)) from error


def parameters_schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema of the arguments: definitions inlined where they do not refer to themselves.

    Many endpoints, and all small models, do better without ``$ref`` and generated titles.

    Raises:
        ConfigurationError: a type is one that JSON cannot say, such as a function.
    """
    try:
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise _unusable(model.__name__, error.message.rstrip(".")) from error
    definitions: dict[str, Any] = schema.pop("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    plain: dict[str, Any] = _plain(schema, definitions, recursive)
    if recursive:
        plain["$defs"] = {
            name: _plain(definitions[name], definitions, recursive) for name in sorted(recursive)
        }
    plain.setdefault("properties", {})
    return plain


def _unusable(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"`{name}` cannot become a tool: {reason}.",
        advice="Give every parameter a type that pydantic knows, and a name of its own.",
    )


def _target(node: Mapping[str, Any]) -> str | None:
    reference = node.get("$ref")
    return reference.rsplit("/", 1)[-1] if isinstance(reference, str) else None


def _references(node: object) -> set[str]:
    if isinstance(node, dict):
        targets = set[str]().union(*(_references(value) for value in node.values()))
        return targets | {target} if (target := _target(node)) else targets
    if isinstance(node, list):
        return set[str]().union(*(_references(value) for value in node))
    return set()


def _reaches(start: str, goal: str, definitions: Mapping[str, Any]) -> bool:
    seen: set[str] = set()
    waiting = _references(definitions[start])
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen and name in definitions:
            seen.add(name)
            waiting |= _references(definitions[name])
    return False


def _plain(node: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions, recursive) for item in node]
    if not isinstance(node, dict):
        return node
    target = _target(node)
    if target is not None and target not in recursive:
        # words beside a reference say more of this place than those of the definition
        node = {**definitions[target], **{k: v for k, v in node.items() if k != "$ref"}}
    plain: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":  # its keys are names, and a name may well be "title"
            plain[key] = {n: _plain(v, definitions, recursive) for n, v in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            plain[key] = value
        elif key == "discriminator":
            continue  # it points into the definitions, and the constants say the same
        elif key != "title":
            plain[key] = _plain(value, definitions, recursive)
    return plain
