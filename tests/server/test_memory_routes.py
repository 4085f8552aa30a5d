"""Long-term memory over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.server.http_daemon import House, PatientLLM, running

pytestmark = pytest.mark.anyio


async def remembered(house: House) -> None:
    """Say something, and wait until it is in long-term memory."""
    sent = await house.send("Where does the heron nest? 苍鹭在哪里筑巢?")
    await house.client.post(f"/v1/run-loops/{sent['run_loop_id']}/complete")
    with anyio.fail_after(20):
        while (await house.client.get("/v1/memory/stats")).json()["run_loops"] == 0:
            await anyio.sleep(0.02)


def heron() -> PatientLLM:
    return PatientLLM("text: By the old mill. 在老磨坊旁边。")


async def search(house: House, query: str, **more: Any) -> dict[str, Any]:
    response = await house.client.post("/v1/memory/search", json={"query": query, **more})
    assert response.status_code == 200, response.text
    results: dict[str, Any] = response.json()
    return results


async def test_what_was_said_is_found_in_both_languages_and_can_be_expanded(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=heron()) as house:
        await remembered(house)
        for query in ("heron", "筑巢"):
            results = await search(house, query, explain=True)
            assert results["mode"] == "lexical"
            assert results["notice"]
            hit = results["hits"][0]
            assert "heron" in hit["content"]
            assert hit["scores"] is not None
        for anchor in (hit["anchor"], hit["anchor"]["text"]):
            response = await house.client.post("/v1/memory/expand", json={"anchor": anchor})
            context = response.json()
            assert context["focus"]["content"] == hit["content"]
            assert "old mill" in context["after"][0]["content"]
            assert context["run_loop"]["goal"].startswith("Where does the heron")


async def test_several_anchors_give_windows_that_are_joined_where_they_touch(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=heron()) as house:
        await remembered(house)
        anchor = (await search(house, "筑巢"))["hits"][0]["anchor"]
        answer = {**anchor, "segment_index": anchor["segment_index"] + 1}
        for body, count in (
            ({"anchors": [anchor["text"], anchor], "before": 0, "after": 0}, 1),
            ({"anchors": [answer, anchor["text"]], "before": 0, "after": 0}, 1),
            ({"anchors": [answer], "unit": "iterations", "before": 0, "after": 0}, 1),
        ):
            response = await house.client.post("/v1/memory/expand", json=body)
            assert response.status_code == 200, response.text
            windows = response.json()["windows"]
            assert len(windows) == count
            assert windows[0]["run_loop"]["id"] == anchor["run_loop_id"]
            assert windows[0]["successor_ids"] == []
        assert len(windows[0]["segments"]) == 2, "an iteration is given whole"
        assert [each["content"] for each in windows[0]["focus"]] == [
            "By the old mill. 在老磨坊旁边。"
        ]


async def test_an_anchor_of_a_loop_that_is_still_open_can_be_expanded(tmp_path: Path) -> None:
    async with running(tmp_path, llm=heron()) as house:
        sent = await house.send("Where does the heron nest?")
        body = {"anchor": f"{sent['run_loop_id']}:0.0", "max_tokens": 1000}
        context = (await house.client.post("/v1/memory/expand", json=body)).json()
        assert context["run_loop"]["status"] == "idle"
        assert "old mill" in context["after"][0]["content"]


async def test_a_search_can_be_narrowed(tmp_path: Path) -> None:
    async with running(tmp_path, llm=heron()) as house:
        await remembered(house)
        query = "heron mill"
        results = await search(house, query, types=["response"])
        assert {hit["anchor"]["segment_type"] for hit in results["hits"]} == {"response"}
        assert (await search(house, query, since="2999-01-01T00:00:00Z"))["hits"] == []
        assert (await search(house, query, until="2020-01-01"))["hits"] == []
        assert (await search(house, query, run_loop_id="another"))["hits"] == []
        assert len((await search(house, query, limit=1))["hits"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("search", {"query": " "}, 422),
        ("search", {"query": "x", "limit": 0}, 422),
        ("search", {"query": "x", "limit": 101}, 422),
        ("search", {"query": "x", "types": ["thought"]}, 422),
        ("search", {"query": "x", "typos": ["response"]}, 422),
        ("search", {"query": "x", "since": "yesterday"}, 422),
        ("expand", {"anchor": "nonsense"}, 400),
        ("expand", {"anchor": "unknown:0.0"}, 404),
        ("expand", {"anchor": "a:0.0", "anchors": ["a:0.0"]}, 422),
        ("expand", {}, 422),
        ("expand", {"anchors": []}, 422),
        ("expand", {"anchor": "a:0.0", "before": -1}, 422),
        ("expand", {"anchor": "a:0.0", "unit": "pages"}, 422),
        ("expand", {"anchor": "a:0.0", "max_tokens": 0}, 422),
        ("expand", {"anchors": ["unknown:0.0"]}, 404),
        ("expand", {"anchors": ["a:0.0"] * 101}, 422),
    ],
)
async def test_a_question_that_makes_no_sense_is_told_why(
    house: House, path: str, body: dict[str, Any], status: int
) -> None:
    response = await house.client.post(f"/v1/memory/{path}", json=body)
    assert response.status_code == status, response.text
    problem = response.json()
    assert problem["detail"]
    assert problem["advice"]


async def test_a_search_can_be_narrowed_in_every_way(tmp_path: Path) -> None:
    async with running(tmp_path, llm=heron()) as house:
        body = {"message": "Where does the heron nest?", "metadata": {"project": "lisbon"}}
        sent = (await house.client.post("/v1/send", json=body)).json()
        loop = sent["run_loop_id"]
        await house.client.post(f"/v1/run-loops/{loop}/complete")
        with anyio.fail_after(20):
            while not (await search(house, "heron"))["hits"]:
                await anyio.sleep(0.02)
        for narrowed, finds in (
            ({"metadata": {"project": "lisbon"}}, True),
            ({"metadata": {"project": "porto"}}, False),
            ({"run_loop_id": loop}, True),
            ({"without_run_loop_id": loop}, False),
            ({"types": ["user_message"], "fold": False, "max_tokens": 100}, True),
            ({"until": "2001-01-01"}, False),
        ):
            assert bool((await search(house, "heron", **narrowed))["hits"]) is finds, narrowed
        unranked = await search(house, "heron", rerank=True)
        assert "no reranker is configured" in unranked["notice"]
        assert unranked["hits"]
