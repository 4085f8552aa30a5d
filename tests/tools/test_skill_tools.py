"""What the model is told of skills, and what it can run of them."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import ToolResult
from service.domain.conversation.token_estimates import estimate_tokens
from service.tools.builtins.read_skill import skill_readers
from service.tools.builtins.run_script import RunScript
from service.tools.builtins.write_skill import skill_tools
from service.tools.skills.skill_runner import RunOptions, ScriptCall, SkillRunner
from tests.support.tools.skills import TEA, put_file, put_skill, repository_in
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio

BREW = """
description = "Brews."
effect = "idempotent"
[parameters]
required = ["minutes"]
properties.minutes = {type = "integer"}
"""


async def read(home: Path, **given: object) -> ToolResult:
    return await result_of(skill_readers(repository_in(home))[0], **given)


def runner_in(home: Path) -> SkillRunner:
    return SkillRunner(repository_in(home), RunOptions())


async def run(home: Path, **given: object) -> ToolResult:
    return await result_of(RunScript(repository_in(home), runner_in(home)), **given)


async def test_the_catalogue_has_a_line_for_each_and_the_rest_is_read_when_wanted(
    tmp_path: Path,
) -> None:
    tool = skill_readers(repository_in(tmp_path))[0]
    assert "There are no skills for it in" in str(tool.withheld)
    put_skill(tmp_path, references__water_dot_md="Soft.")
    put_file(tmp_path / "scripts" / "s.sh", "# Sends.\n")
    assert tool.withheld is None
    assert "- tea: How tea is made.\n- s.sh: Sends." in tool.definition.description
    assert "Boil" not in tool.definition.description
    whole = await read(tmp_path, name="tea")
    assert "Boil water. 然后等三分钟。" in whole.content
    assert "references/water.md" in whole.content
    assert "Soft." not in whole.content
    assert (await read(tmp_path, name="tea", file="references/water.md")).content == "Soft."
    assert "# Sends." in (await read(tmp_path, name="s.sh")).content


@pytest.mark.parametrize(
    "language", ["How tea is made, in every land. ", "各国怎样泡茶，一一道来。"]
)
async def test_a_line_of_the_catalogue_is_about_a_hundred_tokens_at_most(
    tmp_path: Path, language: str
) -> None:
    words = language * 30
    put_skill(tmp_path, text=TEA.replace("How tea is made.", words))
    line = skill_readers(repository_in(tmp_path))[0].definition.description.splitlines()[-1]
    assert 90 <= estimate_tokens(line) <= 110
    assert words.strip() in (await read(tmp_path, name="tea")).content


@pytest.mark.parametrize("file", ["../../../token", "/etc/passwd", "link", "none.md", "data"])
async def test_reading_leads_nowhere_else_and_says_what_there_is(tmp_path: Path, file: str) -> None:
    put_file(tmp_path / "token", "sk-secret")
    folder = put_skill(tmp_path, data=b"\x00\xff" * 100)
    (folder / "link").symlink_to("data")
    result = await read(tmp_path, name="tea", file=file)
    assert result.is_error
    assert "sk-secret" not in result.content
    assert "It has: SKILL.md, data, link." in result.content or "is no text" in result.content


async def test_a_skill_that_cannot_be_used_is_told_with_the_reason(tmp_path: Path) -> None:
    put_skill(tmp_path, text="no head")
    tool = skill_readers(repository_in(tmp_path))[0]
    assert "tea cannot be used: SKILL.md does not begin with a head" in str(tool.withheld)
    result = await read(tmp_path, name="tea")
    assert "does not begin with a head" in result.content
    assert "Did you mean `coffee`" in (await read(put_home(tmp_path), name="cofee")).content


def put_home(home: Path) -> Path:
    put_skill(home, "coffee")
    return home


async def test_reading_a_skill_tells_its_scripts_and_what_they_take(tmp_path: Path) -> None:
    put_skill(
        tmp_path,
        scripts__brew_dot_sh="echo $@\n",
        scripts__brew_dot_sh_dot_toml=BREW,
        scripts__bad_dot_sh="",
        scripts__bad_dot_sh_dot_toml="efect = 1",
    )
    words = (await read(tmp_path, name="tea")).content
    assert "- tea/scripts/brew.sh: Brews. (idempotent)" in words
    assert '"minutes": {"type": "integer"}' in words
    assert "- tea/scripts/bad.sh: cannot be run: bad.sh.toml is no manifest" in words


@pytest.mark.slow
async def test_a_script_of_a_skill_runs_with_what_lies_in_the_skill(tmp_path: Path) -> None:
    put_skill(
        tmp_path,
        scripts__brew_dot_sh='cat "$(dirname "$0")/../references/water.md"; echo "$@"\n',
        scripts__brew_dot_sh_dot_toml=BREW,
        references__water_dot_md="Soft.",
    )
    put_file(tmp_path / ".agents" / "skills" / "other.md", "outside")
    for name in ("tea/scripts/brew.sh", "tea/brew.sh"):
        result = await run(tmp_path, name=name, parameters={"minutes": 3})
        assert not result.is_error
        assert "Soft.--minutes=3" in result.content
    refused = await run(tmp_path, name="tea/brew.sh", parameters={"minutes": "3; id"})
    assert "is not of type 'integer'" in refused.content
    assert [each.number for each in repository_in(tmp_path).history("tea")] == [1]


@pytest.mark.slow
async def test_a_manifest_names_what_runs_a_script_and_for_how_long(tmp_path: Path) -> None:
    put_skill(
        tmp_path,
        scripts__words_dot_awk='{ print "awk: " $0 }',
        scripts__words_dot_awk_dot_toml="""
            interpreter = ["sed", "-n", "s/^/sed: /p"]
            parameters_as = "json"
            [parameters]
            properties.a = {}""",
        scripts__long_dot_sh="sleep 60",
        scripts__long_dot_sh_dot_toml="timeout_seconds = 0.2\neffect = 'read_only'",
        scripts__none_dot_sh="",
        scripts__none_dot_sh_dot_toml="interpreter = 'no-such-program'",
        scripts__net_dot_sh="",
        scripts__net_dot_sh_dot_toml="needs.programs = ['no-such-program']",
    )
    result = await run(tmp_path, name="tea/words.awk", parameters={"a": 1})
    assert "sed: " in result.content
    result = await run(tmp_path, name="tea/long.sh")
    assert "stopped after 0.2 seconds. It only reads" in result.content
    assert "no-such-program is not installed" in (await run(tmp_path, name="tea/none.sh")).content
    assert "no-such-program is not installed" in (await run(tmp_path, name="tea/net.sh")).content


@pytest.mark.slow
async def test_output_comes_while_a_script_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f"echo first; echo aside >&2; while [ ! -e {go} ]; do sleep 0.01; done; echo last\n"
    put_file(tmp_path / "scripts" / "s.sh", text)
    pieces: list[tuple[str, bytes]] = []

    def on_output(stream: str, data: bytes) -> None:
        pieces.append((stream, data))
        if {each[0] for each in pieces} == {"stdout", "stderr"}:
            go.touch()

    with anyio.fail_after(60):
        await runner_in(tmp_path).run(
            ScriptCall("s.sh"), covers=lambda version: True, on_output=on_output
        )
    assert ("stderr", b"aside\n") in pieces
    assert b"".join(data for stream, data in pieces if stream == "stdout") == b"first\nlast\n"


async def test_what_would_be_written_is_shown_before(tmp_path: Path) -> None:
    put_skill(tmp_path)
    write, edit = skill_tools(repository_in(tmp_path))
    shown = edit.preview(
        '{"name": "tea", "file": "SKILL.md", "old_text": "Boil", "new_text": "Heat"}'
    )
    assert "The skill tea:\n--- SKILL.md\n+++ SKILL.md\n" in shown.text
    assert "-Boil water." in shown.text
    assert "+Heat water." in shown.text
    shown = write.preview('{"name": "tea", "file": "scripts/a.sh", "text": "#!/bin/sh"}')
    assert "scripts/a.sh may be run\n--- /dev/null" in shown.text


@pytest.mark.parametrize(
    ("old_text", "reason"), [("water", "stands 2 times in"), ("coffee", "stands not in SKILL.md")]
)
async def test_a_piece_that_is_replaced_stands_there_once(
    tmp_path: Path, old_text: str, reason: str
) -> None:
    put_skill(tmp_path, text=TEA.replace("Boil", "water"))
    _, edit = skill_tools(repository_in(tmp_path))
    given = {"name": "tea", "file": "SKILL.md", "old_text": old_text, "new_text": "x"}
    result = await result_of(edit, **given)
    assert result.is_error
    assert reason in result.content


async def test_a_skill_that_is_a_link_to_elsewhere_is_not_written(tmp_path: Path) -> None:
    put_file(tmp_path / "checkout" / "tea" / "SKILL.md", TEA)
    (tmp_path / ".agents" / "skills").mkdir(parents=True)
    (tmp_path / ".agents" / "skills" / "tea").symlink_to(tmp_path / "checkout" / "tea")
    write, _ = skill_tools(repository_in(tmp_path))
    result = await result_of(write, name="tea", file="notes.md", text="x")
    assert "is a link to a folder elsewhere" in result.content


async def test_a_person_is_shown_all_that_would_be_there_whatever_was(tmp_path: Path) -> None:
    put_skill(tmp_path, scripts__a=b"\x00\xff" * 50, notes="x" * 300_000)
    write, _ = skill_tools(repository_in(tmp_path))
    script = "#!/bin/sh\n" + "true\n" * 10_000 + "rm -rf everything\n"
    given = json.dumps({"name": "tea", "file": "scripts/a", "text": script})
    shown = write.preview(given).text
    assert "-[100 bytes that are no text" in shown
    assert [line[1:] for line in shown.splitlines() if line[:1] == "+"][1:] == script.splitlines()
    result = await result_of(write, name="tea", file="notes", text="y")
    assert "too large for the difference to be shown" in result.content
