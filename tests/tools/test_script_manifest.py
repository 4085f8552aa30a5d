"""What a manifest says of a script, and what of it reaches the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.tools.protocol import ToolFailure
from service.tools.skills.script_manifest import (
    Needs,
    ScriptManifest,
    manifest_beside,
    passed,
    read_manifest,
    unmet,
)
from service.tools.skills.skill_form import SkillProblem

WHOLE = b"""
description = "Makes a picture smaller."
interpreter = ["env", "-i", "sh"]
effect = "idempotent"
timeout_seconds = 5
[needs]
programs = ["sh"]
[parameters]
required = ["width"]
properties.width = {type = "integer", minimum = 1}
properties.files = {type = "array", items = {type = "string"}}
properties.fast = {type = "boolean"}
properties.more = {type = "object"}
"""


def test_a_manifest_lies_beside_its_script(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    assert manifest_beside(script) is None
    (tmp_path / "s.sh.toml").write_bytes(WHOLE)
    manifest = manifest_beside(script)
    assert manifest is not None
    assert (manifest.effect, manifest.timeout_seconds) == ("idempotent", 5)
    assert manifest.interpreter == ("env", "-i", "sh")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = ", "is no TOML"),
        (b"\xff", "is not UTF-8"),
        (b"effect = 'harmless'", "effect: Input should be"),
        (b"efect = 'read_only'", "efect: Extra inputs"),
        (b"timeout_seconds = 0", "timeout_seconds"),
        (b"timeout_seconds = inf", "timeout_seconds"),
        (b"parameters = {type = 'array'}", "must be those of an object"),
        (b"parameters = {properties = {a = {type = 'number7'}}}", "are no JSON Schema"),
        (b"parameters = {default = 2026-01-02}", "are no JSON Schema"),
        (b"#" * 64_001, "more than 64,000 bytes"),
    ],
)
def test_what_is_no_manifest_is_told_in_words(data: bytes, reason: str) -> None:
    with pytest.raises(SkillProblem) as told:
        read_manifest(data, "s.sh.toml")
    assert reason in str(told.value)
    assert "s.sh.toml" in str(told.value)


def test_parameters_become_arguments_that_nothing_takes_for_others() -> None:
    manifest = read_manifest(WHOLE, "s.toml")
    given = {"width": 3, "files": ["-rf", "a b; $(id)"], "fast": True, "more": {"词": [1]}}
    assert passed(manifest, parameters=given, arguments=[], stdin="words").arguments == (
        "--width=3",
        "--files=-rf",
        "--files=a b; $(id)",
        "--fast",
        '--more={"词":[1]}',
    )
    given = {"width": 3, "fast": False}
    assert passed(manifest, parameters=given, arguments=[], stdin="").arguments == ("--width=3",)


def test_parameters_can_be_json_on_standard_input() -> None:
    manifest = read_manifest(b"parameters_as = 'json'\n" + WHOLE, "s.toml")
    given = passed(manifest, parameters={"width": 3}, arguments=[], stdin="")
    assert (given.arguments, given.input) == ((), '{"width": 3}')


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "'width' is a required property"),
        ({"width": 0}, "width: 0 is less than the minimum"),
        ({"width": "3"}, "width: '3' is not of type 'integer'"),
        ({"width": 3, "exec=x": 1}, "exec=x"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_what_would(
    parameters: dict[str, object], reason: str
) -> None:
    with pytest.raises(ToolFailure) as told:
        passed(read_manifest(WHOLE, "s"), parameters=parameters, arguments=[], stdin="")
    assert reason in str(told.value)
    assert '"minimum":1' in str(told.value)


def test_a_script_takes_either_parameters_or_arguments() -> None:
    with pytest.raises(ToolFailure, match="takes `parameters` only"):
        passed(read_manifest(WHOLE, "s"), parameters={"width": 1}, arguments=["x"], stdin="")
    with pytest.raises(ToolFailure, match="no manifest that names parameters"):
        passed(ScriptManifest(), parameters={"width": 1}, arguments=[], stdin="")


def test_a_schema_that_points_elsewhere_fetches_nothing() -> None:
    data = b"[parameters]\n'$ref' = 'http://127.0.0.1:9/schema.json'\n"
    with pytest.raises(ToolFailure, match="schema cannot be used"):
        passed(read_manifest(data, "s"), parameters={"a": 1}, arguments=[], stdin="")


def test_what_is_missing_is_named() -> None:
    needs = Needs(
        programs=("sh", "no-such-program"), modules=("json", "nosuchmodule"), network=True
    )
    missing = unmet(needs, network=False, path="/bin:/usr/bin")
    assert [each.split(":")[0] for each in missing] == [
        "the program no-such-program is not installed",
        "the Python module nosuchmodule is not installed",
        "it needs the network",
    ]
    assert unmet(Needs(programs=("sh",), network=True), network=True, path="/bin:/usr/bin") == ()
