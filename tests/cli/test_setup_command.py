"""`rondo setup` without a terminal: what it lists, what it writes, and what it refuses."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from service.llm.discovery.providers import PROVIDERS
from tests.support.cli.commands import Terminal
from tests.support.model_servers import Asked, Served, answered, listing, ollama, serving


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in {name for each in PROVIDERS for name in each.key_variables}:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RONDO_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)


class Patient(Terminal):
    """A terminal whose setup waits long: how busy this machine is, is no test's verdict."""

    def run(self, *arguments: str, stdin: str | bytes | None = None, **variables: str) -> Result:
        if arguments[0] == "setup":
            arguments = ("setup", "--wait", "30", *arguments[1:])
        return Terminal.run(self, *arguments, stdin=stdin, **variables)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Patient(tmp_path / "data", 1)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Ollama, with three models."""
    with serving(ollama()) as served:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{served.port}")
        yield served


def written(terminal: Terminal) -> dict[str, Any]:
    return tomllib.loads((terminal.data_dir / "rondo.toml").read_text())


def failed(result: Result, *words: str, code: int = 1) -> None:
    assert result.exit_code == code, result.output
    for each in words:
        assert each in result.stderr


@pytest.mark.slow
def test_json_lists_what_there_is_and_writes_nothing(
    terminal: Terminal, local: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-hush")
    result = terminal.run("setup", "--json")
    assert result.exit_code == 0
    assert "hush" not in result.output
    choices = json.loads(result.stdout)
    server = next(each for each in choices["servers"] if each["base_url"] == local.base_url)
    assert (server["program"], server["version"]) == ("Ollama", "0.12.6")
    assert [(m["name"], m["tools"]) for m in server["models"]] == [
        ("qwen3:8b", True),
        ("gemma2:2b", False),
    ]
    assert [(key["provider"], key["variable"]) for key in choices["keys"]] == [
        ("deepseek", "DEEPSEEK_API_KEY")
    ]
    assert {"smollm2-135m"} < {each["name"] for each in choices["embedded"]}
    assert [each["default"] for each in choices["embedded"]].count(True) == 1
    assert choices["in_use"] is None
    assert choices["settings_file"] == str(terminal.data_dir / "rondo.toml")
    assert not terminal.data_dir.exists()
    assert not any("chat" in path for path in local.asked_for)


def test_without_a_terminal_it_says_how_to_choose(terminal: Terminal, local: Served) -> None:
    result = terminal.run("setup")
    assert result.exit_code == 2
    assert "qwen3:8b" in result.stdout
    assert "rondo setup --use" in result.stdout
    assert not terminal.data_dir.exists()


def test_a_model_of_a_program_is_tried_and_written(terminal: Terminal, local: Served) -> None:
    result = terminal.run("setup", "--use", "ollama", "--model", "qwen3:8b", "--yes")
    assert result.exit_code == 0, result.output
    assert "Hello, I am here." in result.stderr
    assert "It calls tools." in result.stderr
    assert written(terminal) == {
        "llm": {"model": "qwen3:8b", "base_url": local.base_url, "context_tokens": 4096}
    }
    shown = terminal.run("config", "--json", "--here")
    assert json.loads(shown.stdout)["settings"]["llm"]["model"] == "qwen3:8b"


def test_what_was_in_the_file_stays_and_is_kept(terminal: Terminal, local: Served) -> None:
    mine = '# mine\n[llm]\nmodel = "old"  # words\nprovider = "embedded"\n\n[agent]\n# more\n'
    terminal.data_dir.mkdir()
    file = terminal.data_dir / "rondo.toml"
    file.write_text(mine)
    result = terminal.run("setup", "--use", "ollama", "--model", "qwen3:8b", "--yes")
    assert result.exit_code == 0, result.output
    text = file.read_text()
    assert text.startswith('# mine\n[llm]\nmodel = "qwen3:8b"  # words\n')
    assert "[agent]\n# more\n" in text
    assert "provider" not in text
    assert (terminal.data_dir / "rondo.toml.bak").read_text() == mine


def test_without_a_yes_it_shows_what_would_change_and_writes_nothing(
    terminal: Terminal, local: Served
) -> None:
    result = terminal.run("setup", "--use", "ollama", "--model", "qwen3:8b")
    failed(result, '+model = "qwen3:8b"', "Add --yes")
    assert not terminal.data_dir.exists()


def test_a_model_that_does_not_answer_is_not_written(terminal: Terminal, local: Served) -> None:
    result = terminal.run("setup", "--use", "ollama", "--model", "missing:1b", "--yes")
    failed(result, "missing:1b")
    assert not terminal.data_dir.exists()


def test_it_can_be_written_without_being_called(terminal: Terminal, local: Served) -> None:
    result = terminal.run("setup", "--use", "ollama", "--model", "later:1b", "--yes", "--no-try")
    assert result.exit_code == 0
    assert written(terminal)["llm"]["model"] == "later:1b"
    assert not any("chat" in path for path in local.asked_for)


def test_an_address_with_a_key_in_a_variable_is_written_by_the_variable_s_name(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-hush-1")
    with serving(listing("only", key="sk-hush-1", max_model_len=8192)) as served:
        result = terminal.run("setup", "--use", served.base_url, "--key-env", "MY_KEY", "--yes")
    assert result.exit_code == 0, result.output
    assert written(terminal)["llm"] == {
        "model": "only",
        "base_url": served.base_url,
        "api_key_env": "MY_KEY",
    }
    assert "hush" not in result.output
    assert "The daemon needs MY_KEY" in result.stderr


@pytest.mark.slow
def test_openai_s_key_is_not_sent_to_a_server_that_wants_none(
    terminal: Terminal, local: Served
) -> None:
    result = terminal.run(
        "setup", "--use", "ollama", "--model", "qwen3:8b", "--yes", OPENAI_API_KEY="sk-hush"
    )
    assert result.exit_code == 0, result.output
    assert written(terminal)["llm"]["api_key_env"] == ""
    check = terminal.run("doctor", "--json", OPENAI_API_KEY="sk-hush")
    assert "qwen3:8b at" in check.stdout
    assert "hush" not in str(local.requests)


def test_a_provider_s_key_goes_where_its_own_variable_says(terminal: Terminal) -> None:
    with serving(listing("gpt-x", "gpt-y", key="sk-right")) as served:
        variables = {"OPENAI_API_KEY": "sk-right", "OPENAI_BASE_URL": served.base_url}
        several = terminal.run("setup", "--use", "openai", "--yes", **variables)
        failed(several, "Name one with --model: gpt-x, gpt-y")
        result = terminal.run("setup", "--use", "openai", "--model", "gpt-y", "--yes", **variables)
    assert result.exit_code == 0, result.output
    assert written(terminal)["llm"] == {
        "model": "gpt-y",
        "base_url": served.base_url,
        "api_key_env": "OPENAI_API_KEY",
    }


def test_a_password_in_an_address_is_never_shown(terminal: Terminal) -> None:
    with serving(listing("a", "b")) as served:
        address = f"http://me:hush@localhost:{served.port}/v1"
        several = terminal.run("setup", "--use", address, "--yes")
        failed(several, "Name one with --model: a, b")
        one = terminal.run("setup", "--use", address, "--model", "a")
        refused = terminal.run("setup", "--use", f"http://me:hush@localhost:{served.port}/x")
        keys = terminal.run("setup", "--json", OPENAI_API_KEY="sk", OPENAI_BASE_URL=address)
    assert keys.exit_code == 0
    for result in (several, one, refused, keys):
        assert "hush" not in result.output


def test_a_provider_without_its_key_says_which_variable(terminal: Terminal) -> None:
    failed(terminal.run("setup", "--use", "deepseek", "--model", "m"), "DEEPSEEK_API_KEY")


def test_a_name_that_is_nothing_is_refused_with_what_there_is(
    terminal: Terminal, local: Served
) -> None:
    failed(terminal.run("setup", "--use", "olama", "--model", "m"), "olama", "Ollama")


def test_our_own_model_can_be_chosen_by_name(terminal: Terminal) -> None:
    result = terminal.run(
        "setup", "--use", "embedded", "--model", "smollm2-135m", "--no-try", "--yes"
    )
    assert result.exit_code == 0, result.output
    assert written(terminal) == {"llm": {"provider": "embedded", "model": "smollm2-135m"}}


def test_an_embedded_model_takes_the_place_of_an_endpoint_with_its_key(
    terminal: Terminal,
) -> None:
    terminal.data_dir.mkdir()
    file = terminal.data_dir / "rondo.toml"
    file.write_text('[llm]\nmodel = "x"\nbase_url = "http://x/v1"\napi_key = "sk-hush"\n')
    arguments = ["setup", "--use", "embedded", "--model", "smollm2-135m", "--no-try"]
    failed(terminal.run(*arguments), "-api_key = …")
    assert "hush" not in terminal.run(*arguments, "--yes").output
    assert written(terminal) == {"llm": {"provider": "embedded", "model": "smollm2-135m"}}


def test_a_variable_that_wins_over_the_file_is_told(terminal: Terminal, local: Served) -> None:
    result = terminal.run(
        "setup", "--use", "ollama", "--model", "qwen3:8b", "--yes", RONDO_LLM__MODEL="other"
    )
    assert result.exit_code == 0
    assert "RONDO_LLM__MODEL is set, and wins over the file" in result.stderr


def test_a_window_of_the_model_before_goes_with_it(terminal: Terminal, local: Served) -> None:
    terminal.run("setup", "--use", "ollama", "--model", "qwen3:8b", "--yes")
    assert written(terminal)["llm"]["context_tokens"] == 4096
    with serving(listing("large", max_model_len=131_072)) as served:
        result = terminal.run("setup", "--use", served.base_url, "--yes")
    assert result.exit_code == 0, result.output
    assert written(terminal)["llm"] == {"model": "large", "base_url": served.base_url}


def test_a_file_that_is_no_toml_is_left_as_it_is(terminal: Terminal, local: Served) -> None:
    terminal.data_dir.mkdir()
    (terminal.data_dir / "rondo.toml").write_text("[llm\n")
    failed(
        terminal.run("setup", "--use", "ollama", "--model", "qwen3:8b", "--yes"), "cannot be read"
    )
    assert (terminal.data_dir / "rondo.toml").read_text() == "[llm\n"


def test_a_file_that_rondo_config_names_is_made(
    terminal: Terminal, local: Served, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    arguments = ["setup", "--use", "ollama", "--model", "qwen3:8b", "--yes"]
    result = terminal.run(*arguments, RONDO_CONFIG=str(file))
    assert result.exit_code == 0, result.output
    assert tomllib.loads(file.read_text())["llm"]["model"] == "qwen3:8b"


def test_a_model_that_breaks_off_is_told_in_words(terminal: Terminal) -> None:
    def answer(asked: Asked) -> None:
        if asked.path == "/v1/models":
            asked.reply({"data": [{"id": "m"}]})
        else:
            asked.reply({"error": {"message": "out of memory"}}, status=500)

    with serving(answer) as served:
        failed(terminal.run("setup", "--use", served.base_url, "--yes"), "out of memory")
    assert not terminal.data_dir.exists()


def test_a_model_that_calls_no_tool_says_so(terminal: Terminal) -> None:
    def answer(asked: Asked) -> None:
        asked.body.pop("tools", None)
        answered(asked)

    with serving(answer) as served:
        arguments = ["setup", "--use", served.base_url, "--model", "m", "--yes"]
        result = terminal.run(*arguments)
    assert result.exit_code == 0
    assert "did not call the tool" in result.stderr


@pytest.mark.parametrize("arguments", [("--yes",), ("--model", "m"), ("--json", "--use", "ollama")])
def test_flags_that_do_not_go_together_are_refused(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    assert terminal.run("setup", *arguments).exit_code == 2


@pytest.mark.slow
def test_doctor_proposes_it_for_the_embedded_model_and_for_an_endpoint_that_fails(
    terminal: Terminal,
) -> None:
    for variables in ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}):
        checks = json.loads(terminal.run("doctor", "--json", **variables).stdout)["checks"]
        advice = next(each["advice"] for each in checks if each["name"] == "language model")
        assert "`rondo setup`" in advice
