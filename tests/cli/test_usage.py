"""`rondo usage`: a table with totals, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.domain.spend import Period, SpendStatus, bounds
from service.domain.usage import LoopUsage, UsageLine, UsageReport, UsageTotals
from service.wire.run_loop_bodies import RunLoopDetails
from tests.support.cli.commands import Terminal, answering, write

LINES = (
    UsageLine(key="2026-03-02", calls=2, input_tokens=1_234_567, output_tokens=89, cost=2.5),
    UsageLine(key="2026-03-01", calls=1, input_tokens=40, output_tokens=2, estimated_calls=1),
)
TOTAL = UsageTotals(
    calls=3,
    input_tokens=1_234_607,
    output_tokens=91,
    cost=2.5,
    calls_without_cost=1,
    estimated_calls=1,
)


def report(**changes: Any) -> UsageReport:
    given = {
        "by": "day",
        "since": None,
        "until": None,
        "currency": "USD",
        "lines": LINES,
        "more": False,
        "total": TOTAL,
    }
    return UsageReport.model_validate({**given, **changes})


def answer_with(report: UsageReport, asked: list[str]) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        write(handler, report.model_dump_json(), media_type="application/json")

    return answer


def shown(tmp_path: Path, report: UsageReport, *options: str) -> tuple[str, str, list[str]]:
    """What the command writes on both streams, and what it asked for."""
    asked: list[str] = []
    (tmp_path / "token").write_text("secret")
    with answering(answer_with(report, asked)) as port:
        result = Terminal(tmp_path, port).run("usage", *options)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr, asked


def test_a_table_has_a_line_each_and_the_totals(tmp_path: Path) -> None:
    out, aside, _ = shown(tmp_path, report())
    head, first, second, total = (line.split() for line in out.splitlines())
    assert head == ["day", "calls", "tokens", "in", "cached", "out", "cost", "(USD)"]
    assert first == ["2026-03-02", "2", "1,234,567", "0", "89", "2.50"]
    assert second == ["2026-03-01", "1", "~40", "0", "~2"]
    assert total == ["total", "3", "~1,234,607", "0", "~91", "2.50"]
    assert "estimated" in aside
    assert "One call had no price" in aside


def test_without_prices_there_is_no_column_of_costs(tmp_path: Path) -> None:
    total = TOTAL.model_copy(update={"cost": None})
    out, _, _ = shown(tmp_path, report(lines=LINES[1:], total=total, currency=None))
    assert "cost" not in out


def test_run_loops_are_shown_with_their_goals_whole_ids_and_no_control_characters(
    tmp_path: Path,
) -> None:
    line = UsageLine(key="01jd3v6k2m9x4q8w", goal="安排\x1b[31m旅行 " * 40, calls=1)
    out, _, _ = shown(tmp_path, report(by="run_loop", lines=(line,)), "--by", "run_loop")
    assert "01jd3v6k2m9x4q8w" in out
    assert "安排[31m旅行" in out
    assert "\x1b" not in out


def test_nothing_used_is_said_in_words(tmp_path: Path) -> None:
    out, aside, _ = shown(tmp_path, report(lines=(), total=UsageTotals()))
    assert out == ""
    assert "No model was called" in aside


def test_what_is_asked_for_is_passed_on_with_its_time_zone(tmp_path: Path) -> None:
    _, aside, (asked,) = shown(
        tmp_path, report(more=True), "--since", "2026-03-01", "--by", "model", "--limit", "2"
    )
    query = parse_qs(urlsplit(asked).query)
    assert query["by"] == ["model"]
    assert query["limit"] == ["2"]
    assert query["since"][0].startswith("2026-03-01T00:00:00")
    assert len(query["since"][0]) > len("2026-03-01T00:00:00")
    assert "--limit shows more" in aside


def test_json_is_what_the_daemon_says(tmp_path: Path) -> None:
    out, _, _ = shown(tmp_path, report(), "--json")
    assert UsageReport.model_validate(json.loads(out)) == report()


def spend(**changes: Any) -> SpendStatus:
    amounts = {
        "tokens_used": 12_000,
        "tokens_reserved": 0,
        "tokens_cap": None,
        "cost_used": 0.5,
        "cost_reserved": 0.0,
        "cost_cap": None,
    }
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    periods: tuple[Period, Period] = ("day", "month")
    return SpendStatus.model_validate(
        {
            period: {**dict(zip(("since", "until"), bounds(period, now), strict=True)), **amounts}
            | changes.get(period, {})
            for period in periods
        }
    )


def test_caps_are_shown_before_the_table_and_say_when_they_are_used_up(tmp_path: Path) -> None:
    status = spend(day={"tokens_cap": 20_000, "tokens_reserved": 3_000}, month={"cost_cap": 0.5})
    out, aside, _ = shown(tmp_path, report(spend=status))
    assert out.splitlines()[:2] == [
        "today: 12,000 of 20,000 tokens, and 3,000 reserved",
        "this month: 0.5000 of 0.5000 USD",
    ]
    until = datetime(2026, 4, 1, tzinfo=UTC).astimezone()
    assert f"No model is asked before {until:%Y-%m-%d %H:%M}" in aside


def test_without_caps_nothing_is_said_of_them(tmp_path: Path) -> None:
    out, aside, _ = shown(tmp_path, report(spend=spend()))
    assert "today" not in out + aside


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (
            LoopUsage(
                input_tokens=1200,
                output_tokens=8,
                cached_input_tokens=0,
                cost=0.5,
                currency="EUR",
            ),
            "1,200 tokens in, 8 out, 0.5000 EUR",
        ),
        (
            LoopUsage(
                input_tokens=0, output_tokens=0, cached_input_tokens=0, cost=None, currency=None
            ),
            "",
        ),
    ],
)
def test_showing_a_run_loop_tells_what_it_has_used(
    tmp_path: Path, usage: LoopUsage, words: str
) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    loop = RunLoopDetails(
        id="01jd3v6k2m9x4q8w",
        owner="me",
        goal="Plan a trip",
        status="idle",
        iterations=(),
        created_at=at,
        updated_at=at,
        last_seq=9,
        forked_from=None,
        routes=[],
        input_required=None,
        problem=None,
        usage=usage,
        model="default",
    )

    def answer(handler: BaseHTTPRequestHandler) -> None:
        write(handler, loop.model_dump_json(), media_type="application/json")

    (tmp_path / "token").write_text("secret")
    with answering(answer) as port:
        result = Terminal(tmp_path, port).run("loops", "show", loop.id)
    assert result.exit_code == 0, result.output
    assert result.stderr.strip() == words


@pytest.mark.parametrize("options", [("--by", "week"), ("--since", "soon"), ("--limit", "0")])
def test_wrong_options_are_told_in_words(tmp_path: Path, options: tuple[str, str]) -> None:
    result = Terminal(tmp_path, 1).run("usage", *options)
    assert result.exit_code == 2
    assert options[1] in result.stderr
