"""What contributors are told to run is there: targets of make, tools, the workflow's command."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_target_that_is_named_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/checks.yml"):
        named = re.findall(r"(?m)(?:^|`|run: )\s*make ([a-z]+)\b", (ROOT / page).read_text())
        assert set(named) <= targets, page


def test_the_workflow_and_the_hooks_call_what_is_there() -> None:
    workflow = (ROOT / ".github/workflows/checks.yml").read_text()
    assert "- run: .ci/run\n" in workflow
    assert os.access(ROOT / ".ci/run", os.X_OK)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = [shlex.split(each)[0] for each in re.findall(r"entry: (.+)", hooks)]
    assert len(entries) == 4
    for entry in entries:
        assert os.access(ROOT / entry, os.X_OK), f"{entry}: run `make setup`"


def test_every_command_of_research_that_is_named_is_there() -> None:
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("data/**/README.md")]
    sources = [*ROOT.glob("service/**/*.py"), *ROOT.glob("service/**/*.json")]
    named = {
        module
        for each in (*pages, *sources, *ROOT.glob("research/**/*.py"))
        for module in re.findall(r"python -m (research\.[\w.]*\w)", each.read_text("utf-8"))
    }
    assert len(named) >= 5
    assert {each for each in named if not (ROOT / f"{each.replace('.', '/')}.py").exists()} == set()
