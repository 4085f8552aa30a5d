"""The page about the benchmarks shows commands that exist, and explains every figure."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from service.bench.answers.answer_dataset import Check, Conversation, Turn
from service.bench.answers.answer_figures import Outcome, of_runs
from service.bench.answers.answer_subject import Heard
from service.bench.bench_command import bench
from service.bench.loop import loop_report
from service.bench.loop.bench_worker import CrowdRun, SubjectRun
from service.bench.memory.memory_report import of_archiving, of_searching
from service.bench.memory.memory_subject import Searched, Taken
from service.bench.retrieval.evaluation_store import Answer
from service.bench.retrieval.retrieval_dataset import Evidence, Query
from service.bench.retrieval.retrieval_report import of_answers
from service.bench.routing.routing_figures import Decided, Decision, of_decided

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


def explained() -> set[str]:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([a-z0-9_]+)(?:@k)?`", cell)}


def test_every_figure_is_explained() -> None:
    starts = [0.0, 1.0, 2.0]
    subject = SubjectRun(starts=starts, disk_bytes=1, gc_ms=[], baseline_ms=1.0)
    crowd = CrowdRun(starts=[starts], sent=0.0, ended=2.0, gc_ms=[])
    names = {*loop_report.of_subject([subject]), *loop_report.of_crowds([crowd])}
    names |= {*of_archiving([Taken(1, 1, 1)], [Taken(1, 1, 1)])}
    searched = of_searching([Searched("", 1, 1, True), Searched("type", 1, 1, True)])
    names |= {*searched, *searched["filters"]["type"]}
    evidence = Evidence(run_loop_id="a", iteration_index=0, segment_type="response")
    answer = Answer(Query(id="q", query="?", evidence=(evidence,)), (), 1.0)
    names |= {name.split("@")[0] for name in of_answers([answer])}
    routed = of_decided([Decided(Decision(0, 0, 1.0), 1, "embedding", 2.0, 1, 1.0)])
    names |= {*routed}
    talk = Conversation(id="c", language="en", category="c", turns=(Turn(say="Hi", check=Check()),))
    heard = Heard("Hello!", whole_ms=2.0, first_token_ms=1.0)
    answered = of_runs([[Outcome(talk, 0, heard, ())]])
    parts = {"by_category", "by_language", "safety", "times"}
    names |= {*answered, *answered["times"]["all"]} - parts
    assert names <= explained()


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("rondo")])
def test_every_command_is_one_that_can_be_given(command: str) -> None:
    rondo, group, name, *arguments = shlex.split(command)
    assert (rondo, group) == ("rondo", "bench")
    bench.commands[name].make_context(name, arguments)


@pytest.mark.slow
@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("python -m ")])
def test_every_module_is_there(command: str) -> None:
    module, *arguments = shlex.split(command)[2:]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments, "--help"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize("script", [each for each in COMMANDS if each.startswith("scripts/")])
def test_every_script_is_there(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
