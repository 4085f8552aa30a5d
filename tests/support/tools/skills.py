"""Skills as the tests put them into folders."""

from __future__ import annotations

from pathlib import Path

from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.version_store import VersionStore

TEA = "---\nname: tea\ndescription: How tea is made.\n---\nBoil water. 然后等三分钟。\n"


def put_skill(home: Path, name: str = "tea", text: str | None = None, **files: str | bytes) -> Path:
    """Put a skill into a data folder's folder of skills; `files` by paths with ``__`` for ``/``."""
    folder = home / ".agents" / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(TEA.replace("tea", name) if text is None else text, "utf-8")
    for path, content in files.items():
        put_file(folder / path.replace("__", "/").replace("_dot_", "."), content)
    return folder


def put_file(path: Path, content: str | bytes) -> None:
    """Write a file, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def repository_in(home: Path) -> SkillRepository:
    """The repository of a data folder."""
    return SkillRepository(
        scripts=home / "scripts",
        skills=home / ".agents" / "skills",
        versions=VersionStore(home / "skill-versions"),
    )
