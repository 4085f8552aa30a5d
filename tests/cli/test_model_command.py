"""Choosing a model in the terminal: of a real daemon that is configured with two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.cli.daemon.daemon_process import DaemonProcess
from tests.support.cli.commands import Terminal
from tests.support.cli.screen import Screen
from tests.support.cli.scripted_daemon import SCRIPT, daemon_with, terminal_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("models")
    large = folder / "large.txt"
    large.write_text("== default\ntext: The large one heard: {message}\n")
    variables = {
        "RONDO_MODELS__LARGE__PROVIDER": "scripted",
        "RONDO_MODELS__LARGE__MODEL": str(large),
        # Nothing listens there.
        "RONDO_MODELS__FAR__PROVIDER": "openai",
        "RONDO_MODELS__FAR__BASE_URL": "http://127.0.0.1:9/v1",
        "RONDO_MODELS__FAR__MODEL": "far-1",
        "RONDO_MODELS__FAR__FALLBACK": "large",
    }
    with daemon_with(folder, SCRIPT, **variables) as running:
        yield running


@pytest.fixture
def terminal(daemon: DaemonProcess) -> Terminal:
    return terminal_of(daemon)


def test_send_names_the_model_that_answers(terminal: Terminal) -> None:
    assert terminal.run("send", "你好", "--model", "large").stdout == "The large one heard: 你好\n"
    assert terminal.run("send", "你好", "--new").stdout == "You said: 你好\n"


def test_a_model_that_is_not_there_is_told_with_those_that_are(terminal: Terminal) -> None:
    refused = terminal.run("send", "hello", "--model", "lrage")
    assert refused.exit_code == 1
    assert "default, large, far" in refused.stderr.replace("\n", " ")


def test_a_model_that_is_down_is_told_and_its_fallback_answers(terminal: Terminal) -> None:
    result = terminal.run("send", "hello", "--model", "far")
    assert result.stdout == "The large one heard: hello\n"
    assert "The model large is asked instead of far." in result.stderr.replace("\n", " ")


def test_the_chat_lists_models_and_the_chosen_one_answers_from_then_on(
    terminal: Terminal,
) -> None:
    screen = Screen(terminal, "chat")
    screen.wait_for("› ")
    screen.type("/model\n")
    screen.wait_for("* default: the script ")
    screen.wait_for("large: the script ")
    screen.wait_for("far: far-1 at http://127.0.0.1:9/v1")
    screen.type("/model lrage\n")
    screen.wait_for("no model 'lrage'")
    screen.type("/model large\n")
    screen.wait_for("From now on large answers")
    screen.type("good day\n")
    screen.wait_for("The large one heard: good day")
    screen.wait_for("› ")
    screen.type("/model default\n")
    screen.wait_for("From now on default answers")
    screen.type("good night\n")
    screen.wait_for("You said: good night")
    screen.wait_for("› ")
    screen.type("\x04")
    assert screen.leave() == 0
