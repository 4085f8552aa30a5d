"""The form of a skill: ``SKILL.md``, a head in YAML and a body in Markdown.

https://agentskills.io/specification. What it says of names, lengths and fields is checked; fields
that it does not know are let be, as other programs have some of their own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SKILL_FILE = "SKILL.md"
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 1_024
COMPATIBILITY_CHARACTERS = 500
SKILL_FILE_BYTES = 256_000
"""Of ``SKILL.md``; it is read whole, and its body goes to a model."""
_HEAD_BYTES = 16_000
_FENCE = "---"


class SkillProblem(Exception):
    """Why something is no skill, in words that say what to do."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a ``SKILL.md`` says."""

    name: str
    description: str
    body: str
    """What the model is told once it wants to know: Markdown."""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    """As its author says; no call needs less of a yes for it."""


def read_skill_text(data: bytes, *, folder: str) -> SkillText:
    """Read and check a ``SKILL.md``.

    Args:
        data: the file.
        folder: the name of the folder that it is in, which must be the skill's name.

    Raises:
        SkillProblem: it does not have the form.

    >>> text = b"---\\nname: tea\\ndescription: How tea is made.\\n---\\nBoil water.\\n"
    >>> read_skill_text(text, folder="tea").description
    'How tea is made.'
    """
    if len(data) > SKILL_FILE_BYTES:
        raise SkillProblem(
            f"{SKILL_FILE} has {len(data):,} bytes; {SKILL_FILE_BYTES:,} are the most. Move what is"
            " not always needed to references/."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillProblem(
            f"{SKILL_FILE} is not UTF-8 (byte {error.start:,}). Save it as UTF-8."
        ) from error
    head, body = _parted(text)
    fields = _fields(head)
    name = _name(fields, folder)
    return SkillText(
        name=name,
        description=_text(fields, "description", DESCRIPTION_CHARACTERS, needed=True),
        body=body.strip("\n"),
        license=_text(fields, "license", DESCRIPTION_CHARACTERS),
        compatibility=_text(fields, "compatibility", COMPATIBILITY_CHARACTERS),
        metadata=_metadata(fields),
        allowed_tools=_allowed_tools(fields),
    )


def why_no_name(name: str) -> str | None:
    """Why a skill cannot have this name; None when it can.

    >>> why_no_name("pdf-tools"), why_no_name("茶")
    (None, None)
    >>> why_no_name("PDF")
    "the name 'PDF' must be lower case letters, digits and single hyphens between them"
    """
    if len(name) > NAME_CHARACTERS:
        return f"the name has {len(name):,} characters; {NAME_CHARACTERS} are the most"
    letters = name.replace("-", "")
    is_plain = letters.isalnum() and letters == letters.lower()
    if not is_plain or name.startswith("-") or name.endswith("-") or "--" in name:
        return (
            f"the name {name[:NAME_CHARACTERS]!r} must be lower case letters, digits and single"
            " hyphens between them"
        )
    return None


def _parted(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        raise SkillProblem(
            f"{SKILL_FILE} does not begin with a head: put a line “{_FENCE}”, then “name: …” and"
            f" “description: …”, then a line “{_FENCE}” at its top."
        )
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return "".join(lines[1:number]), "".join(lines[number + 1 :])
    raise SkillProblem(f"The head of {SKILL_FILE} does not end: a line “{_FENCE}” is missing.")


def _fields(head: str) -> dict[str, Any]:
    if len(head.encode()) > _HEAD_BYTES:
        raise SkillProblem(f"The head of {SKILL_FILE} has more than {_HEAD_BYTES:,} bytes.")
    import yaml  # type: ignore[import-untyped]  # late: most starts have no need of it

    try:
        fields = yaml.load(head, _text_loader())
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2})" if mark is not None else ""
        why = str(getattr(error, "problem", None) or "it is nested too deeply")[:200]
        raise SkillProblem(
            f"The head of {SKILL_FILE} is no YAML{where}: {why}. Words with a colon or a mark at"
            " their start need quotes."
        ) from error
    if not isinstance(fields, dict):
        raise SkillProblem(f"The head of {SKILL_FILE} must have lines such as “name: …”.")
    return fields


def _text_loader() -> Any:
    """Builds nothing but texts, lists and mappings: no objects, and no dates or numbers either, so
    that ``version: 1.10`` stays as it is. Neither aliases, which can unfold without end, nor a name
    that occurs twice."""
    import yaml

    class TextLoader(yaml.BaseLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(
                    problem="aliases (*…) are not taken", problem_mark=self.peek_event().start_mark
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise yaml.MarkedYAMLError(
                    problem=f"{twice!r:.80} occurs twice", problem_mark=node.start_mark
                )
            return super().construct_mapping(node, deep=deep)

    return TextLoader


def _name(fields: Mapping[str, Any], folder: str) -> str:
    name = unicodedata.normalize("NFC", _text(fields, "name", 4 * NAME_CHARACTERS, needed=True))
    reason = why_no_name(name)
    if reason is not None:
        raise SkillProblem(f"{SKILL_FILE}: {reason}.")
    if name != unicodedata.normalize("NFC", folder):
        raise SkillProblem(
            f"{SKILL_FILE} names it {name!r}, but its folder is called {folder[:80]!r}: give both"
            " the same name."
        )
    return name


def _text(fields: Mapping[str, Any], name: str, most: int, *, needed: bool = False) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise SkillProblem(f"{SKILL_FILE}: {name} must be text.")
    text = value.strip()
    if needed and not text:
        raise SkillProblem(f"{SKILL_FILE} has no {name}: put a line “{name}: …” into its head.")
    if len(text) > most:
        raise SkillProblem(f"{SKILL_FILE}: {name} has {len(text):,} characters; {most:,} at most.")
    return text


def _metadata(fields: Mapping[str, Any]) -> dict[str, str]:
    value = fields.get("metadata") or {}
    if not isinstance(value, dict):
        raise SkillProblem(f"{SKILL_FILE}: metadata must be a mapping of names to texts.")
    return {str(key): each if isinstance(each, str) else str(each) for key, each in value.items()}


def _allowed_tools(fields: Mapping[str, Any]) -> tuple[str, ...]:
    value = fields.get("allowed-tools") or ""
    if isinstance(value, list):  # some programs write a list
        return tuple(str(each) for each in value)
    return tuple(_text(fields, "allowed-tools", _HEAD_BYTES).split())
