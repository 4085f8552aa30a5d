"""Forgetting over HTTP: a preview, a confirmation, and a receipt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.memory.secrets import traces
from tests.support.server.http_daemon import House, PatientLLM, running

pytestmark = pytest.mark.anyio


async def said(house: House, words: str, *, complete: bool = True) -> str:
    sent = await house.send(words)
    run_loop_id = str(sent["run_loop_id"])
    if complete:
        await house.client.post(f"/v1/run-loops/{run_loop_id}/complete")
    return run_loop_id


async def forget(house: House, status: int = 200, **body: Any) -> dict[str, Any]:
    response = await house.client.post("/v1/memory/forget", json=body)
    assert response.status_code == status, response.text
    preview: dict[str, Any] = response.json()
    return preview


@pytest.mark.slow
async def test_a_preview_removes_nothing_and_its_code_removes_just_that(tmp_path: Path) -> None:
    async with running(tmp_path, llm=PatientLLM()) as house:
        secret = await said(house, "Zwibbelquast hid the vermilion sextant. 朱砂六分仪")
        other = await said(house, "Rye bread wants sourdough.")
        preview = await forget(house, run_loop_ids=[secret])
        assert [each["id"] for each in preview["run_loops"]] == [secret]
        assert traces(tmp_path, "Zwibbelquast")
        refused = await forget(house, 409, run_loop_ids=[other], confirm=preview["confirm"])
        assert [each["id"] for each in refused["preview"]["run_loops"]] == [other]
        receipt = await forget(house, run_loop_ids=[secret], confirm=preview["confirm"])
        assert receipt["run_loops"] == [secret]
        with anyio.fail_after(30):
            while True:
                answer = await house.client.get("/v1/memory/forget/receipts")
                [kept_receipt] = answer.json()["receipts"]
                if not kept_receipt["pending"]:
                    break
                await anyio.sleep(0.02)
        assert traces(tmp_path, "Zwibbelquast", "vermilion", "朱砂六分仪") == []
        assert (await house.client.get(f"/v1/run-loops/{secret}")).status_code == 404
        assert (await house.client.get(f"/v1/run-loops/{other}")).status_code == 200
        again = await forget(house, 404, run_loop_ids=[secret])
        assert again["type"] == "urn:rondo:not-found"


async def test_an_active_run_loop_is_refused_in_words_and_stopped_when_wished(
    tmp_path: Path,
) -> None:
    llm = PatientLLM()
    async with running(tmp_path, llm=llm) as house:
        llm.hold()
        async with anyio.create_task_group() as group:
            asked = {"message": "Where is the vermilion sextant?"}
            group.start_soon(lambda: house.client.post("/v1/send", json=asked))
            run_loop_id = await house.loop_at_work()
            await _refused_then_stopped(house, run_loop_id)
            group.cancel_scope.cancel()


async def _refused_then_stopped(house: House, run_loop_id: str) -> None:
    preview = await forget(house, run_loop_ids=[run_loop_id])
    assert preview["confirm"] is None
    assert [each["id"] for each in preview["active"]] == [run_loop_id]
    assert "active" in preview["notice"]
    preview = await forget(house, run_loop_ids=[run_loop_id], stop=True)
    receipt = await forget(house, run_loop_ids=[run_loop_id], stop=True, confirm=preview["confirm"])
    assert receipt["run_loops"] == [run_loop_id]
    assert (await house.client.get("/v1/run-loops")).json()["run_loops"] == []


@pytest.mark.slow
async def test_a_follow_up_to_a_forgotten_run_loop_opens_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path, llm=PatientLLM()) as house:
        secret = await said(house, "Zwibbelquast hid the vermilion sextant.")
        follow_up = await house.send("And where?", run_loop_id=secret)
        preview = await forget(house, run_loop_ids=[secret])
        await forget(house, run_loop_ids=[secret], confirm=preview["confirm"])
        answer = await house.client.get(f"/v1/run-loops/{follow_up['run_loop_id']}")
        assert answer.json()["predecessor_id"] == secret
        going_on = await house.send("Well?", run_loop_id=follow_up["run_loop_id"])
        assert going_on["run_loop_id"] == follow_up["run_loop_id"]
        # The successor was shown the last words of the one before, which are gone there, too.
        with anyio.fail_after(30):
            while traces(tmp_path, "vermilion"):
                await anyio.sleep(0.05)


@pytest.mark.slow
async def test_answers_that_saw_the_words_are_named_and_go_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=PatientLLM()) as house:
        loop = await said(house, "Zwibbelquast hid the vermilion sextant.", complete=False)
        await house.send("And where?", run_loop_id=loop)
        anchors = [f"{loop}:0.0"]
        preview = await forget(house, anchors=anchors)
        seen = [*preview["answers"], *preview["saw"]]
        assert [(each["run_loop_id"], each["iteration"]) for each in seen] == [(loop, 1)]
        await forget(house, 409, anchors=anchors, with_answers=True, confirm=preview["confirm"])
        wish: dict[str, Any] = {"anchors": anchors, "with_all_that_saw": True}
        preview = await forget(house, **wish)
        receipt = await forget(house, **wish, confirm=preview["confirm"])
        assert receipt["copies"] == {loop: 1}
        left = (await house.client.get(f"/v1/run-loops/{loop}")).json()
        assert left["iterations"][1]["user_message"] == "And where?"
        assert left["iterations"][1]["response"] == "[forgotten]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"all": True, "query": "x"}, 422),
        ({"anchors": ["no anchor"]}, 400),
        ({"run_loop_ids": ["nobody's"]}, 404),
        ({"forget": "everything"}, 422),
    ],
)
async def test_a_request_that_cannot_be_meant_is_refused(
    tmp_path: Path, body: dict[str, Any], status: int
) -> None:
    async with running(tmp_path, llm=PatientLLM()) as house:
        await forget(house, status, **body)
