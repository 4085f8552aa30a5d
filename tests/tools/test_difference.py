"""The difference that a person is shown: it tells just what changes, and how much it leaves out."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from service.tools.files.difference import difference


def patched(folder: Path, old: str, shown: str) -> str:
    """What the program `patch` makes of a text by a difference."""
    (folder / "f").write_text(old)
    command = ["patch", "-s", "-o", "out", "f"]
    ran = subprocess.run(
        command, input=f"{shown}\n", text=True, cwd=folder, capture_output=True, check=False
    )
    assert ran.returncode == 0, (old, shown, ran.stdout, ran.stderr)
    out = folder / "out"
    return out.read_text() if out.exists() else ""


@pytest.mark.slow
def test_patch_makes_the_new_text_of_the_old_one(tmp_path: Path) -> None:
    chance = random.Random(1)
    for number in range(60):
        old = [chance.choice("abcdefgh") * 3 for _ in range(chance.randrange(40))]
        new = list(old)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(new) + 1)
            new[at : at + chance.randrange(3)] = chance.choice(([], ["新"], ["x", "y"]))
        one, other = ("\n".join(each) + chance.choice(("", "\n")) for each in (old, new))
        if one != other:
            (folder := tmp_path / str(number)).mkdir()
            assert patched(folder, one, difference(one, other, "f", most_lines=10**6)) == other


def test_a_new_file_and_one_that_goes_are_told(tmp_path: Path) -> None:
    assert difference(None, "新\n", "a.txt") == "--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+新"
    assert difference("新", None, "a.txt").startswith(
        "--- a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-新"
    )
    assert "No newline at end of file" in difference("one\n", "one", "a.txt")


def test_what_is_cut_is_said() -> None:
    old = "".join(f"line {number}\n" for number in range(1000))
    shown = difference(old, "nothing of it\n", "a.txt", most_lines=10)
    assert len(shown.splitlines()) == 13
    assert shown.endswith(
        "[… not shown: 992 more lines of the difference; 991 that go, and 1 that come]"
    )


def test_long_lines_are_bounded_together() -> None:
    shown = difference("", "".join(f"{number}{'x' * 390}\n" for number in range(200)), "a.txt")
    assert len(shown) < 31_000
    assert shown.endswith("and 124 that come]")


def test_a_change_within_a_very_long_line_is_shown_where_it_is() -> None:
    old = "a" * 50_000 + "before" + "z" * 50_000
    shown = difference(f"{old}\n", f"{old.replace('before', 'after')}\n", "a.json")
    assert "before" in shown
    assert "after" in shown
    assert "[49,900 characters …]" in shown
    assert len(shown) < 2_000


def test_far_apart_changes_of_a_large_text_are_found() -> None:
    lines = [f"line {number}" for number in range(60_000)]
    other = list(lines)
    other[3], other[-4:] = "changed", ["another end"]
    other.insert(30_000, "put in")
    shown = difference("\n".join(lines), "\n".join(other), "large.txt")
    changed = [row for row in shown.splitlines()[2:] if row[0] in "+-"]
    assert changed == [
        *("-line 3", "+changed", "+put in"),
        *(f"-line {number}" for number in range(59_996, 60_000)),
        "+another end",
    ]


def test_lines_that_are_all_alike_are_compared_in_no_time_of_their_square() -> None:
    shown = difference("x\n" * 100_000 + "a", "y\n" * 90_000 + "x\n" * 9, "alike.txt")
    assert shown.endswith("more lines of the difference; 99,702 that go, and 90,009 that come]")
