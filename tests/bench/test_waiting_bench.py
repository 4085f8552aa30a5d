"""What the benchmark of waiting run loops measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.bench.parameters import BenchmarkError
from service.bench.waiting.waiting_report import Plan, run

SCENE = {
    "id": "tea",
    "language": "en",
    "kind": "select",
    "goal": "Order something to drink",
    "asks": "What shall I order?",
    "options": ["Green tea", "Coffee"],
    "others": [["Why is the sky blue?", "Air scatters blue light more."]],
    "replies": [
        ["answer", "coffee", "Coffee"],
        ["answer", "lemonade", ""],
        ["new", "How far is the moon?"],
    ],
}


def test_every_message_to_a_waiting_loop_is_counted_and_none_is_swallowed(tmp_path: Path) -> None:
    file = tmp_path / "scenes.jsonl"
    file.write_text(json.dumps(SCENE) + "\n")
    report = run(Plan(data=file, make_embedder=None))
    figures = report["parts"]["scenes"]["all"]
    assert figures["messages"] == 3
    assert figures["swallowed"] == 0
    assert figures["wrongly_opened"] == {"count": 0, "of": 2, "share": 0.0}
    assert figures["wrongly_taken"] == {"count": 0, "of": 1, "share": 0.0}
    assert figures["choices_misread"] == {"count": 0, "of": 2, "share": 0.0}
    assert report["method"] == "words"


def test_a_line_of_another_form_is_told_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "scenes.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(BenchmarkError, match=r"scenes\.jsonl, line 1"):
        run(Plan(data=tmp_path, make_embedder=None))
