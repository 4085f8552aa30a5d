"""What is wrong with a setting, in plain words: what pydantic finds, as a person would say it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_NAMES = {
    "models": "a name has small letters, digits, dots, - and _, begins with a letter or a digit,"
    " and is at most 64 characters long",
    "tools.mcp": "a name has small letters, digits, - and single _, begins with a letter or a"
    " digit, does not end in _, and is at most 16 characters long",
}
"""What entries of a table may be called, where each may choose the name."""
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
    >>> wrong(type="literal_error", loc=("tools", "approval_for", "run_script"))
    'tools.approval_for.run_script must be one of tool-declared, always, never'
    >>> wrong(type="extra_forbidden", loc=("tools", "mcp", "clock", "comand"))
    'there is no setting tools.mcp.clock.comand; did you mean tools.mcp.clock.command?'
    >>> wrong(type="string_type", loc=("agent", "hooks", 0))
    'agent.hooks.0 must be a text'
    >>> wrong(type="less_than_equal", loc=("models", "fast", "temperature"))
    'models.fast.temperature must be a number from 0 to 2'
    """
    above, loc, model = _within_tables(error["loc"], model)
    if loc[-1] == "[key]":
        return _wrong_key(loc, model)
    loc = _place(loc, model)
    name = above + ".".join(map(str, loc))
    if error["type"] == "extra_forbidden":
        meant = _meant(name.removeprefix(above), model)
        return f"there is no setting {name}" + (f"; did you mean {above}{meant}?" if meant else "")
    if error["type"] == "finite_number":
        return f"{name} must be a finite number"
    if error["type"] == "value_error":
        return f"{name} cannot be used: {error['ctx']['error']}"
    return f"{name} must be {_expected_at(loc, model)}"


def _within_tables(
    loc: tuple[int | str, ...], model: type[BaseModel]
) -> tuple[str, tuple[int | str, ...], type[BaseModel]]:
    """The same place as one within an entry of a table of sections, where it is in one.

    Returns:
        The entry's name with a dot, the place within it, and what the entry is.
    """
    section = model
    for depth, part in enumerate(loc[:-2]):
        field = section.model_fields.get(str(part))
        kinds = get_args(field.annotation) if field is not None else ()
        entry = loc[depth + 2 :]
        if kinds and _is_section(kinds[-1]) and entry[0] != "[key]":
            above, entry, kind = _within_tables(entry, kinds[-1])
            return f"{'.'.join(map(str, loc[: depth + 2]))}.{above}", entry, kind
        if field is None or not is_section(field):
            break
        section = cast(type[BaseModel], field.annotation)
    return "", loc, model


def _place(loc: tuple[int | str, ...], model: type[BaseModel]) -> tuple[int | str, ...]:
    """Where it is: without the kind, of those that a setting may be, which pydantic adds to it."""
    field = named(model).get(".".join(map(str, loc[:-1])))
    kinds = () if field is None else get_args(field.annotation)
    is_union = field is not None and get_origin(field.annotation) in (Union, UnionType)
    return loc[:-1] if is_union and any(get_origin(kind) is Literal for kind in kinds) else loc


def named(model: type[BaseModel], *, sections: bool = False) -> dict[str, FieldInfo]:
    """The settings by their names, such as ``llm.model``; with the sections as well, if wanted."""
    fields: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            below = named(inner, sections=sections)
            fields |= {f"{name}.{each}": info for each, info in below.items()}
        if sections or not is_section(field):
            fields[name] = field
    return fields


def is_section(field: FieldInfo) -> bool:
    """Whether a setting is a group of settings."""
    return _is_section(field.annotation)


def has_members(field: FieldInfo) -> bool:
    """Whether a setting is a group of settings, or a table of such groups."""
    return any(map(_is_section, (field.annotation, *get_args(field.annotation))))


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _meant(name: str, model: type[BaseModel]) -> str | None:
    """The setting the end of whose name is nearest: in the same section, else in any."""
    names = list(named(model))
    section, _, ending = name.rpartition(".")
    for among in ([each for each in names if each.rpartition(".")[0] == section], names):
        ends = {each.rpartition(".")[2]: each for each in reversed(among)}
        if end := get_close_matches(ending, ends, n=1):
            return ends[end[0]]
    return None


def _expected_at(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """What a setting takes, or what an entry of a setting that is a table takes."""
    fields = named(model, sections=True)
    for depth in range(len(loc), 0, -1):
        field = fields.get(".".join(map(str, loc[:depth])))
        if field is not None:
            break
    else:
        return "a setting"
    entries = get_args(field.annotation)
    if depth < len(loc) and get_origin(field.annotation) is dict:
        field = FieldInfo(annotation=entries[1])
    elif depth < len(loc) and get_origin(field.annotation) is tuple:
        field = FieldInfo(annotation=entries[0])
    return _expected(field)


def _wrong_key(loc: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """That a table has no such entry, and which it has that is near, or else all of them."""
    *place, key, _ = map(str, loc)
    name = ".".join(place)
    keys = get_args(get_args(named(model)[name].annotation)[0])
    if not all(isinstance(each, str) for each in keys):
        return f"{name} has no entry {key}: {_NAMES[name]}"
    near = get_close_matches(key, keys, n=1)
    which = f"did you mean {near[0]}?" if near else f"it takes {', '.join(keys)}"
    return f"{name} has no entry {key}; {which}"


def _one_of(kinds: tuple[Any, ...]) -> str:
    """What a setting takes that may be of several kinds."""
    words = [
        ", ".join(map(str, get_args(kind)))
        if get_origin(kind) is Literal
        else _KINDS.get(kind, "a text").replace(" or ", ", ")
        for kind in kinds
    ]
    *others, last = ", ".join(words).split(", ")
    return f"{', '.join(others)} or {last}" if others else last


def _expected(field: FieldInfo) -> str:
    """What a setting takes, from its type and its bounds."""
    if is_section(field):
        return "a table of settings (as a variable: a JSON object)"
    kind: Any = field.annotation
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is dict:
        return "a table (as a variable: a JSON object)"
    if get_origin(kind) is tuple:
        return "a list of texts"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) in (Union, UnionType):
        return _one_of(get_args(kind))
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
