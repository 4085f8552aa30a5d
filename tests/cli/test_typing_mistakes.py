"""What people really type: dates in words, commands misspelt, a file that is no archive."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest

from service.cli.commands.command_options import DateParameter
from service.cli.views.run_loop_ids import resolve
from tests.support.cli.commands import Terminal


@pytest.fixture
def offline(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "data", 1)


@pytest.mark.parametrize("words", ["last week", "上周", "上星期"])
def test_a_date_can_be_words_in_both_languages(words: str) -> None:
    given = datetime.fromisoformat(DateParameter().convert(words, None, None))
    today = datetime.now().astimezone()
    monday = (today - timedelta(days=today.weekday() + 7)).date()
    assert given.date() == monday
    assert (given.hour, given.minute) == (0, 0)


@pytest.mark.parametrize(
    ("words", "month_and_day"),
    [("early March 2024", "03-01"), ("Christmas 2023", "12-24"), ("2024年春节", "02-09")],
)
def test_a_date_can_be_a_holiday_or_a_part_of_a_month(words: str, month_and_day: str) -> None:
    given = datetime.fromisoformat(DateParameter().convert(words, None, None))
    assert f"{given:%m-%d}" == month_and_day


def test_a_date_as_a_number_is_still_one() -> None:
    given = datetime.fromisoformat(DateParameter().convert("2026-03-31T17:00", None, None))
    assert (given.month, given.hour) == (3, 17)


@pytest.mark.parametrize("words", ["soonish", "0.5", "", "yesterday and last week"])
def test_what_names_no_one_date_is_refused_with_examples(words: str) -> None:
    with pytest.raises(click.BadParameter, match="last week"):
        DateParameter().convert(words, None, None)


@pytest.mark.parametrize(
    ("typed", "meant"), [("snd", "send"), ("memroy", "memory"), ("doktor", "doctor")]
)
def test_a_misspelt_command_is_told_the_near_one(offline: Terminal, typed: str, meant: str) -> None:
    result = offline.run(typed)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'?" in result.stderr


def test_a_misspelt_subcommand_is_told_the_near_one(offline: Terminal) -> None:
    assert "Did you mean 'show'?" in offline.run("loops", "shw").stderr


def test_a_loop_is_named_by_its_cut_name_as_the_list_shows_it(offline: Terminal) -> None:
    class OneLoop:
        def get(self, path: str, params: object = None) -> dict[str, object]:
            at = "2026-03-01T00:00:00Z"
            loop = {"id": f"chatgpt-{'a' * 52}", "owner": "me", "goal": "g", "status": "completed"}
            line = {**loop, "created_at": at, "updated_at": at, "route": None, "moved_to": None}
            return {
                "run_loops": [line],
                "next_before": None,
            }

    assert resolve(OneLoop(), "chatgpt-aaaa…") == f"chatgpt-{'a' * 52}"  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "# Rondo\n\nA personal assistant.\n\n```\nmake run\n```\n" * 40,
        '{\n  "name": "left-pad",\n  "version": "1.0.0"\n}\n',
        "\x00\x01\x02 not text at all \xff\n" * 10,
    ],
)
def test_importing_what_is_no_archive_is_one_error(
    terminal: Terminal, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "README.md"
    file.write_text(text)
    result = terminal.run("memory", "import", str(file))
    assert result.exit_code == 1
    assert "nothing to import" in result.stderr
    assert "neither an export of Rondo" in result.stderr.replace("\n", " ")
    assert len(result.stderr.splitlines()) <= 4


@pytest.mark.slow
def test_the_list_of_loops_fits_eighty_columns_after_an_import(
    terminal: Terminal, tmp_path: Path
) -> None:
    ids = [f"chatgpt-{n}a1f0e9c-1111-4222-8333-444455556666-part-{n}" for n in range(1, 4)]
    at = "2026-03-01T10:00:00Z"
    lines = [
        f'{{"id": "{each}", "goal": "Balcony tomatoes 阳台番茄", "status": "completed",'
        f' "created_at": "{at}", "completed_at": "{at}", "iterations":'
        f' [{{"user_message": "hello", "response": "hi", "timestamp": "{at}"}}]}}'
        for each in ids
    ]
    (tmp_path / "loops.jsonl").write_text("\n".join(lines))
    assert terminal.run("memory", "import", str(tmp_path / "loops.jsonl")).exit_code == 0
    listed = terminal.run("loops", "list", "--limit", "200", COLUMNS="80").stdout
    rows = [line for line in listed.splitlines() if line.startswith("chatgpt-")]
    assert len(rows) == 3
    assert all(len(row) <= 80 and "Balcony" in row for row in rows)
    shown = terminal.run("loops", "show", rows[0].split()[0])
    assert shown.exit_code == 0
    assert "Balcony tomatoes" in shown.stdout
