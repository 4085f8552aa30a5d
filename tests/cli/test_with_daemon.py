"""Other commands against a real daemon process: memory, doctor; and stopping it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from service.cli.daemon.daemon_process import running_daemon
from service.config import EmbedderSettings, Settings
from tests.support.cli.commands import Terminal
from tests.support.cli.scripted_daemon import ENVIRONMENT, sent

pytestmark = pytest.mark.slow


def test_what_was_completed_is_found_again_word_for_word(terminal: Terminal) -> None:
    words = "我的自行车停在火车站北边，钥匙在蓝色的盒子里"
    terminal.run("loops", "complete", sent(terminal, words)["run_loop_id"])
    end = time.monotonic() + 20
    hits: list[dict[str, Any]] = []
    while not hits and time.monotonic() < end:
        result = terminal.run("memory", "search", "自行车 钥匙", "--json")
        hits = json.loads(result.stdout)["hits"]
    assert words in {hit["content"] for hit in hits}
    shown = terminal.run("memory", "search", "自行车 钥匙", "--explain", "--limit", "1")
    assert shown.exit_code == 0
    assert words in shown.stdout.replace("\n", "").replace("  ", "")
    anchor = hits[0]["anchor"]["text"]
    assert anchor in shown.stdout
    expanded = terminal.run("memory", "expand", anchor)
    assert expanded.exit_code == 0
    assert "钥匙" in expanded.stdout
    context = json.loads(terminal.run("memory", "expand", anchor, "--json").stdout)
    assert context["focus"]["anchor"]["text"] == anchor
    stats = json.loads(terminal.run("memory", "stats", "--json").stdout)
    assert stats["run_loops"] >= 1


def test_a_search_that_finds_nothing_says_so(terminal: Terminal) -> None:
    result = terminal.run("memory", "search", "xylophone", "--since", "2001-01-01")
    assert result.exit_code == 0
    assert "Nothing was found" in result.stderr
    narrowed = terminal.run(
        *("memory", "search", "自行车", "--meta", "project=lisbon", "--meta", "day=12"),
        *("--max-tokens", "100", "--rerank", "--all-duplicates"),
    )
    assert narrowed.exit_code == 0
    assert "Nothing was found" in narrowed.stderr
    assert "no reranker is configured" in narrowed.stderr.replace("\n", " ")
    assert terminal.run("memory", "search", "x", "--meta", "project").exit_code == 2


def test_a_wrong_anchor_is_told_with_an_example(terminal: Terminal) -> None:
    result = terminal.run("memory", "expand", "nonsense")
    assert result.exit_code == 1
    assert "not an anchor" in result.stderr


def test_doctor_finds_the_daemon(terminal: Terminal) -> None:
    report = json.loads(terminal.run("doctor", "--json", **ENVIRONMENT).stdout)
    checks_by_name = {each["name"]: each for each in report["checks"]}
    assert checks_by_name["daemon"]["verdict"] == "ok"
    assert checks_by_name["token"]["verdict"] == "ok"


def test_stopping_the_daemon_is_orderly(tmp_path: Path) -> None:
    settings = Settings(embedder=EmbedderSettings(kind="none"))
    environment = {**ENVIRONMENT, "RONDO_LLM__MODEL": ""}
    with running_daemon(settings, tmp_path, environment=environment) as daemon:
        daemon.wait_until(lambda readiness: readiness.ready)
        assert daemon.stop() == 0
