"""What goes wrong in the commands of memory is told with what to do about just that."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from service.cli.views.forget_views import print_receipt
from service.cli.views.memory_views import print_hits
from service.domain.anchors import Anchor, MemoryHit, SearchResult
from service.domain.forgetting_terms import ForgetReceipt
from tests.support.cli.commands import Terminal, answering, write
from tests.support.memory.archives import chatgpt, written
from tests.support.memory.exchanging import MOMENT, lines, loop, turn

PREVIEW: dict[str, Any] = {
    "run_loops": [],
    "iterations": [],
    "copies": [],
    "related": [],
    "active": [],
    "events": 1,
    "notice": None,
    "confirm": "code",
}


def breaking_at(
    *answers: dict[str, Any],
) -> Callable[[BaseHTTPRequestHandler], None]:
    """Gives these answers, one a request, and breaks the connection at the next one."""
    left = list(answers)

    def answer(request: BaseHTTPRequestHandler) -> None:
        if left:
            write(request, json.dumps(left.pop(0)), media_type="application/json")
        else:
            request.close_connection = True

    return answer


def narrow() -> Console:
    return Console(width=80, highlight=False, emoji=False, markup=False)


@pytest.mark.parametrize(
    ("command", "answers", "words"),
    [
        ("import", [{}], "What is in is in"),
        ("forget", [], "Nothing was forgotten"),
        ("forget", [PREVIEW], "rondo memory forget --receipts"),
        ("reindex", [], "run the same command again"),
        ("reindex", [{"started": True, "notice": None}], "goes on by itself"),
    ],
)
def test_a_daemon_that_dies_meanwhile_is_told_with_what_became_of_the_work(
    tmp_path: Path, command: str, answers: list[dict[str, Any]], words: str
) -> None:
    file = tmp_path / "loops.jsonl"
    file.write_bytes(lines(loop("one", turn("Hello"))))
    more = {"import": [str(file)], "forget": ["--since", "2026-01-01", "--yes"], "reindex": []}
    with answering(breaking_at(*answers)) as port:
        result = Terminal(tmp_path, port).run("memory", command, *more[command])
    assert result.exit_code == 1
    assert "connection" in result.stderr
    stderr = " ".join(result.stderr.split())
    assert words in stderr
    assert "goes on without you" not in stderr


def test_failures_name_the_run_loop_or_the_title_of_the_conversation(tmp_path: Path) -> None:
    report = {"failures": 1, "failed": [{"line": 1, "problem": "no", "run_loop_id": "chatgpt-c1"}]}
    talk = chatgpt(("q1", None, "user", "Said"), title="Tomatoes")
    for file, places in (
        (written(tmp_path, talk), {"conversation": 1, "title": "Tomatoes"}),
        (tmp_path / "own.jsonl", {"line": 1}),
    ):
        if file.suffix == ".jsonl":
            file.write_bytes(lines(loop("chatgpt-c1", turn("Hello"))))
        with answering(breaking_at({}, report)) as port:
            result = Terminal(tmp_path, port).run("memory", "import", "--json", str(file))
        [failed] = json.loads(result.stdout)["failed"]
        assert failed == {**places, "run_loop_id": "chatgpt-c1", "problem": "no"}


def test_an_export_says_what_is_wrong_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place, words in (
        (tmp_path / "folder", f"such as -o {tmp_path}/folder/memory.jsonl"),
        (tmp_path / "none" / "out.jsonl", "Make the folder first"),
    ):
        result = Terminal(tmp_path, 1).run("memory", "export", "-o", str(place), COLUMNS="500")
        assert result.exit_code == 1
        assert words in result.stderr
        assert "Free some space" not in result.stderr


def test_the_parts_of_a_score_are_folded_between_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {f"a part of a score {number}": number / 10 for number in range(9)}
    scores |= {"cosine": 0.8, "bm25": 12.5, "lexical": 0.2, "rerank": 0.5}
    anchor = Anchor(
        run_loop_id="x",
        iteration_index=0,
        segment_index=0,
        segment_type="response",
        timestamp=datetime(2026, 5, 4, 12, tzinfo=UTC),
    )
    hit = MemoryHit(anchor=anchor, content="Hello", relevance=0.5, scores=scores)
    monkeypatch.setattr("service.cli.views.memory_views.out", narrow)
    print_hits(SearchResult(hits=(hit,), mode="lexical"))
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    output = "\n".join(shown)
    for name, part in scores.items():
        assert f"{name} {part:+.2f}" in output or f"{name} {part:.3f}" in output
    parts = [line for line in shown if "score" in line or "bm25" in line]
    assert len(parts) > 2
    assert all(line.startswith("  ") and not line.startswith("   ") for line in parts)


def hits(*related: bool) -> SearchResult:
    at = datetime(2026, 5, 4, 12, tzinfo=UTC)
    return SearchResult(
        hits=tuple(
            MemoryHit(
                anchor=Anchor(
                    run_loop_id="x",
                    iteration_index=0,
                    segment_index=place,
                    segment_type="response",
                    timestamp=at,
                ),
                content=f"Words {place}",
                relevance=0.5,
                related=each,
            )
            for place, each in enumerate(related)
        ),
        mode="lexical",
    )


def test_a_line_is_drawn_where_relevance_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_hits(hits(True, True, False))
    captured = capsys.readouterr()
    assert captured.err.count("below this line nothing seems to be about it") == 1
    assert captured.out.count("Words") == 3
    print_hits(hits(True, True))
    assert "below this line" not in capsys.readouterr().err


def test_where_nothing_is_relevant_that_is_said_before_the_hits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_hits(hits(False, False))
    captured = capsys.readouterr()
    assert "Nothing seems to be about it." in captured.err
    assert "below this line" not in captured.err
    assert captured.out.count("Words") == 2


def test_a_receipt_keeps_its_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("service.cli.views.forget_views.out", narrow)
    receipt = ForgetReceipt.model_validate(
        {
            "id": "r" * 16,
            "at": MOMENT,
            "by": ["time"],
            "run_loops": ["a"],
            "iterations": {},
            "copies": {"b": 1},
            "removed": {},
            "pending": [],
        }
    )
    print_receipt(receipt)
    assert len(capsys.readouterr().out.splitlines()) == 3
