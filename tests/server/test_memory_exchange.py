"""Import and export over HTTP: streams of any length, between real daemons."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.tools.decorator import tool
from tests.support.memory.exchanging import lines, loop, turn
from tests.support.server.http_daemon import House, PatientLLM, running

pytestmark = pytest.mark.anyio

NDJSON = {"Content-Type": "application/x-ndjson"}


@tool(effect="read_only")
async def tide(place: str) -> str:
    """When the tide is high."""
    return f"{place}: 满潮 at 6:40 🌊"


def sailor() -> PatientLLM:
    return PatientLLM(
        'think: 先查潮汐。\ntext: Let me look.\ncall: tide {"place": "Brest"}',
        "text: At 6:40. 早上六点四十。",
        "text: You asked about the tide at Brest.",
    )


async def bring_in(house: House, data: bytes, **params: Any) -> dict[str, Any]:
    response = await house.client.post(
        "/v1/memory/import", content=data, headers=NDJSON, params=params
    )
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()
    return report


async def export(house: House, **params: Any) -> bytes:
    response = await house.client.get("/v1/memory/export", params=params)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert int(response.headers["Rondo-Run-Loops"]) == response.content.count(b"\n")
    return response.content


async def archived(house: House, count: int) -> None:
    with anyio.fail_after(20):
        while (await house.client.get("/v1/memory/stats")).json()["run_loops"] < count:
            await anyio.sleep(0.02)


async def found_by(house: House, query: str) -> list[tuple[str, str]]:
    body = {"query": query, "limit": 20}
    hits = (await house.client.post("/v1/memory/search", json=body)).json()["hits"]
    return [(hit["anchor"]["text"], hit["content"]) for hit in hits]


@pytest.mark.slow
async def test_what_one_daemon_exports_another_one_has_just_so(tmp_path: Path) -> None:
    async with running(tmp_path / "a", llm=sailor(), tools=[tide]) as here:
        first = await here.send("When is the tide high at Brest? 布雷斯特", metadata={"boat": "Ra"})
        await here.client.post(f"/v1/run-loops/{first['run_loop_id']}/complete")
        second = await here.send("What did I ask? 🐚", run_loop_id=first["run_loop_id"])
        await here.client.post(f"/v1/run-loops/{second['run_loop_id']}/complete")
        await archived(here, 2)
        out = await export(here)
        written = [json.loads(line) for line in out.splitlines()]
        assert written[1]["predecessor_id"] == written[0]["id"]
        looked, answered = written[0]["iterations"]
        assert looked["reasoning"] == "先查潮汐。"
        assert looked["tool_results"][0]["content"] == "Brest: 满潮 at 6:40 🌊"
        assert looked["metadata"] == {"boat": "Ra"}
        assert answered["user_message"] is None
        async with running(tmp_path / "b") as there:
            report = await bring_in(there, out)
            assert report["imported"] == 2
            await archived(there, 2)
            assert await export(there) == out
            for query in ("tide", "布雷斯特", "满潮", "What did I ask"):
                assert await found_by(there, query) == await found_by(here, query) != []
            shown = (await there.client.get(f"/v1/run-loops/{first['run_loop_id']}")).json()
            whole = (await here.client.get(f"/v1/run-loops/{first['run_loop_id']}")).json()
            for name in ("iterations", "goal", "status", "created_at", "completed_at"):
                assert shown[name] == whole[name]


async def test_an_imported_loop_is_shown_watched_forked_and_gone_on_with(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        await bring_in(house, lines(loop("old", turn("Who?", "Me."), turn("Why?", "Because."))))
        frames = await house.frames("GET", "/v1/run-loops/old/events")
        assert [frame.event for frame in frames] == ["run_loop.imported"]
        assert frames[0].data["data"]["run_loop"]["iterations"][0]["response"] == "Me."
        after = {"Last-Event-ID": str(frames[0].id)}
        response = await house.client.get("/v1/run-loops/old/events", headers=after)
        assert response.status_code == 204

        shown = await house.client.get("/v1/run-loops/old", params={"at": frames[0].id})
        assert [each["response"] for each in shown.json()["iterations"]] == ["Me.", "Because."]

        forked = (await house.client.post("/v1/run-loops/old/fork")).json()
        assert forked["status"] == "idle"
        assert [each["response"] for each in forked["iterations"]] == ["Me.", "Because."]
        answer = await house.send("And then?", run_loop_id=forked["id"])
        assert answer["run_loop_id"] == forked["id"]
        assert answer["response"] == "Answer to And then?"
        whole = await house.client.post(f"/v1/run-loops/{forked['id']}/complete")
        assert len(whole.json()["iterations"]) == 3
        assert "run_loop.completed" in {
            frame.event
            for frame in await house.frames("GET", f"/v1/run-loops/{forked['id']}/events")
        }

        later = await house.send("Take it up", run_loop_id="old")
        taken_up = (await house.client.get(f"/v1/run-loops/{later['run_loop_id']}")).json()
        assert taken_up["predecessor_id"] == "old"


async def test_a_failed_loop_that_was_imported_goes_on_when_a_message_names_it(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await bring_in(house, lines(loop("old", turn("Who?", "Me."), status="failed")))
        answer = await house.send("Go on", run_loop_id="old")
        assert answer["run_loop_id"] == "old"
        loops = (await house.client.get("/v1/run-loops/old")).json()
        assert [each["response"] for each in loops["iterations"]] == ["Me.", "Answer to Go on"]


@pytest.mark.slow
async def test_a_fork_has_the_words_of_a_loop_that_went_on_here_and_then_elsewhere(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        await bring_in(house, lines(loop("old", turn("Who?", "Me."), status="failed")))
        await house.send("Go on", run_loop_id="old")
        await house.client.post("/v1/run-loops/old/cancel")
        here = json.loads(await export(house))
        elsewhere = {**here, "iterations": [*here["iterations"], turn("There", "Too.")]}
        report = await bring_in(house, lines(elsewhere))
        assert report["extended"] == 1, report
        forked = (await house.client.post("/v1/run-loops/old/fork")).json()
        assert forked["status"] == "idle"
        said = ["Me.", "Answer to Go on", "Too."]
        assert [each["response"] for each in forked["iterations"]] == said
        await house.send("And on", run_loop_id=forked["id"])
        shown = (await house.client.get(f"/v1/run-loops/{forked['id']}")).json()
        assert [each["response"] for each in shown["iterations"]] == [*said, "Answer to And on"]


@pytest.mark.slow
async def test_a_long_import_streams_past_the_bound_of_bodies(tmp_path: Path) -> None:
    async with running(tmp_path, max_body_bytes=10_000) as house:
        sent = 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal sent
            for number in range(300):
                piece = lines(loop(f"l{number}", turn("word " * 200)))
                sent += len(piece)
                yield piece

        response = await house.client.post("/v1/memory/import", content=body(), headers=NDJSON)
        assert response.json()["imported"] == 300
        assert sent > 300_000
        refused = await house.client.post("/v1/memory/search", content=b" " * 10_001)
        assert refused.status_code == 413


@pytest.mark.slow
async def test_bad_lines_are_reported_by_their_numbers(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        report = await bring_in(house, lines("nonsense", loop("a"), "{}"))
        assert (report["imported"], report["failures"]) == (1, 2)
        assert [each["line"] for each in report["failed"]] == [1, 3]
        dry = await bring_in(house, lines(loop("a"), loop("b")), dry_run=True)
        assert (dry["unchanged"], dry["imported"], dry["dry_run"]) == (1, 1, True)
        assert (await house.client.get("/v1/run-loops/b")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-ndjson; charset=latin-1"}, 415),
        ({**NDJSON, "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/x-ndjson; charset=UTF-8"}, 200),
    ],
)
async def test_other_kinds_of_bodies_are_refused_in_words(
    house: House, headers: dict[str, str], status: int
) -> None:
    response = await house.client.post("/v1/memory/import", content=b"\n", headers=headers)
    assert response.status_code == status, response.text
    assert status == 200 or response.json()["advice"]


async def test_what_an_import_or_export_is_asked_for_is_checked(house: House) -> None:
    for params in ({"source": "Not A Name"}, {"dry_run": "perhaps"}):
        response = await house.client.post(
            "/v1/memory/import", content=b"", headers=NDJSON, params=params
        )
        assert response.status_code == 422
    missing = await house.client.get("/v1/memory/export", params={"run_loop_id": "nobody"})
    assert missing.status_code == 404
    without_token = await house.client.get(
        "/v1/memory/export", headers={"Authorization": "Bearer wrong"}
    )
    assert without_token.status_code == 401


async def test_those_who_watch_everything_hear_nothing_of_an_import(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as house,
        house.stream("GET", "/v1/events", params={"after": 0}) as frames,
    ):
        await bring_in(house, lines(*(loop(f"l{number}") for number in range(50))))
        await house.send("News")
        first = await anext(frames)
        assert first.event == "run_loop.started"


@pytest.mark.slow
async def test_an_upload_that_breaks_off_leaves_whole_batches_and_is_taken_up_again(
    tmp_path: Path,
) -> None:
    file = [loop(f"l{number}", turn(f"Number {number}")) for number in range(450)]
    async with running(tmp_path) as house:

        async def torn() -> AsyncIterator[bytes]:
            yield lines(*file[:420])
            yield lines(file[420])[:20]
            with anyio.fail_after(20):  # until some of it is in
                while not (await export(house)):
                    await anyio.sleep(0.02)
            raise RuntimeError("the line went dead")

        with pytest.raises(RuntimeError, match="dead"):
            await house.client.post("/v1/memory/import", content=torn(), headers=NDJSON)
        report = await bring_in(house, lines(*file))
        assert report["failures"] == 0
        assert report["unchanged"] >= 200
        assert report["imported"] + report["unchanged"] == 450
        assert len({json.loads(line)["id"] for line in (await export(house)).splitlines()}) == 450


@pytest.mark.slow
async def test_a_daemon_that_stops_does_not_wait_for_a_body_that_never_ends(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        port = int(house.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as socket:
            head = (
                "POST /v1/memory/import HTTP/1.1",
                f"Host: 127.0.0.1:{port}",
                f"Authorization: Bearer {house.token}",
                "Content-Type: application/x-ndjson",
                "Content-Length: 1000000",
                "",
                "",
            )
            await socket.send("\r\n".join(head).encode() + lines(loop("a")))
            await anyio.sleep(0.1)
            house.server.stop()
            with anyio.fail_after(15):
                assert b"503" in (await socket.receive()).partition(b"\r\n")[0]
