"""What the README and the pages show runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_servers import Asked, answered, delta, serving

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(language: str) -> list[tuple[str, str]]:
    """Name and text of each code block of a language."""
    code_blocks = []
    for page in PAGES:
        texts = re.findall(
            rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE
        )
        code_blocks += [
            (f"{page.relative_to(ROOT)}-{n}", text) for n, text in enumerate(texts, start=1)
        ]
    return code_blocks


def a_model(asked: Asked) -> None:
    """A model as people configure one: calls the tool that it is offered, and tells the result."""
    results = [each["content"] for each in asked.body["messages"] if each["role"] == "tool"]
    if results:
        asked.stream(delta(content=f"In Lisbon: {results[-1]}"), delta("stop"))
    else:
        answered(asked)


@pytest.fixture(scope="module")
def configured() -> Iterator[dict[str, str]]:
    """The variables of somebody who has configured a model."""
    with serving(a_model) as model:
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith("RONDO_")},
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "sk-none",
        }


@pytest.mark.slow
def test_the_example_of_the_readme_is_short_and_prints_what_the_model_made_of_the_tool(
    tmp_path: Path, configured: dict[str, str]
) -> None:
    ((_, code),) = (each for each in blocks("python") if each[0].startswith("README"))
    assert len(re.findall(r"^(?:from|import) service", code, re.MULTILINE)) == 1
    assert len([line for line in code.splitlines() if line]) <= 12
    done = run(code, tmp_path, configured)
    assert done.stdout == "In Lisbon: Sunny in Lisbon.\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), blocks("python"), ids=lambda value: value[:40])
def test_a_python_example_runs(
    name: str, code: str, tmp_path: Path, configured: dict[str, str]
) -> None:
    done = run(code, tmp_path, configured)
    assert done.returncode == 0, f"{name}: {done.stderr}"


def run(code: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
