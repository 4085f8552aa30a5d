"""What is known of a script before it runs: ``NAME.toml`` beside it.

    description = "Makes a picture smaller."
    effect = "idempotent"

    [needs]
    programs = ["convert"]

    [parameters]
    type = "object"
    required = ["width"]
    properties.width = {type = "integer", minimum = 1}

A file of its own, since the head of a ``SKILL.md`` holds texts only, and what lies in ``scripts/``
is the author's affair. Parameters are JSON Schema (https://json-schema.org/draft/2020-12).
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.domain.conversation.tool_definitions import ToolEffect
from service.tools.arguments import check_against_schema
from service.tools.protocol import ToolFailure
from service.tools.scripts.script_folder import MANIFEST_SUFFIX
from service.tools.skills.skill_form import DESCRIPTION_CHARACTERS, SkillProblem

MANIFEST_BYTES = 64_000
_LONGEST_RUN_SECONDS = 3_600


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Needs(_Section):
    """What a script cannot do without."""

    programs: tuple[str, ...] = ()
    """Found on ``PATH``."""
    modules: tuple[str, ...] = ()
    """Of Python, by the names that they are imported by; for scripts that Rondo's Python runs."""
    network: bool = False


class ScriptManifest(_Section):
    """What a manifest says."""

    description: str = Field(default="", max_length=DESCRIPTION_CHARACTERS)
    """Stands in the place of the one that is derived from the script."""
    interpreter: str | Annotated[tuple[str, ...], Field(min_length=1)] = ()
    """What runs it: a program on ``PATH``, or one with arguments before the script's name. Empty:
    its first line, or its suffix, says so."""
    effect: ToolEffect = "side_effects"
    """What running it twice would do, as its author says: it is told to the model and to a person,
    and each run counts as one with side effects all the same."""
    parameters: dict[str, Any] | None = None
    """JSON Schema of an object; None: any arguments and any input."""
    parameters_as: Literal["arguments", "json"] = "arguments"
    """How a script is given them: as ``--name=value``, or as JSON on standard input."""
    needs: Needs = Needs()
    timeout_seconds: float | None = Field(
        default=None, gt=0, le=_LONGEST_RUN_SECONDS, allow_inf_nan=False
    )
    """How long it may take; None: as long as any script."""


NO_MANIFEST = ScriptManifest()


@dataclass(frozen=True, slots=True)
class Passed:
    """What a script is given."""

    arguments: tuple[str, ...] = ()
    input: str = ""


def manifest_beside(script: Path) -> ScriptManifest | None:
    """The manifest of a script; None where it has none.

    Raises:
        SkillProblem: it cannot be used.
    """
    path = script.with_name(f"{script.name}{MANIFEST_SUFFIX}")
    try:
        with path.open("rb") as file:
            data = file.read(MANIFEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SkillProblem(f"{path.name} cannot be read: {error.strerror}.") from error
    return read_manifest(data, path.name)


def read_manifest(data: bytes, name: str) -> ScriptManifest:
    """Read and check a manifest.

    Args:
        data: the file.
        name: its name, for the words of an error.

    Raises:
        SkillProblem: it is no manifest; says why.
    """
    if len(data) > MANIFEST_BYTES:
        raise SkillProblem(f"{name} has more than {MANIFEST_BYTES:,} bytes.")
    try:
        manifest = ScriptManifest.model_validate(tomllib.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise SkillProblem(f"{name} is not UTF-8. Save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SkillProblem(f"{name} is no TOML: {error}.") from error
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5]
        )
        raise SkillProblem(f"{name} is no manifest of a script: {wrong}.") from error
    if manifest.parameters is None:
        return manifest
    # What is not named is not taken: it would become an option of any name.
    closed = {"type": "object", "additionalProperties": False, **manifest.parameters}
    _check_schema(closed, name)
    return manifest.model_copy(update={"parameters": closed})


def passed(
    manifest: ScriptManifest,
    *,
    parameters: Mapping[str, Any] | None,
    arguments: Sequence[str],
    stdin: str,
) -> Passed:
    """What a script is given of what was asked for. None of it is ever read by a shell.

    Parameters become ``--name=value``, so that no value is taken for an option; ``true`` becomes
    ``--name`` and ``false`` nothing, each item of a list an argument of its own, and objects JSON.

    Raises:
        ToolFailure: it does not fit what the manifest says.

    >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    >>> passed(ScriptManifest(parameters=schema), parameters={"n": 3}, arguments=[], stdin="")
    Passed(arguments=('--n=3',), input='')
    """
    if manifest.parameters is None:
        if parameters:
            raise ToolFailure(
                "It has no manifest that names parameters: give it `arguments` and `input`."
            )
        return Passed(tuple(arguments), stdin)
    if arguments or (stdin and manifest.parameters_as == "json"):
        raise ToolFailure(f"It takes `parameters` only: {_compact(manifest.parameters)}")
    values = dict(parameters or {})
    try:
        check_against_schema(manifest.parameters, values)
    except ToolFailure as failure:
        raise ToolFailure(f"{failure}\nIts parameters: {_compact(manifest.parameters)}") from None
    if manifest.parameters_as == "json":
        return Passed(input=json.dumps(values, ensure_ascii=False))
    return Passed(tuple(each for name in values for each in _argument(name, values[name])), stdin)


def unmet(needs: Needs, *, network: bool, path: str) -> tuple[str, ...]:
    """What is missing of what a script needs, in words that say what to do.

    Args:
        needs: as its manifest has them.
        network: whether scripts may use the network.
        path: where programs are looked for.
    """
    missing = [
        f"the program {name} is not installed"
        for name in needs.programs
        if shutil.which(name, path=path) is None
    ]
    missing += [
        f"the Python module {name} is not installed"
        for name in needs.modules
        if not _is_there(name)
    ]
    if needs.network and not network:
        missing.append("it needs the network: the person grants it by tools.script_network = true")
    return tuple(missing)


def interpreter_of(manifest: ScriptManifest, *, path: str) -> tuple[str, ...]:
    """What runs a script by its manifest; empty where that says nothing.

    Raises:
        ToolFailure: there is no such program.
    """
    given = manifest.interpreter
    parts = (given,) if isinstance(given, str) else given
    if not parts or not parts[0]:
        return ()
    program = shutil.which(parts[0], path=path)
    if program is None:
        raise ToolFailure(f"Its interpreter {parts[0][:80]} is not installed. Tell the user.")
    return (str(Path(program).absolute()), *parts[1:])


def _check_schema(schema: dict[str, Any], name: str) -> None:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]

    if schema["type"] != "object":
        raise SkillProblem(f"{name}: parameters must be those of an object.")
    try:
        Draft202012Validator.check_schema(schema)
        json.dumps(schema)
    except (SchemaError, TypeError, ValueError) as error:  # TOML has dates, JSON has none
        reason = getattr(error, "message", str(error))[:200]
        raise SkillProblem(f"{name}: parameters are no JSON Schema: {reason}.") from error


def _argument(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    if value is None:
        return []
    if isinstance(value, list):
        return [f"--{name}={_plain(each)}" for each in value]
    return [f"--{name}={_plain(value)}"]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
