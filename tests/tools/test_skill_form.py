"""What is a skill, and why something is none."""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tools.skills.skill_form import (
    SKILL_FILE_BYTES,
    SkillProblem,
    read_skill_text,
    why_no_name,
)
from tests.support.tools.skills import TEA, put_file, put_skill, repository_in


def head(words: str, body: str = "Body.") -> bytes:
    return f"---\n{words}\n---\n{body}\n".encode()


def test_a_skill_is_a_head_and_a_body() -> None:
    words = """name: pdf-tools
description: >-
  Takes PDFs apart.
  Use when: a PDF is mentioned.
license: MIT
compatibility: Needs poppler
metadata:
  version: 1.10
  since: 2026-01-02
allowed-tools: Bash(git:*) Read
x-of-another-program: [1, {a: b}]"""
    skill = read_skill_text(head(words, "# 用法\n\n---\nRead on."), folder="pdf-tools")
    assert skill.description == "Takes PDFs apart. Use when: a PDF is mentioned."
    assert skill.body == "# 用法\n\n---\nRead on."
    assert (skill.license, skill.compatibility) == ("MIT", "Needs poppler")
    assert skill.metadata == {"version": "1.10", "since": "2026-01-02"}
    assert skill.allowed_tools == ("Bash(git:*)", "Read")


def test_windows_line_ends_and_a_byte_order_mark_are_taken() -> None:
    data = b"\xef\xbb\xbf" + TEA.replace("\n", "\r\n").encode()
    assert read_skill_text(data, folder="tea").description == "How tea is made."


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with a head"),
        (b"# Tea\n", "does not begin with a head"),
        (b"---\nname: tea\ndescription: x\n", "does not end"),
        (head("- a list"), "must have lines such as"),
        (head("name: [tea]\ndescription: x"), "name must be text"),
        (head("name: tea"), "has no description"),
        (head("description: x"), "has no name"),
        (head("name: tea\ndescription: '  '"), "has no description"),
        (head("name: tea\ndescription: use: it"), "no YAML (line 3)"),
        (head("name: tea\nname: coffee\ndescription: x"), "'name' occurs twice"),
        (head("a: &a [x]\nb: *a\nname: tea\ndescription: x"), "aliases"),
        (head("a: " + "[" * 5000), "nested too deeply"),
        (head("name: tea\ndescription: " + "茶" * 1025), "1,025 characters; 1,024 at most"),
        (head("name: tea\ndescription: x\ncompatibility: " + "x" * 501), "501 characters"),
        (head("name: tea\ndescription: x\nmetadata: words"), "metadata must be a mapping"),
        (head("name: Tea\ndescription: x"), "must be lower case letters"),
        (head(f"name: {'a' * 65}\ndescription: x"), "65 characters; 64 are the most"),
        (head("name: coffee\ndescription: x"), "its folder is called 'tea'"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
        (b"x" * (SKILL_FILE_BYTES + 1), "are the most"),
        (head("x: " + "y" * 20_000), "has more than 16,000 bytes"),
        (head("name: !!python/object/apply:os.system [id]\ndescription: x"), "name must be text"),
    ],
)
def test_what_has_not_the_form_is_told_in_words(data: bytes, reason: str) -> None:
    with pytest.raises(SkillProblem) as told:
        read_skill_text(data, folder="tea")
    assert reason in str(told.value)


@pytest.mark.parametrize("name", ["a", "pdf-tools", "a1-2", "备份", "a" * 64, "é"])
def test_names_of_the_form(name: str) -> None:
    assert why_no_name(name) is None


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a--b", "a b", "a/b", "..", "a" * 65])
def test_names_that_are_not(name: str) -> None:
    assert why_no_name(name) is not None


@given(st.binary(max_size=200))
def test_whatever_bytes_there_are_they_are_a_skill_or_a_problem(data: bytes) -> None:
    for whole in (data, b"---\n" + data + b"\n---\n"):
        with suppress(SkillProblem):
            assert read_skill_text(whole, folder="tea").name == "tea"


def test_skills_and_single_scripts_are_one_catalogue_and_changes_are_seen_at_once(
    tmp_path: Path,
) -> None:
    repository = repository_in(tmp_path)
    assert repository.look().skills == ()
    put_skill(tmp_path)
    put_file(tmp_path / "scripts" / "run.sh", "# Runs.\n")
    seen = repository.look()
    assert [(each.name, each.kind, each.description) for each in seen.skills] == [
        ("tea", "skill", "How tea is made."),
        ("run.sh", "script", "Runs."),
    ]
    put_skill(tmp_path, text=TEA.replace("How", "Why"))
    put_skill(tmp_path, "coffee")
    seen = repository.look()
    assert [each.description for each in seen.skills][:2] == [
        "How coffee is made.",
        "Why tea is made.",
    ]
    assert seen.unusable == ()


def test_what_cannot_be_used_is_named_and_the_others_are_offered(tmp_path: Path) -> None:
    skills = tmp_path / ".agents" / "skills"
    put_skill(tmp_path)
    put_skill(tmp_path, "other", TEA)
    (skills / "empty").mkdir()
    (skills / ".git").mkdir()
    (skills / "README.md").touch()
    put_skill(tmp_path, "leaks")
    (tmp_path / "secret").write_text("sk-1")
    (skills / "leaks" / "key").symlink_to(tmp_path / "secret")
    put_skill(tmp_path, "big", data=b"")
    with (skills / "big" / "data").open("wb") as file:
        file.truncate(21_000_000)
    put_skill(tmp_path, "pipe")
    (skills / "pipe" / "SKILL.md").unlink()
    os.mkfifo(skills / "pipe" / "SKILL.md")
    (skills / "circle").symlink_to("circle")
    put_file(tmp_path / "scripts" / "tea", "#!/bin/sh\n")
    (tmp_path / "scripts" / "tea").chmod(0o755)
    seen = repository_in(tmp_path).look()
    assert [each.name for each in seen.skills] == ["tea"]
    reasons = {each.name: each.reason for each in seen.unusable}
    assert set(reasons) == {"other", "empty", "leaks", "big", "pipe", "tea"}
    assert "key is a link that leads out of the skill" in reasons["leaks"]
    assert "it has no SKILL.md" in reasons["empty"]
    assert "more than 20 MB" in reasons["big"]
    assert "a skill has the same name" in reasons["tea"]


def test_links_within_a_skill_and_to_a_whole_skill_are_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "checkout" / "tea"
    put_file(elsewhere / "SKILL.md", TEA)
    (elsewhere / "again.md").symlink_to("SKILL.md")
    skills = tmp_path / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "tea").symlink_to(elsewhere)
    repository = repository_in(tmp_path)
    skill = repository.skill("tea")
    assert repository.read(skill, "again.md") == TEA.encode()


def test_two_folders_whose_names_differ_in_spelling_alone_are_told(tmp_path: Path) -> None:
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "café")
        put_skill(tmp_path, name, TEA.replace("name: tea", f"name: {name}"))
    seen = repository_in(tmp_path).look()
    assert [each.name for each in seen.skills] == ["café"]
    assert "another folder has the same name" in seen.unusable[0].reason
