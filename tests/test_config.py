"""Settings: where they come from, what is hidden, and what is said of those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.config import (
    Settings,
    default_data_dir,
    load_settings,
    unknown_variables,
    usable_settings,
    variable_like,
)
from service.domain.errors import ConfigurationError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of one's own, and no variables of the machine."""
    for variable in os.environ:
        if variable.startswith(("RONDO_", "OPENAI_", "ANTHROPIC_", "TAVILY_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_error(**flags: object) -> str:
    """What is said of settings that cannot be used."""
    with pytest.raises(ConfigurationError) as raised:
        load_settings(**flags)
    return raised.value.problem().in_words()


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDO_DATA_DIR", "")
    monkeypatch.setenv("RONDO_SERVER__PORT", "")
    assert load_settings().data_dir == default_data_dir()
    assert load_settings().server.port == 8765


def test_an_empty_data_folder_is_refused_and_not_taken_for_the_current_one(here: Path) -> None:
    assert "data_dir cannot be used: it is empty" in config_error(data_dir="")
    (here / "rondo.toml").write_text('data_dir = ""')
    assert "data_dir cannot be used: it is empty" in config_error()


@pytest.mark.parametrize(
    "password",
    ["passw0rd", "p@ssw0rd", "p/a?ssw0rd"],
)
def test_passwords_in_addresses_are_hidden(password: str) -> None:
    url = f"http://ada:{password}@llm.example:1/v1"
    settings = Settings.model_validate({"llm": {"base_url": url}, "embedder": {"base_url": url}})
    shown = settings.shown()
    assert "ssw0rd" not in str(shown)
    assert shown["llm"]["base_url"] == "http://**********@llm.example:1/v1"
    assert settings.llm.base_url == url


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("LLM__MODLE", "x", "there is no setting llm.modle; did you mean llm.model?"),
        ("SERVER__PORT", "x", "server.port must be a whole number from 0 to 65535"),
        ("SERVER__PORT", "70000", "server.port must be a whole number from 0 to 65535"),
        ("LLM__MAX_TOKENS", "0", "llm.max_tokens must be a whole number above 0"),
        ("LLM__CONTEXT_TOKENS", "1", "llm.context_tokens must be a whole number, at least 2048"),
        ("LLM__TEMPERATURE", "hot", "llm.temperature must be a number from 0 to 2"),
        ("LOG_LEVEL", "loud", "log_level must be one of debug, info, warning, error"),
        ("TOOLS__SCRIPTS", "maybe", "tools.scripts must be true or false"),
        ("DATA_DIR", "~nobody-of-that-name/x", "data_dir cannot be used: this machine"),
        ("LLM__PRICES__OUTPUT", "free", "llm.prices.output must be a number, at least 0"),
        ("AGENT__HOOKS", "{}", "agent.hooks must be a list of texts"),
        ("AGENT__HOOKS", "[1]", "agent.hooks.0 must be a text"),
        (
            "AGENT__EXECUTORS__CALL_LM",
            "a:b",
            "agent.executors has no entry call_lm; did you mean c",
        ),
        ("AGENT__EXECUTORS__XYZ", "a:b", "agent.executors has no entry xyz; it takes call_llm, "),
        ("AGENT__BUDGET_COST", "1e999", "agent.budget_cost must be a finite number"),
        ("ROUTER__USE_LLM", "maybe", "router.use_llm must be auto, true or false"),
        ("ROUTER__LLM_TIMEOUT_SECONDS", "inf", "router.llm_timeout_seconds must be a finite"),
        ("LLM__RETRY_BASE_SECONDS", "inf", "llm.retry_base_seconds must be a finite number"),
        ("LLM__RETRY_MAX_SECONDS", "-1", "llm.retry_max_seconds must be a number, at least 0"),
        ("LLM__RETRY_LONGEST_WAIT_SECONDS", "nan", "llm.retry_longest_wait_seconds must be a fin"),
        ("LLM__MAX_CALL_SECONDS", "0", "llm.max_call_seconds must be a number above 0"),
        ("ROUTER__FOO", "1", "there is no setting router.foo."),
        ("LLM", "{bad", "llm must be a table of settings (as a variable: a JSON object)"),
        ("LLM", '"x"', "llm must be a table of settings (as a variable: a JSON object)"),
    ],
)
def test_a_wrong_variable_is_named_and_told_in_plain_words(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RONDO_{variable}", value)
    assert f"RONDO_{variable}: {words}" in config_error()


def test_everything_that_is_wrong_is_told_at_once_with_the_full_path_of_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rondo.toml").write_text('port = 1\n[llm]\nmax_retries = "many"\n')
    monkeypatch.setenv("RONDO_EMBEDDER", "{bad")
    words = config_error()
    assert f"{here}/rondo.toml: there is no setting port; did you mean server.port?" in words
    assert f"{here}/rondo.toml: llm.max_retries must be a whole number, at least 0" in words
    assert "RONDO_EMBEDDER: embedder must be" in words


def test_what_was_given_is_never_repeated_as_it_can_be_a_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RONDO_LLM", '{"api_key": "hush", ')
    monkeypatch.setenv("RONDO_LLM__API_KEYS", "hush")
    assert "hush" not in config_error()


def test_waits_before_retries_must_not_begin_above_their_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RONDO_LLM__RETRY_BASE_SECONDS", "30")
    assert "`retry_base_seconds` is at most `retry_max_seconds`" in config_error()
    monkeypatch.setenv("RONDO_LLM__RETRY_MAX_SECONDS", "30")
    assert load_settings().llm.retry_max_seconds == 30


@pytest.mark.parametrize("content", [b"[llm", b"model = '\xff'"])
def test_a_file_that_is_no_toml_is_named_by_its_full_path(here: Path, content: bytes) -> None:
    (here / "rondo.toml").write_bytes(content)
    assert f"{here}/rondo.toml cannot be read" in config_error()


def test_a_folder_named_as_the_file_is_said_to_be_a_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_CONFIG", str(here))
    assert f"{here} is a folder" in config_error()
    monkeypatch.setenv("RONDO_CONFIG", "nowhere.toml")
    assert f"{here}/nowhere.toml does not exist" in config_error()


def test_usable_settings_leave_out_only_what_is_wrong(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rondo.toml").write_text('nonsense = 1\n[llm]\nmodle = "x"\nmodel = "kept"\n')
    monkeypatch.setenv("RONDO_SERVER__PORT", "99")
    monkeypatch.setenv("RONDO_LOG_LEVEL", "loud")
    settings = usable_settings()
    assert settings.llm.model == "kept"
    assert settings.server.port == 99
    assert settings.log_level == "info"
    (here / "rondo.toml").write_text("[llm")
    assert usable_settings().server.port == 99


def test_variables_that_nothing_reads_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BOGUS", "LLM_MODEL", "DATA_DIR__X", "CONFIG", "LLM__MODEL", "LOG_LEVEL"):
        monkeypatch.setenv(f"RONDO_{variable}", "1")
    assert unknown_variables() == ["RONDO_BOGUS", "RONDO_DATA_DIR__X", "RONDO_LLM_MODEL"]
    assert variable_like("RONDO_LLM_MODEL") == "RONDO_LLM__MODEL"
    assert variable_like("RONDO_BOGUS") is None


def test_prices_that_go_together_are_asked_for_together() -> None:
    words = config_error(llm={"prices": {"input": 2}})
    assert "llm.prices cannot be used: `input` and `output` go together" in words
    assert "`cached_input` goes with" in config_error(llm={"prices": {"cached_input": 2}})


def test_a_list_of_names_may_be_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDO_AGENT__HOOKS", "my_house:Audit, my_house:Guard")
    assert load_settings().agent.hooks == ("my_house:Audit", "my_house:Guard")


def test_usable_settings_leave_out_what_is_wrong_within_lists_and_tables(here: Path) -> None:
    (here / "rondo.toml").write_text(
        """
        [llm]
        model = "m"
        prices = {input = 2, output = "free"}
        [agent]
        hooks = ["a:b", 1]
        executors = {call_lm = "a:b", finish = "a:c"}
        """
    )
    usable = usable_settings()
    assert usable.llm.model == "m"
    assert usable.llm.prices.input is None  # it goes with the one that is wrong
    assert usable.agent.hooks == ()
    assert usable.agent.executors == {"finish": "a:c"}


@pytest.mark.parametrize(
    ("table", "entry", "told"),
    [
        ("models", 'model = "m"', "at most 64 characters"),
        ("tools.mcp", 'command = "x"', "single _, begins with a letter"),
    ],
)
def test_an_entry_with_a_wrong_name_is_left_out_and_told_by_what_its_table_takes(
    here: Path, table: str, entry: str, told: str
) -> None:
    (here / "rondo.toml").write_text(f"[{table}.Bad]\n{entry}\n[{table}.good]\n{entry}\n")
    usable = usable_settings()
    assert [*usable.models, *usable.tools.mcp] == ["good"]
    assert told in config_error()


def test_a_model_shares_the_key_of_llm_only_at_its_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RONDO_LLM__API_KEY", "of-llm")
    monkeypatch.setenv("RONDO_LLM__BASE_URL", "http://near:1/v1")
    monkeypatch.setenv("RONDO_LLM__TIMEOUT_SECONDS", "7")
    monkeypatch.setenv("RONDO_MODELS__LARGE__MODEL", "l")
    monkeypatch.setenv("RONDO_MODELS__ELSEWHERE__BASE_URL", "http://far:1/v1")
    monkeypatch.setenv("RONDO_MODELS__CLAUDE__PROVIDER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-anthropic")
    settings = load_settings()
    models = {name: settings.of_model(name) for name in settings.models}
    assert {name: each.api_key.get_secret_value() for name, each in models.items()} == {
        "large": "of-llm",
        "elsewhere": "",
        "claude": "of-anthropic",
    }
    assert models["large"].base_url == "http://near:1/v1"
    assert {each.timeout_seconds for each in models.values()} == {7}
    assert unknown_variables() == []


@pytest.mark.parametrize("name", ["Ü", "a b", "-x", "x" * 65])
def test_the_name_of_a_model_is_checked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"RONDO_MODELS__{name}__MODEL", "m")
    with pytest.raises(ConfigurationError, match="small letters, digits"):
        load_settings()


def test_a_key_is_taken_from_the_variable_that_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rondo.toml").write_text(
        '[llm]\nbase_url = "https://llm.example/v1"\napi_key_env = "MY_KEY"\n'
    )
    monkeypatch.setenv("MY_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    settings = load_settings()
    assert settings.llm.api_key.get_secret_value() == "sk-mine"
    assert "sk-mine" not in str(settings.shown())
    assert settings.llm.effective_provider == "openai"


@pytest.mark.parametrize("name", ["MY_KEY", ""])
def test_no_other_key_takes_the_place_of_a_named_one(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (here / "rondo.toml").write_text(
        f'[llm]\nbase_url = "https://llm.example/v1"\napi_key_env = "{name}"\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    settings = load_settings()
    assert settings.llm.api_key.get_secret_value() == ""
    assert settings.llm.effective_provider == "openai"


def test_a_key_of_our_own_comes_before_the_named_variable(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rondo.toml").write_text('[llm]\napi_key_env = "MY_KEY"\n')
    monkeypatch.setenv("MY_KEY", "sk-mine")
    monkeypatch.setenv("RONDO_LLM__API_KEY", "sk-ours")
    assert load_settings().llm.api_key.get_secret_value() == "sk-ours"


def test_a_model_with_a_variable_of_its_own_gets_no_other_key(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "rondo.toml").write_text(
        '[llm]\nbase_url = "https://llm.example/v1"\napi_key_env = "MY_KEY"\n'
        '[models.same]\nmodel = "b"\n'
        '[models.other]\nmodel = "c"\napi_key_env = "OTHER_KEY"\n'
        '[models.claude]\nprovider = "anthropic"\napi_key_env = "CLAUDE_KEY"\n'
    )
    monkeypatch.setenv("MY_KEY", "sk-mine")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("CLAUDE_KEY", "sk-claude")
    settings = load_settings()
    keys = {name: settings.of_model(name).api_key.get_secret_value() for name in settings.models}
    assert keys == {"same": "sk-mine", "other": "", "claude": "sk-claude"}
    assert settings.of_model("same").api_key_env == "MY_KEY"


def test_a_key_in_place_of_a_variable_is_refused_and_not_repeated(here: Path) -> None:
    (here / "rondo.toml").write_text('[llm]\napi_key_env = "sk-oops-1234"\n')
    words = config_error()
    assert "it is the name of a variable, not a key" in words
    assert "oops" not in words
