"""The whole life of a message, with nothing scripted: the embedded model, the bundled embedder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = {
    "RONDO_LLM__PROVIDER": "embedded",
    "RONDO_LLM__MODEL": "qwen2.5-coder-0.5b",  # whatever the machine would choose
    "RONDO_EMBEDDER__KIND": "sentence-transformers",
}


def post(client: httpx2.Client, path: str, **body: Any) -> dict[str, Any]:
    # The very first message may have to wait for the model to be fetched.
    response = client.post(path, json=body, timeout=600)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def remembered(client: httpx2.Client, run_loops: int) -> None:
    """Wait until so many loops are in long-term memory, each segment with its vector."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        stats = client.get("/v1/memory/stats").json()
        if (
            stats["run_loops"] >= run_loops
            and stats["pending"] == 0
            and not stats["index"]["notice"]
        ):
            return
        time.sleep(0.2)
    pytest.fail(f"not all is remembered: {stats}")


def test_a_message_is_answered_remembered_found_and_answered_with(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    with serving(folder, settings=SETTINGS) as daemon, daemon.client(folder) as client:
        cat = post(client, "/v1/send", message="Please remember: my cat is called Momo.")
        assert cat["status"] == "idle"
        assert cat["response"]
        daughter = post(client, "/v1/send", message="我女儿叫小雨，今年上小学一年级。")
        assert daughter["response"]
        assert daughter["route"]["reason"]
        loops = {cat["run_loop_id"], daughter["run_loop_id"]}
        for run_loop_id in loops:
            post(client, f"/v1/run-loops/{run_loop_id}/complete")
        remembered(client, len(loops))

    # Days later: another process, which has only its files to remember by.
    with serving(folder, settings=SETTINGS) as daemon, daemon.client(folder) as client:
        remembered(client, len(loops))
        response = post(client, "/v1/memory/search", query="What is my pet's name?")
        assert response["mode"] == "hybrid", response["notice"]
        cat_hit = next(hit for hit in response["hits"][:3] if "Momo" in hit["content"])
        chinese = post(client, "/v1/memory/search", query="孩子在哪里读书")
        assert any("小雨" in hit["content"] for hit in chinese["hits"][:2])
        around = post(client, "/v1/memory/expand", anchor=cat_hit["anchor"]["text"])
        assert around["run_loop"]["id"] in loops
        assert around["before"] or around["after"]

        asked = post(client, "/v1/send", message="What is the name of my cat?")
        events = client.get(f"/v1/run-loops/{asked['run_loop_id']}").json()
        assert events["iterations"][-1]["response"] == asked["response"]
        assert "Momo" in asked["response"]
