"""Having a conversation summarised, and answers looked over, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.agent.agent_options import AgentOptions
from service.domain.conversation.instructions import Instruction, RequestHumanPrompt
from service.domain.history.state import RunLoopState
from tests.support.server.http_daemon import PatientLLM, running

pytestmark = pytest.mark.anyio

LONG = "The quick brown fox jumps over the lazy dog. " * 60


@pytest.mark.slow
async def test_a_run_loop_is_summarised_when_its_owner_wants_it(tmp_path: Path) -> None:
    async with running(tmp_path, options=AgentOptions(compaction="extract")) as house:
        loop = (await house.send(f"One. {LONG}"))["run_loop_id"]
        path = f"/v1/run-loops/{loop}"
        refused = await house.client.post(f"{path}/compact")
        assert refused.status_code == 409
        assert "nothing to summarise" in refused.json()["detail"]
        await house.send(f"Two. {LONG}", run_loop_id=loop)
        done = (await house.client.post(f"{path}/compact")).json()
        assert done.pop("tokens_after") < done.pop("tokens_before")
        assert done == {"run_loop_id": loop, "messages": 2, "method": "extract"}
        whole = (await house.client.get(path)).json()
        assert [len(each["user_message"]) > 2000 for each in whole["iterations"]] == [True, True]
        assert (await house.client.post("/v1/run-loops/nobody/compact")).status_code == 404


async def test_looking_over_answers_is_switched_while_the_daemon_runs(tmp_path: Path) -> None:
    llm = PatientLLM("text: First.", "text: Second.", "text: Second, better.")
    async with running(tmp_path, llm=llm) as house:
        path = "/v1/auto-enhance"
        assert (await house.client.get(path)).json() == {"enabled": False}
        assert (await house.send("One"))["response"] == "First."
        assert (await house.client.post(path, json={"enabled": True})).json() == {"enabled": True}
        assert (await house.send("Two"))["response"] == "Second, better."
        wrong: list[Any] = [{}, {"enabled": "yes"}, {"enabled": True, "more": 1}, []]
        for body in wrong:
            assert (await house.client.post(path, json=body)).status_code == 422
        assert (await house.client.get(path)).json() == {"enabled": True}


class Asks:
    """Wants a name first."""

    def next(self, state: RunLoopState) -> Instruction | None:
        if state.iterations or len(state.unseen) > 1:
            return None
        return RequestHumanPrompt("你叫什么名字？", metadata={"form": {"rows": 1}})


async def test_a_brains_question_and_its_metadata_reach_who_shows_it(tmp_path: Path) -> None:
    options = AgentOptions(brain=Asks())
    async with running(tmp_path, options=options) as house:
        frames = await house.frames("POST", "/v1/send", json={"message": "Hello"})
        asked = frames[-1].data
        assert frames[-1].event == "input.required"
        assert asked["data"]["metadata"] == {"form": {"rows": 1}}
        path = f"/v1/run-loops/{asked['run_loop_id']}"
        shown = (await house.client.get(path)).json()["input_required"]
        assert shown["metadata"] == {"form": {"rows": 1}}
        answer = {"text": "Ada", "request_id": shown["request_id"]}
        assert (await house.client.post(f"{path}/input", json=answer)).status_code == 200
        async with house.stream("GET", f"{path}/events?after=0") as events:
            async for frame in events:
                if frame.event == "run_loop.idle":
                    break
        whole = (await house.client.get(path)).json()
    assert whole["iterations"][0]["user_message"] == "Hello\n\nAda"
