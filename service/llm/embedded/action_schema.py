"""Tools as one JSON Schema: no action, or one with its arguments.

The engine that holds a small model to a schema knows only a part of JSON Schema, and a small model
is helped by few choices. So only what shapes a value is kept, and of a tool with required
parameters only these are offered.

>>> tool = ToolDefinition(name="now", description="", parameters={"type": "object"})
>>> [shape["properties"]["action"] for shape in ActionSchema([tool]).schema["anyOf"]]
[{'const': 'none'}, {'const': 'now'}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.domain.conversation.tool_definitions import ToolDefinition

Schema = dict[str, Any]

_KEPT = ("type", "enum", "const", "minItems", "maxItems", "minimum", "maximum")
_MAX_DEPTH = 8


class ActionSchema:
    """What the model may choose when these tools are offered."""

    def __init__(self, tools: Sequence[ToolDefinition]) -> None:
        taken = {tool.name for tool in tools}
        self.none = next(name for name in ("none", "no_tool", "nothing") if name not in taken)
        """The action that means that no tool is needed."""
        self._shapes = {tool.name: _parameters(tool) for tool in tools}
        self.nested = frozenset(
            name for name, shape in self._shapes.items() if "action" in shape["properties"]
        )
        """Tools whose own parameters would hide the action; theirs stand under ``arguments``."""

    @property
    def schema(self) -> Schema:
        """The schema of an answer. The order is kept by the engine, so the action comes first."""
        none = _object({"action": {"const": self.none}}, [])
        actions = (self._action(name, shape) for name, shape in self._shapes.items())
        return {"anyOf": [none, *actions]}

    def parameters(self, name: str) -> list[str]:
        """Names of the parameters that are offered of a tool."""
        return list(self._shapes[name]["properties"])

    def _action(self, name: str, shape: Schema) -> Schema:
        action = {"action": {"const": name}}
        if name in self.nested:
            return _object({**action, "arguments": shape}, ["arguments"])
        return _object({**action, **shape["properties"]}, shape["required"])


def _object(properties: Schema, required: Sequence[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name == "action" or name in required],
        "additionalProperties": False,
    }


def _parameters(tool: ToolDefinition) -> Schema:
    root = tool.parameters
    properties = root.get("properties") or {}
    required = [name for name in root.get("required", ()) if name in properties]
    offered = {
        name: _simple(schema, root, 0)
        for name, schema in properties.items()
        if name in required or not required
    }
    return {
        "type": "object",
        "properties": offered,
        "required": required,
        "additionalProperties": False,
    }


def _simple(schema: object, root: Mapping[str, Any], depth: int) -> Schema:
    """The part of a schema that shapes its values, with references put in their place."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        return _simple(_resolved(reference, root), root, depth + 1)
    simple: Schema = {key: schema[key] for key in _KEPT if key in schema}
    for key in ("anyOf", "oneOf", "allOf"):
        if branches := schema.get(key):
            shapes = [_simple(branch, root, depth + 1) for branch in branches]
            shapes = [shape for shape in shapes if shape != {"type": "null"}]
            if len(shapes) == 1 or key == "allOf":
                return {**simple, **shapes[0]} if shapes else simple
            simple["anyOf"] = shapes
    if properties := schema.get("properties"):
        simple["type"] = "object"
        simple["properties"] = {
            name: _simple(value, root, depth + 1) for name, value in properties.items()
        }
        simple["required"] = [name for name in schema.get("required", ()) if name in properties]
        simple["additionalProperties"] = False
    if "items" in schema:
        simple["items"] = _simple(schema["items"], root, depth + 1)
    return simple


def _resolved(reference: str, root: Mapping[str, Any]) -> object:
    """What a reference inside the same schema points at (RFC 6901); nothing for any other."""
    if not reference.startswith("#/"):
        return None
    target: object = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if isinstance(target, Mapping) else None
    return target
