"""`rondo config`, `models` and `doctor`: what they say about the setup."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.support.cli.commands import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "data", 1)


def test_config_is_toml_that_reads_back_as_what_is_in_effect(terminal: Terminal) -> None:
    result = terminal.run("config", RONDO_LLM__MODEL='say "番茄"', RONDO_LOG_LEVEL="debug")
    assert result.exit_code == 0
    settings = tomllib.loads(result.stdout)
    assert settings["llm"]["model"] == 'say "番茄"'
    assert settings["log_level"] == "debug"
    assert settings["data_dir"] == str(terminal.data_dir)
    assert "# temperature is not set\n" in result.stdout


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_hides_secrets(terminal: Terminal, form: tuple[str, ...]) -> None:
    result = terminal.run("config", *form, OPENAI_API_KEY="sk-hush", TAVILY_API_KEY="tvly-hush")
    assert result.exit_code == 0
    assert "hush" not in result.stdout


def test_config_says_which_file_was_read(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('log_level = "error"\n')
    result = terminal.run("config", "--json", RONDO_CONFIG=str(file))
    report = json.loads(result.stdout)
    assert report["file"] == str(file)
    assert report["settings"]["log_level"] == "error"


def test_models_lists_what_is_known_and_what_is_here(terminal: Terminal, tmp_path: Path) -> None:
    result = terminal.run("models", "list", "--json", RONDO_MODELS_DIR=str(tmp_path / "models"))
    models = json.loads(result.stdout)
    assert {"smollm2-135m", "qwen2.5-coder-0.5b"} <= {model["name"] for model in models}
    assert all(model["path"] is None for model in models)


def test_models_says_honestly_what_the_small_model_cannot_do(terminal: Terminal) -> None:
    result = terminal.run("models", "list")
    assert result.exit_code == 0
    assert "invents facts" in result.stderr
    assert "RONDO_LLM__MODEL" in result.stderr


def test_pulling_an_unknown_model_names_those_that_are_known(
    terminal: Terminal, tmp_path: Path
) -> None:
    result = terminal.run("models", "pull", "gpt-7", RONDO_MODELS_DIR=str(tmp_path / "models"))
    assert result.exit_code == 1
    assert "smollm2-135m" in result.stderr


def test_a_file_that_is_not_the_known_one_is_not_used(terminal: Terminal, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"not a model")
    result = terminal.run(
        "models", "pull", "smollm2-135m", "--from", str(wrong), RONDO_MODELS_DIR=str(tmp_path / "m")
    )
    assert result.exit_code == 1
    assert "SHA-256" in result.stderr
    assert not (tmp_path / "m" / "smollm2-135m.gguf").exists()


def test_a_model_that_is_not_known_is_a_broken_setting(terminal: Terminal) -> None:
    finding = looked_at(terminal, "language model", RONDO_LLM__MODEL="gpt-7")
    assert finding["verdict"] == "broken"
    assert "qwen2.5-coder-0.5b" in finding["advice"]


def test_an_endpoint_that_does_not_answer_is_broken_and_its_key_is_not_shown(
    terminal: Terminal,
) -> None:
    finding = looked_at(
        terminal,
        "language model",
        OPENAI_BASE_URL="http://127.0.0.1:1/v1",
        OPENAI_API_KEY="sk-secret",
        RONDO_LLM__MODEL="small",
    )
    assert finding["verdict"] == "broken"
    assert "http://127.0.0.1:1/v1" in finding["words"]
    assert "sk-secret" not in str(finding)


def test_a_variable_of_a_key_that_is_not_set_is_broken_by_its_name(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[llm]\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "NOBODYS_KEY"\n')
    finding = looked_at(terminal, "language model", RONDO_CONFIG=str(file))
    assert finding["verdict"] == "broken"
    assert "NOBODYS_KEY, which is not set" in finding["words"]
    assert "export NOBODYS_KEY=" in finding["advice"]


def test_a_token_that_others_can_read_is_noted(terminal: Terminal) -> None:
    terminal.data_dir.mkdir()
    (terminal.data_dir / "token").write_text("x")
    (terminal.data_dir / "token").chmod(0o644)
    finding = looked_at(terminal, "token")
    assert finding["verdict"] == "note"
    assert "chmod 600" in finding["advice"]


def test_a_file_that_holds_no_token_is_broken_and_not_shown(terminal: Terminal) -> None:
    terminal.data_dir.mkdir()
    (terminal.data_dir / "token").write_text("hush hush")
    finding = looked_at(terminal, "token")
    assert finding["verdict"] == "broken"
    assert "hush" not in str(finding)


def test_doctor_names_what_is_wrong_with_the_settings_and_goes_on(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[llm]\nmodle = "x"\n')
    variables = {"RONDO_CONFIG": str(file), "RONDO_LOG_LEVEL": "loud"}
    finding = looked_at(terminal, "settings", **variables)
    assert finding["verdict"] == "broken"
    assert f"{file}: there is no setting llm.modle" in finding["words"]
    assert "RONDO_LOG_LEVEL" in finding["words"]
    assert str(terminal.data_dir) in looked_at(terminal, "data folder", **variables)["words"]


def test_doctor_notes_a_variable_that_nothing_reads(terminal: Terminal) -> None:
    finding = looked_at(terminal, "settings", RONDO_LLM_MODEL="x")
    assert finding["verdict"] == "note"
    assert "RONDO_LLM_MODEL" in finding["words"]
    assert "RONDO_LLM__MODEL" in finding["advice"]


def test_caps_on_spending_are_told_and_so_is_what_they_lack(terminal: Terminal) -> None:
    assert "no caps" in looked_at(terminal, "spending")["words"]
    caps = {"RONDO_SPEND__DAILY_TOKENS": "100000", "RONDO_SPEND__MONTHLY_COST": "20"}
    finding = looked_at(terminal, "spending", **caps)  # the embedded model costs no money
    assert (finding["verdict"], finding["words"]) == (
        "ok",
        "daily_tokens is 100,000, monthly_cost is 20.0",
    )
    finding = looked_at(terminal, "spending", OPENAI_BASE_URL="http://127.0.0.1:1/v1", **caps)
    assert finding["verdict"] == "broken"
    assert "llm has no prices" in finding["words"]
    tools = looked_at(terminal, "tools", OPENAI_BASE_URL="http://127.0.0.1:1/v1", **caps)
    assert tools["verdict"] == "ok"  # it is told once


def test_an_empty_data_folder_on_the_command_line_is_refused(terminal: Terminal) -> None:
    result = terminal.run("serve", "--data-dir", "")
    assert result.exit_code == 1
    assert "data_dir cannot be used: it is empty" in result.stderr


def test_a_data_folder_that_cannot_be_made_is_broken(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = looked_at(Terminal(tmp_path / "file" / "data", 1), "data folder")
    assert finding["verdict"] == "broken"


@pytest.mark.slow
def test_the_missing_web_search_key_is_explained(terminal: Terminal) -> None:
    finding = looked_at(terminal, "web search")
    assert finding["verdict"] == "note"
    assert "TAVILY_API_KEY" in finding["advice"]
    assert looked_at(terminal, "web search", TAVILY_API_KEY="x")["verdict"] == "ok"


@pytest.mark.slow
def test_doctor_ends_with_an_error_only_when_something_needed_is_broken(
    terminal: Terminal,
) -> None:
    assert terminal.run("doctor").exit_code == 0
    assert terminal.run("doctor", RONDO_LLM__MODEL="gpt-7").exit_code == 1


def looked_at(terminal: Terminal, name: str, **variables: str) -> dict[str, str]:
    """What doctor finds of one part, with the embedder left out as it takes seconds."""
    result = terminal.run("doctor", "--json", RONDO_EMBEDDER__KIND="none", **variables)
    report = json.loads(result.stdout)
    assert result.exit_code == (0 if report["ok"] else 1)
    matches: list[dict[str, str]] = [each for each in report["checks"] if each["name"] == name]
    return matches[0]
