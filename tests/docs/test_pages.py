"""What the README and the pages show runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """Name and text of each code block of a language."""
    found = []
    for page in PAGES:
        texts = re.findall(
            rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
        )
        found += [(f"{page.relative_to(ROOT)}-{n}", text) for n, text in enumerate(texts, start=1)]
    return found


@pytest.mark.parametrize(("name", "code"), blocks("python"), ids=lambda value: value[:40])
def test_a_python_example_runs(name: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
