"""Words that Rondo no longer uses: the field has its own (docs/glossary.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

RETIRED_NAMES = {
    "attendance": "run_until_disconnect",
    "guarded": "call_with_timeout",
    "in_order": "keyed_lock",
    "latecomers": "just_forgotten",
    "let_go": "clear, discard or release",
    "matters_of": "requests_of",
    "of_another_matter": "of_another_topic",
    "workbench": "executor_deps",
}
"""No module, class or function of the package is called so."""

RETIRED_WORDS = {
    r"\b[Tt]he house\b": "Rondo, or what is meant by it",
    r"\bfor ever\b": "until cancelled, or without end",
    r"\bowner's own\b": "a person's own",
    r"\blatecomers?\b": "just forgotten",
    r"for want of better": "as a last resort",
    r"goes on too fast": "keeps changing",
    r"\b(?:an?|another|new|several|many|same|open|earlier|own|any|two) matters?\b(?! of )": (
        "topic, request or task"
    ),
}
"""No page, docstring, comment or line on the screen says so."""

ALLOWED = (
    "out of the house",  # a hook of the docs sends nothing out of it: that is a real one
    '"a new matter"',  # in the prompt that was measured, and in answers to it
    "Several matters are being talked about",
)
"""What a line may hold all the same."""


def files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def snake_case(name: str) -> str:
    """``KeyedLock`` as ``keyed_lock``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def test_no_name_of_the_package_is_a_retired_one() -> None:
    definition = re.compile(r"^\s*(?:async def|def|class) (\w+)", re.MULTILINE)
    retired_names = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files("service/*.py", "research/*.py")
        for name in (path.stem, *definition.findall(path.read_text("utf-8")))
        if snake_case(name).strip("_") in RETIRED_NAMES
    ]
    assert retired_names == []


@pytest.mark.slow
def test_no_page_and_no_line_of_code_uses_a_retired_word() -> None:
    uses = []
    for path in files("service/*.py", "research/*.py", "scripts/*", "docs/*.md", "*.md"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for pattern, instead in RETIRED_WORDS.items():
                if re.search(pattern, line, re.IGNORECASE) and not any(map(line.count, ALLOWED)):
                    uses.append(f"{path.relative_to(ROOT)}:{number}: say {instead}: {line.strip()}")
    assert uses == []
