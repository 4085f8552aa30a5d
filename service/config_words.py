"""What is wrong with a setting, in plain words: what pydantic finds, as a person would say it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", Path: "a folder"}


def in_words(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One thing that is wrong, by the name of the setting. What was given is never repeated: it
    can be a secret.

    >>> from service.config import Settings
    >>> def wrong(**error): return in_words({"msg": "", "input": None, **error}, Settings)
    >>> wrong(type="extra_forbidden", loc=("llm", "modle"))
    'there is no setting llm.modle; did you mean llm.model?'
    >>> wrong(type="int_parsing", loc=("server", "port"))
    'server.port must be a whole number from 0 to 65535'
    """
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        meant = _meant(name, model)
        return f"there is no setting {name}" + (f"; did you mean {meant}?" if meant else "")
    if error["type"] == "value_error":
        return f"{name} cannot be used: {error['ctx']['error']}"
    return f"{name} must be {_expected(named(model, sections=True)[name])}"


def named(model: type[BaseModel], *, sections: bool = False) -> dict[str, FieldInfo]:
    """The settings by their names, such as ``llm.model``; with the sections as well, if wanted."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= {f"{name}.{each}": info for each, info in inner.model_fields.items()}
        if sections or not is_section(field):
            found[name] = field
    return found


def is_section(field: FieldInfo) -> bool:
    """Whether a setting is a group of settings."""
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _meant(name: str, model: type[BaseModel]) -> str | None:
    """The setting whose name, or the end of whose name, is nearest."""
    known = list(named(model))
    if whole := get_close_matches(name, known, n=1):
        return whole[0]
    ends = {each.rpartition(".")[2]: each for each in reversed(known)}
    end = get_close_matches(name.rpartition(".")[2], ends, n=1)
    return ends[end[0]] if end else None


def _expected(field: FieldInfo) -> str:
    """What a setting takes, from its type and its bounds."""
    if is_section(field):
        return "a table of settings (as a variable: a JSON object)"
    kind: Any = field.annotation
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    words = _KINDS.get(kind, "a text")
    bounds = {
        name: value
        for each in field.metadata
        for name in ("ge", "gt", "le")
        if (value := getattr(each, name, None)) is not None
    }
    if "ge" in bounds and "le" in bounds:
        return f"{words} from {bounds['ge']} to {bounds['le']}"
    if "ge" in bounds:
        return f"{words}, at least {bounds['ge']}"
    return f"{words} above {bounds['gt']}" if "gt" in bounds else words
