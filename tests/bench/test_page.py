"""The page about the benchmarks shows commands that exist, and explains every figure."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from service.bench.cli import loop
from service.bench.loop import figures
from service.bench.loop.worker import CrowdRun, HouseRun

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


def explained() -> set[str]:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([a-z0-9_]+)`", cell)}


def test_every_figure_is_explained() -> None:
    starts = [0.0, 1.0, 2.0]
    house = HouseRun(starts=starts, disk_bytes=1, gc_ms=[], floor_ms=1.0)
    crowd = CrowdRun(starts=[starts], sent=0.0, ended=2.0, gc_ms=[])
    told = {*figures.of_house([house]), *figures.of_crowds([crowd])}
    assert told <= explained()


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("rondo")])
def test_every_command_is_one_that_can_be_given(command: str) -> None:
    rondo, bench, name, *arguments = shlex.split(command)
    assert (rondo, bench, name) == ("rondo", "bench", "loop")
    loop.make_context(name, arguments)


@pytest.mark.parametrize("script", [each for each in COMMANDS if each.startswith("scripts/")])
def test_every_script_is_there(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
