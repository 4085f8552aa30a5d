"""What memory has that answers, beside a small model's answer: over HTTP and in a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from tests.support.agent.agents import FunctionLLM, echo
from tests.support.cli.commands import Terminal
from tests.support.server.http_daemon import House, running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOLD = "Please remember: the code of my bike lock is 4817."
ASKED = "What is the code of my bike lock?"


class SmallLLM(FunctionLLM):
    parameters = 5e8

    def __init__(self) -> None:
        super().__init__(echo)


async def remember(house: House) -> None:
    sent = await house.send(TOLD)
    await house.client.post(f"/v1/run-loops/{sent['run_loop_id']}/complete")
    with anyio.fail_after(60):
        while True:
            stats = (await house.client.get("/v1/memory/stats")).json()
            if stats["embedded"] >= 2 and not stats["pending"]:
                return
            await anyio.sleep(0.05)


async def test_the_words_that_answer_come_with_the_answer(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    async with running(tmp_path, llm=SmallLLM(), embedder=bundled) as house:
        await remember(house)
        [piece] = (await house.send(ASKED, run_loop_id="new"))["remembered"]
        assert piece["content"] == TOLD
        shown = await house.client.post("/v1/memory/expand", json={"anchor": piece["anchor"]})
        assert TOLD in shown.text
        linked = await house.client.get(piece["href"])
        assert linked.json() == shown.json()
        assert piece["title"] == TOLD
        unknown = await house.client.get("/v1/memory/expand", params={"anchor": "nothing:0.0"})
        assert unknown.status_code == 404
        stranger = {"Authorization": "Bearer no"}
        assert (await house.client.get(piece["href"], headers=stranger)).status_code == 401
        assert (await house.send("Thanks a lot!", run_loop_id="new"))["remembered"] == []
        terminal = Terminal(tmp_path, int(house.url.rsplit(":", 1)[1]))
        ran = await anyio.to_thread.run_sync(terminal.run, "send", "--new", ASKED)
        assert f"“{TOLD}”" in ran.stderr
        assert f"rondo memory expand {piece['anchor']}" in ran.stderr
        assert TOLD not in ran.stdout
        ran = await anyio.to_thread.run_sync(terminal.run, "send", "--new", "--json", ASKED)
        assert [each["content"] for each in json.loads(ran.stdout)["remembered"]] == [TOLD]


async def test_what_is_forgotten_is_shown_no_more(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    async with running(tmp_path, llm=SmallLLM(), embedder=bundled) as house:
        await remember(house)
        asked = await house.send(ASKED, run_loop_id="new")
        [piece] = asked["remembered"]
        loop_id = piece["anchor"].partition(":")[0]
        wish = {"run_loop_ids": [loop_id]}
        preview = (await house.client.post("/v1/memory/forget", json=wish)).json()
        confirmed = {**wish, "confirm": preview["confirm"]}
        done = await house.client.post("/v1/memory/forget", json=confirmed)
        assert done.status_code == 200, done.text
        again = await house.send(ASKED, run_loop_id="new")
        assert TOLD not in json.dumps(again)
        events = (await house.client.get(f"/v1/run-loops/{asked['run_loop_id']}")).text
        assert TOLD not in events
