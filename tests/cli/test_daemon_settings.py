"""What the commands say of the daemon is true of the daemon, not of the shell they run in."""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import ENVIRONMENT

pytestmark = pytest.mark.slow
ELSEWHERE = {"RONDO_LLM__MODEL": "gpt-elsewhere", "OPENAI_API_KEY": "sk-hush"}


def checks(terminal: Terminal, **variables: str) -> dict[str, dict[str, str]]:
    report = json.loads(terminal.run("doctor", "--json", **variables).stdout)
    return {each["name"]: each for each in report["checks"]}


def test_config_prints_what_the_daemon_was_started_with(terminal: Terminal) -> None:
    result = terminal.run("config", **ELSEWHERE)
    assert tomllib.loads(result.stdout)["llm"]["provider"] == "scripted"
    assert "llm.model" in result.stdout.partition("\n\n")[0]
    assert "hush" not in result.stdout
    here = terminal.run("config", "--here", **ELSEWHERE)
    assert tomllib.loads(here.stdout)["llm"]["model"] == "gpt-elsewhere"


def test_config_says_in_json_whose_settings_it_prints(terminal: Terminal) -> None:
    report = json.loads(terminal.run("config", "--json", **ELSEWHERE).stdout)
    assert (report["of"], report["settings"]["llm"]["provider"]) == ("daemon", "scripted")
    report = json.loads(terminal.run("config", "--json", "--here", **ELSEWHERE).stdout)
    assert (report["of"], report["settings"]["llm"]["model"]) == ("here", "gpt-elsewhere")


def test_doctor_tells_of_the_daemons_model_and_that_the_shell_differs(terminal: Terminal) -> None:
    checks_by_name = checks(terminal, **ELSEWHERE)
    assert "llm.model" in checks_by_name["settings"]["words"]
    assert checks_by_name["language model"]["verdict"] == "ok"
    assert "the script" in checks_by_name["language model"]["words"]
    assert "gpt-elsewhere" not in checks_by_name["language model"]["words"]


def test_doctor_does_not_claim_a_tool_for_a_key_that_only_the_shell_has(
    terminal: Terminal,
) -> None:
    checks_by_name = checks(terminal, **{**ENVIRONMENT, "TAVILY_API_KEY": "tvly-hush"})
    assert checks_by_name["web search"]["verdict"] == "note"


def test_doctor_tells_of_the_daemons_caps_and_not_of_the_shells(terminal: Terminal) -> None:
    finding = checks(terminal, RONDO_SPEND__DAILY_COST="1", OPENAI_API_KEY="sk-hush")["spending"]
    assert finding["verdict"] == "ok"
    assert "no caps" in finding["words"]


def test_the_chat_greets_with_the_daemons_model(terminal: Terminal) -> None:
    screen = Screen(terminal, "chat")  # its environment names no model
    screen.wait_for("Rondo · the script ")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
