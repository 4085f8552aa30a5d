"""The menu of the setup: what stands in it, and what Enter takes."""

from __future__ import annotations

import pytest

from service.cli.setup.found_models import Found, Own
from service.cli.setup.model_menu import Entry, default_entry, sections
from service.cli.setup.setup_choice import Choice
from service.cli.setup.setup_questions import ask_address, candidates, whole_address
from service.config import LLMSettings
from service.llm.discovery.providers import (
    KeyFound,
    LocalServer,
    ModelList,
    OfferedModel,
    keys_found,
)
from service.models.catalog import known_model

OWN = (
    Own(known_model("qwen2.5-coder-1.5b"), is_here=False, is_default=False, shortage="it is slow"),
    Own(known_model("qwen2.5-coder-0.5b"), is_here=True, is_default=True, shortage=""),
)
KEYS = tuple(keys_found({"DEEPSEEK_API_KEY": "sk-x"}))


def server(*models: OfferedModel, wants_key: bool = False) -> LocalServer:
    offers = ModelList(models)
    return LocalServer("Ollama", "http://localhost:11434/v1", offers=offers, wants_key=wants_key)


def entries(
    *servers: LocalServer, keys: bool = False, now: LLMSettings | None = None
) -> list[Entry]:
    choices = Found(servers, KEYS if keys else (), OWN, None)
    menu = sections(choices, now or LLMSettings())
    return [entry for section in menu for entry in section.entries]


GOOD = OfferedModel("qwen3:8b", tools=True)
WORDS_ONLY = OfferedModel("gemma2:2b", tools=False)


@pytest.mark.parametrize(
    ("servers", "keys", "taken"),
    [
        ((server(WORDS_ONLY, GOOD),), True, "qwen3:8b"),
        ((server(WORDS_ONLY),), True, "DeepSeek"),
        ((server(WORDS_ONLY),), False, "gemma2:2b"),
        ((server(wants_key=True),), False, "qwen2.5-coder-0.5b"),
        ((server(),), False, "qwen2.5-coder-0.5b"),
        ((), False, "qwen2.5-coder-0.5b"),
    ],
)
def test_enter_takes_the_best_that_works_at_once(
    servers: tuple[LocalServer, ...], keys: bool, taken: str
) -> None:
    assert default_entry(entries(*servers, keys=keys)).row.name == taken


def test_enter_keeps_what_is_in_use() -> None:
    now = LLMSettings(base_url="http://127.0.0.1:11434/v1/", model="gemma2:2b")
    taken = default_entry(entries(server(GOOD, WORDS_ONLY), keys=True, now=now))
    assert taken.row.name == "gemma2:2b"
    assert taken.row.note.endswith("in use")


def test_many_models_of_a_server_are_one_entry() -> None:
    many = server(*(OfferedModel(f"m{n}") for n in range(50)))
    first = entries(many)[0]
    assert first.row.name == "50 models"
    assert first.means is many


def test_where_nothing_is_found_it_says_how_to_get_a_model() -> None:
    first, *_ = sections(Found((), (), OWN, None), LLMSettings())
    assert "https://ollama.com" in first.heading
    with_key, *_ = sections(Found((), KEYS, OWN, None), LLMSettings())
    assert isinstance(with_key.entries[0].means, KeyFound)


def test_a_model_that_the_machine_does_not_carry_says_why() -> None:
    assert "Not for this machine: it is slow." in entries()[0].row.words


def test_a_server_without_a_model_says_how_to_get_one() -> None:
    first, *_ = sections(Found((server(),), (), OWN, None), LLMSettings())
    assert "ollama pull" in first.heading


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("http://x:1/v1/", "http://x:1/v1"),
        ("10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1"),
        ("gpu-box:8000", "http://gpu-box:8000"),
        ("api.example.com/v1/models", "https://api.example.com/v1"),
    ],
)
def test_an_address_is_taken_as_people_write_it(typed: str, address: str) -> None:
    assert whole_address(typed) == address


def test_an_address_without_a_path_is_tried_with_the_usual_one_first() -> None:
    assert candidates("http://x:1") == ["http://x:1/v1", "http://x:1"]
    assert candidates("http://x:1/api") == ["http://x:1/api"]


def test_a_provider_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt="": "OpenRouter")
    place = ask_address()
    assert place is not None
    assert not isinstance(place, str)
    assert place.base_url == "https://openrouter.ai/api/v1"


def test_a_key_is_not_in_what_is_printed_of_a_choice() -> None:
    assert "sk-hush" not in repr(Choice("somewhere", "m", api_key="sk-hush"))
