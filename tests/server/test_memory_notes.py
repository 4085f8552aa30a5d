"""Notes over HTTP, and as the model is told of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_options import AgentOptions
from service.agent.consolidation.consolidation_worker import ConsolidationOptions
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta
from service.memory.ledger.notes import NewSentence, NewSentences
from service.tools.builtins.memory_tools import memory_search_tool
from tests.support.server.http_daemon import House, PatientLLM, running
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio

HERON = "The heron nests by the old mill."
OPTIONS = AgentOptions(
    auto_classify=False,
    max_retries=0,
    linger_seconds=0,
    consolidation=ConsolidationOptions(idle_seconds=0.02, min_new_segments=1, first_pause=0.02),
)


class NotingLLM(PatientLLM):
    """Answers as told, and notes that the first passage says something about herons."""

    def __init__(self) -> None:
        super().__init__(f"text: {HERON}")
        self.notes = [
            {
                "kind": "topic",
                "subject": "heron",
                "sentences": [{"text": HERON, "passages": [2], "replaces": []}],
            }
        ]

    async def stream(
        self, messages: Sequence[Message], **options: Any
    ) -> AsyncGenerator[StreamPart]:
        if options.get("response_schema"):
            yield TextDelta(json.dumps({"notes": self.notes}))
            return
        async with aclosing(super().stream(messages, **options)) as parts:
            async for part in parts:
                yield part


async def noted(house: House) -> dict[str, Any]:
    """Say something, and wait until there is a note on it."""
    await house.send("Where does the heron nest?")
    with anyio.fail_after(20):
        while not (listing := (await house.client.get("/v1/memory/notes")).json())["notes"]:
            await anyio.sleep(0.02)
    listed: dict[str, Any] = listing
    return listed


async def test_a_note_is_listed_found_counted_and_removed(tmp_path: Path) -> None:
    async with running(tmp_path, llm=NotingLLM(), options=OPTIONS) as house:
        listed = await noted(house)
        [note] = listed["notes"]
        assert (note["kind"], note["subject"]) == ("topic", "heron")
        assert listed["consolidation"]["enabled"] is True
        assert listed["consolidation"]["tokens_today"] > 0
        [anchor] = note["sentences"][0]["anchors"]
        around = await house.client.post("/v1/memory/expand", json={"anchor": anchor["text"]})
        assert around.status_code == 200
        assert HERON in json.dumps(around.json())
        response = await house.client.post("/v1/memory/search", json={"query": "herons"})
        assert response.json()["notes"] == [note]
        assert (await house.client.get("/v1/memory/stats")).json()["notes"] == 1
        usage = (await house.client.get("/v1/usage?by=purpose")).json()
        assert "consolidation" in {line["key"] for line in usage["lines"]}
        removed = await house.client.delete(f"/v1/memory/notes/{note['id']}")
        assert removed.json() == note
        assert (await house.client.get("/v1/memory/notes")).json()["notes"] == []
        again = await house.client.delete(f"/v1/memory/notes/{note['id']}")
        assert again.status_code == 404
        assert again.json()["advice"]


@pytest.mark.slow
async def test_a_note_of_another_owner_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path, llm=NotingLLM(), options=OPTIONS) as house:
        [note] = (await noted(house))["notes"]
        notes = house.agent.memory.long_term.notes
        assert notes.of("eve") == []
        sent = [event async for event in house.agent.send("Herons.", owner="eve")]
        assert sent
        with anyio.fail_after(20):
            while not (cited := notes.unread("eve", limit=1)):
                if notes.of("eve"):
                    break
                await anyio.sleep(0.02)
        notes.write(
            "eve", [NewSentences("topic", "mine", (NewSentence("Mine.", tuple(cited)),))], read=[]
        )
        [hers] = [each for each in notes.of("eve") if each.subject == "mine"]
        refused = await house.client.delete(f"/v1/memory/notes/{hers.id}")
        assert refused.status_code == 404
        assert hers in notes.of("eve")
        assert [each["id"] for each in (await house.client.get("/v1/memory/notes")).json()["notes"]]
        assert note["id"] not in {each.id for each in notes.of("eve")}


async def test_where_it_is_switched_off_it_says_so(house: House) -> None:
    listing = (await house.client.get("/v1/memory/notes")).json()
    assert listing["notes"] == []
    assert listing["consolidation"]["enabled"] is False
    assert listing["consolidation"]["state"] == "off"


async def test_the_stats_tell_why_no_notes_are_written(tmp_path: Path) -> None:
    llm = NotingLLM()
    llm.notes = ["nonsense"]  # type: ignore[list-item]
    async with running(tmp_path, llm=llm, options=OPTIONS) as house:
        await house.send("Where does the heron nest?")
        with anyio.fail_after(20):
            while not (stats := (await house.client.get("/v1/memory/stats")).json())[
                "notes_problem"
            ]:
                await anyio.sleep(0.02)
        assert "not of the asked form" in stats["notes_problem"]
        assert stats["notes"] == 0


async def test_the_model_is_told_of_notes_as_notes_with_their_anchors(tmp_path: Path) -> None:
    async with running(tmp_path, llm=NotingLLM(), options=OPTIONS) as house:
        [note] = (await noted(house))["notes"]
        tool = memory_search_tool(house.agent.memory.long_term)
        words = (await result_of(tool, query="herons")).content
        anchor = note["sentences"][0]["anchors"][0]["text"]
        assert words.index("Found in memory") < words.index("Notes on this")
        assert f"- {HERON} [{anchor}]" in words
