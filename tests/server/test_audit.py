"""The audit trail over HTTP: pages of an owner's own calls, and refusals in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.agent.agent_options import AgentOptions
from tests.support.agent.waiting import Launches
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio

OPTIONS = AgentOptions(auto_classify=False, max_retries=0)
TURNS = ('call: launch {"what": "火箭"}', "text: Done.") * 2


async def test_calls_are_told_page_by_page_and_nonsense_is_refused(tmp_path: Path) -> None:
    tools = (Launches().tool(needs_approval=False),)
    llm = PatientLLM(*TURNS)
    async with running(tmp_path, llm=llm, options=OPTIONS, tools=tools) as house:
        await house.send("First")
        second = await house.send("Second")
        page = (await house.client.get("/v1/audit", params={"limit": 1})).json()
        (entry,) = page["entries"]
        assert (entry["goal"], entry["run_loop_id"]) == ("Second", second["run_loop_id"])
        assert entry["arguments"] == '{"what": "火箭"}'
        assert entry["grant"]["kind"] == "not_needed"
        assert (entry["outcome"], entry["result"]) == ("done", "火箭 is launched")
        rest = (await house.client.get("/v1/audit", params={"before": page["next"]})).json()
        assert [each["goal"] for each in rest["entries"]] == ["First"]
        assert rest["next"] is None
        of_tool = (await house.client.get("/v1/audit?tool=land")).json()
        assert of_tool == {"entries": [], "next": None}
        for query, status in (
            ("before=soon", 422),
            ("limit=0", 422),
            ("since=yesterday", 422),
            ("run_loop_id=nobodys", 404),
        ):
            refused = await house.client.get(f"/v1/audit?{query}")
            assert refused.status_code == status, refused.text
            assert refused.json()["title"]
