"""The page of incidents names a test for each, which is there and is named after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?P<incident>[^|`]+) \| [^|]+ \| `(?P<file>[^`:]+)::(?P<test>\w+)` \|$", re.MULTILINE
)
INCIDENTS = ROW.findall((ROOT / "docs" / "incidents.md").read_text("utf-8"))
SMALL = frozenset(("a", "an", "the"))


def test_every_row_of_the_page_is_read() -> None:
    rows = (ROOT / "docs" / "incidents.md").read_text("utf-8").count("\n| ") - 1
    assert len(INCIDENTS) == rows >= 19


@pytest.mark.parametrize(("incident", "file", "test"), INCIDENTS)
def test_the_test_is_there_and_named_after_the_incident(
    incident: str, file: str, test: str
) -> None:
    assert re.search(rf"def {test}\(", (ROOT / file).read_text("utf-8"))
    words = [each for each in re.findall(r"\w+", incident.lower()) if each not in SMALL]
    named = [each for each in test.split("_") if each not in SMALL]
    assert named[1 : len(words) + 1] == words
