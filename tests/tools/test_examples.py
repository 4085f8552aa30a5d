"""The examples in the docstrings hold."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["text", "builtins.calculator", "builtins.calculator_notation"])
def test_the_examples_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"service.tools.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
