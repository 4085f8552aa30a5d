"""Lists of models, as the many endpoints tell them."""

from __future__ import annotations

import pytest

from service.domain.errors import LLMConnectionError, LLMStatusError
from service.llm.discovery.listing import list_models, read_list
from service.llm.discovery.providers import PROVIDERS, keys_found
from tests.support.model_servers import Asked, listing, serving

anyio_test = pytest.mark.anyio


@pytest.mark.parametrize(
    ("body", "names", "others"),
    [
        ({"data": [{"id": "gpt-5"}, {"id": "text-embedding-3-large"}]}, ["gpt-5"], 1),
        ([{"id": "a/b", "type": "chat"}, {"id": "a/c", "type": "image"}], ["a/b"], 1),
        ({"models": [{"name": "m"}]}, ["m"], 0),
        ({"data": [{"id": "models/gemini-2.5-flash"}]}, ["gemini-2.5-flash"], 0),
        (
            {
                "data": [
                    {"id": "mistral-small", "capabilities": {"completion_chat": True}},
                    {"id": "mistral-x", "capabilities": {"completion_chat": False}},
                ]
            },
            ["mistral-small"],
            1,
        ),
        (
            {"data": [{"id": "o/draws", "architecture": {"output_modalities": ["image"]}}]},
            [],
            1,
        ),
        ({"data": [{"id": "m"}, {"id": "m"}, {}, 7, {"id": 7}]}, ["m"], 0),
    ],
)
def test_models_for_chatting_are_told_from_others(
    body: object, names: list[str], others: int
) -> None:
    offered = read_list(body)
    assert offered is not None
    assert [model.name for model in offered.models] == names
    assert offered.others == others


@pytest.mark.parametrize("body", [None, 3, "words", {}, {"data": {"id": "m"}}, {"error": "x"}])
def test_what_is_no_list_is_none(body: object) -> None:
    assert read_list(body) is None


@anyio_test
async def test_an_endpoint_is_asked_with_the_key() -> None:
    with serving(listing("m", key="sk-right", context_length=8000)) as served:
        offered = await list_models(served.base_url, "sk-right")
    assert [(model.name, model.context_tokens) for model in offered.models] == [("m", 8000)]


@anyio_test
async def test_anthropic_is_asked_in_its_own_way() -> None:
    def answer(asked: Asked) -> None:
        is_right = asked.headers["x-api-key"] == "sk-ant" and asked.headers["anthropic-version"]
        entry = {"type": "model", "id": "claude-x", "display_name": "Claude X"}
        asked.reply({"data": [entry]} if is_right else {}, status=200 if is_right else 401)

    with serving(answer) as served:
        root = served.base_url.removesuffix("/v1")
        offered = await list_models(root, "sk-ant", vendor="anthropic")
    assert [model.name for model in offered.models] == ["claude-x"]


@anyio_test
@pytest.mark.parametrize(
    ("key", "words"), [("sk-wrong-hush", "refuses the key"), ("", "wants a key")]
)
async def test_a_wrong_key_is_told_and_not_shown(key: str, words: str) -> None:
    with serving(listing("m", key="sk-right")) as served, pytest.raises(LLMStatusError) as raised:
        await list_models(served.base_url, key)
    problem = raised.value.problem().in_words()
    assert words in problem
    assert "hush" not in problem


@anyio_test
async def test_a_redirect_is_told_with_the_address_and_not_followed() -> None:
    with serving(listing("m")) as other:

        def answer(asked: Asked) -> None:
            asked.reply("", status=308, Location=f"http://localhost:{other.port}/v1/models")

        with serving(answer) as served, pytest.raises(LLMStatusError) as raised:
            await list_models(served.base_url, "sk-hush")
        assert other.requests == []
    assert f"http://localhost:{other.port}/v1" in raised.value.advice


@anyio_test
@pytest.mark.parametrize("status", [200, 404, 429, 500])
async def test_each_refusal_has_words(status: int) -> None:
    def answer(asked: Asked) -> None:
        asked.reply("<html></html>", status=status)

    with serving(answer) as served, pytest.raises(LLMStatusError) as raised:
        await list_models(served.base_url, "")
    assert raised.value.detail
    assert raised.value.advice


@anyio_test
async def test_an_address_where_nobody_listens_is_told() -> None:
    with pytest.raises(LLMConnectionError, match="nothing listens at"):
        await list_models("http://127.0.0.1:1/v1", "")


@anyio_test
async def test_an_address_that_is_none_is_told() -> None:
    for wrong in ("http://[half/v1", "localhost:8000", "ftp://x/v1"):
        with pytest.raises(LLMConnectionError, match="no address such as"):
            await list_models(wrong, "")


def test_keys_are_found_by_the_variables_of_their_providers() -> None:
    keys = keys_found(
        {
            "DEEPSEEK_API_KEY": "sk-1",
            "GOOGLE_API_KEY": "sk-2",
            "OPENAI_API_KEY": "",
            "ANTHROPIC_API_KEY": "sk-3",
            "ANTHROPIC_BASE_URL": "https://proxy.example",
        }
    )
    assert [(each.provider.id, each.variable, each.base_url) for each in keys] == [
        ("anthropic", "ANTHROPIC_API_KEY", "https://proxy.example"),
        (
            "gemini",
            "GOOGLE_API_KEY",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        ("deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1"),
    ]
    assert "sk-" not in repr(keys)


def test_every_provider_can_be_told_from_the_others_and_has_its_source() -> None:
    assert len({each.id for each in PROVIDERS}) == len(PROVIDERS)
    assert len({each.base_url for each in PROVIDERS}) == len(PROVIDERS)
    assert all(each.source.startswith("https://") and each.key_variables for each in PROVIDERS)
    assert not any(each.base_url.endswith("/") for each in PROVIDERS)
