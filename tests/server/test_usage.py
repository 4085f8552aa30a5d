"""What was used, over HTTP: by day, model, purpose or run loop, and of one run loop."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from service.agent.agent_options import AgentOptions
from service.domain.spend import SpendCaps
from service.domain.usage import Prices
from service.loop.brain import Limits
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio

OPTIONS = AgentOptions(
    auto_classify=False, max_retries=0, prices=Prices(input=2, output=8, currency="EUR")
)


@pytest.mark.slow
async def test_usage_is_summed_up_as_asked_with_totals(tmp_path: Path) -> None:
    llm = PatientLLM("text: One\nusage: 1000 100", "text: Two\nusage: 50 5")
    async with running(tmp_path, llm=llm, options=OPTIONS) as house:
        first = await house.send("First 第一")
        await house.send("Second")

        report = (await house.client.get("/v1/usage", params={"by": "run_loop"})).json()
        assert [line["goal"] for line in report["lines"]] == ["First 第一", "Second"]
        assert report["lines"][0]["key"] == first["run_loop_id"]
        assert report["currency"] == "EUR"
        assert report["total"]["calls"] == 2
        assert report["total"]["input_tokens"] == 1050
        assert report["total"]["cost"] == pytest.approx((1050 * 2 + 105 * 8) / 1e6)
        assert report["more"] is False

        by_day = (await house.client.get("/v1/usage")).json()
        assert by_day["by"] == "day"
        assert [line["calls"] for line in by_day["lines"]] == [2]
        by_model = (await house.client.get("/v1/usage?by=model")).json()
        assert [line["key"] for line in by_model["lines"]] == ["scripted"]

        few = (await house.client.get("/v1/usage?by=run_loop&limit=1")).json()
        assert (len(few["lines"]), few["more"], few["total"]["calls"]) == (1, True, 2)


@pytest.mark.slow
async def test_a_time_can_be_asked_for_and_nonsense_is_refused(tmp_path: Path) -> None:
    llm = PatientLLM("text: One\nusage: 1000 100")
    async with running(tmp_path, llm=llm, options=OPTIONS) as house:
        await house.send("First")
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        none = (await house.client.get("/v1/usage", params={"since": tomorrow})).json()
        assert none["lines"] == []
        assert none["total"]["calls"] == 0
        some = (await house.client.get("/v1/usage", params={"until": tomorrow})).json()
        assert some["total"]["calls"] == 1
        for query in ("by=week", "since=yesterday", "limit=0", "limit=1001"):
            refused = await house.client.get(f"/v1/usage?{query}")
            assert refused.status_code == 422, query
            assert query.partition("=")[0] in refused.json()["detail"]


async def test_a_run_loop_tells_what_it_has_used(tmp_path: Path) -> None:
    llm = PatientLLM("text: One\nusage: 1000 100", "text: Two\nusage: 50 5")
    async with running(tmp_path, llm=llm, options=OPTIONS) as house:
        sent = await house.send("First")
        await house.send("More", run_loop_id=sent["run_loop_id"])
        details = (await house.client.get(f"/v1/run-loops/{sent['run_loop_id']}")).json()
    assert details["usage"]["input_tokens"] == 1050
    assert details["usage"]["output_tokens"] == 105
    assert details["usage"]["cost"] == pytest.approx((1050 * 2 + 105 * 8) / 1e6)
    assert details["usage"]["currency"] == "EUR"


@pytest.mark.slow
async def test_without_prices_there_is_no_currency_and_no_cost(tmp_path: Path) -> None:
    async with running(tmp_path, llm=PatientLLM("text: One\nusage: 10 1")) as house:
        await house.send("First")
        report = (await house.client.get("/v1/usage")).json()
    assert report["currency"] is None
    assert report["total"]["cost"] is None
    assert report["total"]["calls_without_cost"] == 1


async def test_caps_are_told_with_what_is_reserved_and_stop_a_loop_in_words(
    tmp_path: Path,
) -> None:
    caps = SpendCaps(daily_tokens=60_000, monthly_cost=5)
    options = replace(OPTIONS, spend=caps)
    llm = PatientLLM("text: One\nusage: 59990 10")
    async with running(tmp_path, llm=llm, options=options) as house:
        llm.hold()
        async with anyio.create_task_group() as group:
            group.start_soon(house.send, "First")
            with anyio.fail_after(10):
                while True:
                    told = (await house.client.get("/v1/usage")).json()["spend"]
                    if told["day"]["tokens_reserved"]:
                        break
            assert told["day"]["tokens_cap"] == 60_000
            assert told["day"]["tokens_used"] == 0
            assert told["month"]["cost_reserved"] > 8192 * 8 / 1e6
            llm.release()
        told = (await house.client.get("/v1/usage")).json()["spend"]
        assert (told["day"]["tokens_used"], told["day"]["tokens_reserved"]) == (60_000, 0)
        assert told["month"]["cost_used"] == pytest.approx((59_990 * 2 + 10 * 8) / 1e6)
        assert told["month"]["cost_cap"] == 5
        refused = await house.client.post("/v1/send", json={"message": "Second"})
    problem = refused.json()
    assert problem["type"] == "urn:rondo:budget"
    assert "60,000 tokens of 60,000" in problem["detail"]
    assert "spend.daily_tokens" in problem["advice"]


async def test_a_loop_that_is_over_its_budget_is_a_problem_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    options = AgentOptions(auto_classify=False, max_retries=0, limits=Limits(budget_tokens=100))
    llm = PatientLLM("text: One\nusage: 90 20")
    async with running(tmp_path, llm=llm, options=options) as house:
        sent = await house.send("First")
        body = {"message": "More", "run_loop_id": sent["run_loop_id"]}
        refused = await house.client.post("/v1/send", json=body)
    problem = refused.json()
    assert refused.status_code == 502
    assert problem["type"] == "urn:rondo:budget"
    assert "110 tokens of 100" in problem["detail"]
    assert "agent.budget_tokens" in problem["advice"]
