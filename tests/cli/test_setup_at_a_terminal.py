"""`rondo setup` with somebody who types, and what the first `rondo chat` asks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from service.llm.discovery.providers import PROVIDERS
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import terminal_of
from tests.support.model_servers import Asked, Served, listing, ollama, serving, silent

pytestmark = pytest.mark.slow

SETUP = ("setup", "--wait", "30")
"""Patient with servers: how busy this machine is, is no test's verdict."""
CTRL_C = "\x03\n"
"""At a prompt. Python notices a signal that comes just before it waits for input with the next key
only; as the signal came first, what that key says does not count."""
_NO_KEYS: dict[str, str] = {name: "" for each in PROVIDERS for name in each.key_variables}
_UNSET = {"RONDO_LLM__PROVIDER": "", "OPENAI_BASE_URL": "", "ANTHROPIC_BASE_URL": ""}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal whose daemon does not run."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path / "data", 1)


@pytest.fixture
def local() -> Iterator[Served]:
    with serving(ollama()) as served:
        yield served


def typing(terminal: Terminal, *arguments: str, **variables: str) -> Screen:
    """A command with no key, no model and no Ollama of this machine."""
    models = str(terminal.data_dir.parent / "models")
    clean = {**_NO_KEYS, **_UNSET, "RONDO_MODELS_DIR": models, "OLLAMA_HOST": "127.0.0.1:1"}
    return Screen(terminal, *arguments, **{**clean, **variables})


def at(served: Served) -> dict[str, str]:
    return {"OLLAMA_HOST": f"127.0.0.1:{served.port}"}


def written(terminal: Terminal) -> dict[str, object]:
    llm: dict[str, object] = tomllib.loads((terminal.data_dir / "rondo.toml").read_text())["llm"]
    return llm


@contextmanager
def the_menu(terminal: Terminal, **variables: str) -> Iterator[Screen]:
    screen = typing(terminal, *SETUP, **variables)
    screen.wait_for("Which one? ›")
    yield screen


@pytest.mark.parametrize("columns", ["60", "80"])
def test_enter_takes_the_first_model_tries_it_and_writes_it(
    here: Terminal, local: Served, columns: str
) -> None:
    screen = typing(here, *SETUP, COLUMNS=columns, **at(local))
    screen.wait_for("Enter takes 1 (qwen3:8b).")
    screen.wait_for("Which one? ›")
    screen.type("\n")
    screen.wait_for("Hello, I am here.")
    screen.wait_for("It calls tools.")
    screen.wait_for('+model = "qwen3:8b"')
    screen.wait_for("Write it? [Y/n]")
    assert not here.data_dir.exists()
    screen.type("\n")
    screen.wait_for("rondo serve")
    assert screen.leave() == 0
    assert written(here)["model"] == "qwen3:8b"


def test_a_model_without_tools_can_be_exchanged_for_another(here: Terminal, local: Served) -> None:
    with the_menu(here, **at(local)) as screen:
        screen.type("gemma2:2b\n")
        screen.wait_for("It takes no tools")
        screen.wait_for("Use it all the same? [y/N]")
        screen.type("\n")
        screen.wait_for("Which one? ›")
        screen.type("1\n")
        screen.wait_for("Write it?")
        screen.type("是\n")
        screen.wait_for("Written:")
        assert screen.leave() == 0


@pytest.mark.parametrize(("keys", "code"), [("q\n", 0), ("\x04", 0), (CTRL_C, 130)])
@pytest.mark.parametrize("late", [False, True])
def test_each_way_to_leave_changes_nothing_and_says_so(
    here: Terminal, local: Served, keys: str, code: int, late: bool
) -> None:
    with the_menu(here, **at(local)) as screen:
        if late:
            screen.type("1\n")
            screen.wait_for("Write it? [Y/n]")
        screen.type(keys)
        screen.wait_for("Nothing was changed.")
        assert screen.leave() == code
    assert not here.data_dir.exists()


