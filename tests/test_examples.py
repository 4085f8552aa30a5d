"""The examples in docstrings hold, wherever there are any."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "service").rglob("*.py"))
    if re.search(r"^\s*>>> ", path.read_text("utf-8"), re.MULTILINE)
]


def test_the_examples_of_the_build_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts" / "wheel")
    results = doctest.testmod(importlib.import_module("build_hook"))
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_hold(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
