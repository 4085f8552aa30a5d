"""`rondo audit`: calls in a few lines each, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.domain.audit import AuditEntry, AuditGrant, AuditPage
from tests.support.cli.commands import Terminal, answering, write

AT = datetime(2026, 3, 2, 14, 1, tzinfo=UTC)


def entry(**changes: Any) -> AuditEntry:
    given = {
        "seq": 7,
        "at": AT,
        "run_loop_id": "01jd3v6k2m9x4q8w",
        "goal": "Back up 我的照片",
        "message_ids": ("m",),
        "call_id": "c",
        "tool": "run_script",
        "arguments": '{"name": "backup.sh"}',
        "about": "run_script backup.sh sha256:ab12",
        "effect": "side_effects",
        "idempotency_key": "k",
        "grant": AuditGrant(kind="asked", request_id="r", given_at=AT),
        "outcome": "done",
        "finished_at": AT,
        "result": "12 files\x1b[31m copied",
    }
    return AuditEntry.model_validate({**given, **changes})


def shown(tmp_path: Path, page: AuditPage, *options: str) -> tuple[str, str, list[str]]:
    """What the command writes on both streams, and what it asked for."""
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        write(handler, page.model_dump_json(), media_type="application/json")

    told: Callable[[BaseHTTPRequestHandler], None] = answer
    (tmp_path / "token").write_text("secret")
    with answering(told) as port:
        result = Terminal(tmp_path, port).run("audit", *options)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr, asked


def test_a_call_is_shown_with_its_leave_its_hash_and_its_result(tmp_path: Path) -> None:
    out, _, _ = shown(tmp_path, AuditPage(entries=(entry(),), next=None))
    call, leave, loop, result = out.splitlines()
    assert "run_script(name='backup.sh')  done" in call
    assert "you were asked, and said yes" in leave
    assert "sha256:ab12" in leave
    assert "01jd3v6k2m “Back up 我的照片”" in loop
    assert result == "  → 12 files[31m copied"


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    unknown = entry(grant=None, about=None, outcome="unknown", result=None, finished_at=None)
    out, aside, _ = shown(tmp_path, AuditPage(entries=(unknown,), next="5-7"))
    assert "whether it did its work is unknown" in out
    assert "by whose leave is not known" in out
    assert "rondo audit --before 5-7" in aside


def test_the_next_page_is_asked_for_with_the_same_options(tmp_path: Path) -> None:
    page = AuditPage(entries=(entry(),), next="5-7")
    options = ("--since", "2026-03-01", "--tool", "a b", "--all", "--limit", "3")
    _, aside, _ = shown(tmp_path, page, *options)
    assert "rondo audit --since 2026-03-01T00:00:00" in aside
    assert "--tool 'a b' --all --limit 3 --before 5-7" in aside


@pytest.mark.parametrize("command", [("audit",), ("usage",), ("memory", "search", "x")])
def test_bounds_in_the_wrong_order_are_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    bounds = ("--since", "2026-03-02", "--until", "2026-03-01")
    refused = Terminal(tmp_path, 1).run(*command, *bounds)
    assert refused.exit_code == 2
    assert "is later than --until" in " ".join(refused.stderr.split())


def test_nothing_is_said_in_words(tmp_path: Path) -> None:
    out, aside, _ = shown(tmp_path, AuditPage(entries=(), next=None))
    assert out == ""
    assert "No tool has done anything" in aside


def test_what_is_asked_for_is_passed_on(tmp_path: Path) -> None:
    page = AuditPage(entries=(entry(),), next=None)
    options = ("--since", "2026-03-01", "--tool", "run_script", "--all", "--json")
    out, _, (asked,) = shown(tmp_path, page, *options, "--before", "5-7", "--limit", "3")
    query = parse_qs(urlsplit(asked).query)
    assert query["since"][0].startswith("2026-03-01T00:00:00")
    assert (query["tool"], query["read_only"]) == (["run_script"], ["true"])
    assert (query["before"], query["limit"]) == (["5-7"], ["3"])
    assert AuditPage.model_validate(json.loads(out)) == page