def test_ctrl_c_leaves_while_a_server_stays_silent(here: Terminal, local: Served) -> None:
    with silent() as port, the_menu(here, **at(local)) as screen:
        screen.type("a\n")
        screen.wait_for("Enter goes back) ›")
        screen.type(f"127.0.0.1:{port}/v1\n")
        screen.wait_for("Enter: none) ›")
        screen.type("\n")
        screen.wait_for("Asking")
        screen.type("\x03")
        screen.wait_for("Nothing was changed.")
        assert screen.leave() == 130


def test_ctrl_c_stops_a_model_that_does_not_answer(here: Terminal) -> None:
    def never_answers(asked: Asked) -> None:
        if "chat" in asked.path:
            asked.rfile.read(1)  # until the other side has gone
        else:
            ollama()(asked)

    with serving(never_answers) as served, the_menu(here, **at(served)) as screen:
        screen.type("1\n")
        screen.wait_for("Trying")
        screen.type("\x03")
        screen.wait_for("Stopped.")
        screen.wait_for("[w]rite it all the same, [q]uit ›")
        screen.type("w\n")
        screen.wait_for("Write it?")
        screen.type("y\n")
        screen.wait_for("Written:")
        assert screen.leave() == 0
    assert written(here)["model"] == "qwen3:8b"


def test_an_address_and_a_key_are_typed_and_the_key_is_never_shown(here: Terminal) -> None:
    with serving(listing("m-one", "m-two", key="sk-hush-77")) as served, the_menu(here) as screen:
        for key, then in (("sk-wrong-hush", "refuses the key"), ("sk-hush-77", "2 models:")):
            screen.type("a\n")
            screen.wait_for("Enter goes back")
            screen.type(f"localhost:{served.port}\n")
            screen.wait_for("Enter: none)")
            screen.type(f"{key}\n")
            screen.wait_for(then)
            screen.wait_for("Which one? ›")
        screen.type("two\n")
        screen.wait_for("1 model with “two”")
        screen.wait_for("Which one? ›")
        screen.type("\n")
        screen.wait_for("1 or 2 ›")
        screen.type("2\n")
        screen.wait_for("+api_key = …")
        screen.wait_for("Write it?")
        screen.type("y\n")
        screen.wait_for("Written:")
        assert screen.leave() == 0
    assert "hush" not in screen.shown
    assert written(here) == {
        "model": "m-two",
        "base_url": served.base_url,
        "api_key": "sk-hush-77",
    }
    assert (here.data_dir / "rondo.toml").stat().st_mode & 0o077 == 0


def test_a_typed_key_can_stay_in_a_variable(here: Terminal) -> None:
    with serving(listing("m-one", key="sk-hush")) as served, the_menu(here) as screen:
        screen.type("a\n")
        screen.wait_for("Enter goes back")
        screen.type(f"{served.base_url}\n")
        screen.wait_for("Enter: none)")
        screen.type("sk-hush\n")
        screen.wait_for("Which one? ›")
        screen.type("\n")
        screen.wait_for("1 or 2 ›")
        screen.type("1\n")
        screen.wait_for("Name of the variable")
        screen.type("MY_OWN_KEY\n")
        screen.wait_for("export MY_OWN_KEY=…")
        screen.wait_for("Write it?")
        screen.type("y\n")
        screen.wait_for("Written:")
        assert screen.leave() == 0
    assert written(here)["api_key_env"] == "MY_OWN_KEY"
    assert "hush" not in (here.data_dir / "rondo.toml").read_text()


def test_hundreds_of_models_are_shown_a_page_at_a_time(here: Terminal) -> None:
    names = [f"vendor{n % 9}/model-{n}" for n in range(300)]
    with (
        serving(listing(*names)) as served,
        the_menu(here, OPENAI_API_KEY="sk-x", OPENAI_BASE_URL=served.base_url) as screen,
    ):
        screen.type("openai\n")
        screen.wait_for("300 models, 1 to 15:")
        screen.wait_for("Which one? ›")
        assert "model-16" not in screen.shown
        screen.type("\n")
        screen.wait_for("300 models, 16 to 30:")
        screen.wait_for("Which one? ›")
        screen.type("model-29 vendor2\n")
        screen.wait_for("3 models with “model-29 vendor2”:")
        screen.wait_for("Which one? ›")
        screen.type("nothing like it\n")
        screen.wait_for("No name has “nothing like it” in it.")
        screen.wait_for("Which one? ›")
        screen.type("vendor0/model-297\n")
        screen.wait_for('+model = "vendor0/model-297"')
        screen.wait_for('+api_key_env = "OPENAI_API_KEY"')
        screen.wait_for("Write it?")
        screen.type("y\n")
        screen.wait_for("The daemon needs OPENAI_API_KEY")
        assert screen.leave() == 0


def test_a_key_that_is_refused_leads_back_to_the_menu(here: Terminal) -> None:
    with (
        serving(listing("m", key="sk-right")) as served,
        the_menu(here, OPENAI_API_KEY="sk-wrong", OPENAI_BASE_URL=served.base_url) as screen,
    ):
        screen.type("1\n")
        screen.wait_for("refuses the key")
        screen.wait_for("Which one? ›")
        screen.type("q\n")
        screen.wait_for("Nothing was changed.")
        assert screen.leave() == 0


# --- the first chat


def test_a_no_at_the_first_chat_is_remembered(here: Terminal, local: Served) -> None:
    for _ in range(2):
        screen = typing(here, "chat", **at(local))
        if not (here.data_dir / "setup-offered").exists():
            screen.wait_for("Set one up now? [Y/n] ›")
            screen.type("n\n")
            screen.wait_for("This is not asked again.")
        screen.wait_for("The daemon is not running")
        assert screen.leave() == 1
    assert "Set one up" not in screen.shown
    assert local.requests == []


def test_enter_at_the_first_chat_sets_a_model_up(here: Terminal, local: Served) -> None:
    screen = typing(here, "chat")
    screen.wait_for("Set one up now? [Y/n] ›")
    screen.type("\n")
    screen.wait_for("Which one? ›")
    screen.type("a\n")  # by its address: the search is brief, and this machine may be busy
    screen.wait_for("Enter goes back) ›")
    screen.type(f"{local.base_url}\n")
    screen.wait_for("Enter: none) ›")
    screen.type("\n")
    screen.wait_for("Which one? ›")
    screen.type("qwen3:8b\n")
    screen.wait_for("Write it?")
    screen.type("\n")
    screen.wait_for("rondo serve")
    assert screen.leave() == 0
    assert written(here)["model"] == "qwen3:8b"
    again = typing(here, "chat")
    again.wait_for("The daemon is not running")
    assert again.leave() == 1


@pytest.mark.parametrize(("keys", "code"), [(CTRL_C, 130), ("\x04", 0)])
def test_leaving_the_question_decides_nothing(here: Terminal, keys: str, code: int) -> None:
    screen = typing(here, "chat")
    screen.wait_for("Set one up now? [Y/n] ›")
    screen.type(keys)
    assert screen.leave() == code
    assert not here.data_dir.exists()


def test_nothing_is_asked_where_a_model_is_named(here: Terminal) -> None:
    for variables in (
        {"OPENAI_API_KEY": "sk-x"},
        {"RONDO_LLM__PROVIDER": "embedded"},
        {"RONDO_LLM__MODEL": "qwen2.5-coder-1.5b"},
    ):
        screen = typing(here, "chat", **variables)
        screen.wait_for("The daemon is not running")
        assert screen.leave() == 1
        assert "Set one up" not in screen.shown


def test_nothing_is_asked_where_the_daemon_has_a_model(daemon: DaemonProcess) -> None:
    screen = typing(terminal_of(daemon), "chat")
    screen.wait_for("tells more.")
    screen.wait_for("› ")
    screen.type("\x04")
    screen.wait_for("go on without you")
    assert screen.leave() == 0
    assert "Set one up" not in screen.shown


def test_nothing_is_asked_without_a_terminal_nor_by_send(here: Terminal, tmp_path: Path) -> None:
    for arguments in (["chat"], ["send", "hello"]):
        result = here.run(*arguments, stdin="hello\n", RONDO_MODELS_DIR=str(tmp_path))
        assert not re.search("set one up", result.output, re.IGNORECASE)
        assert "not running" in result.stderr
