"""Over HTTP: an unsure route says what else it could have been; it is mended, and that undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent_options import AgentOptions
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel
from service.routing.routing_options import RouterOptions
from service.tools.builtins.ask_user import ask_user
from service.tools.decorator import tool
from tests.support.server.http_daemon import House, running

pytestmark = pytest.mark.anyio

UNSURE = AgentOptions(max_retries=0, router=RouterOptions(use_llm=False, unsure_below=1))
FIRST, NEXT = "Please find a hotel in Bonn for Friday", "And does the hotel in Bonn have breakfast?"


async def post(house: House, loop: str, **body: Any) -> Any:
    return await house.client.post(f"/v1/run-loops/{loop}/reroute", json=body)


async def shown(house: House, loop: str) -> Any:
    return (await house.client.get(f"/v1/run-loops/{loop}")).json()


@pytest.mark.slow
async def test_the_answer_and_the_stream_say_what_else_it_could_have_been(tmp_path: Path) -> None:
    async with running(tmp_path, options=UNSURE) as house:
        hotel = await house.send(FIRST)
        assert hotel["alternatives"] == []
        sure = await house.send("修水管的发票", run_loop_id="new")
        assert sure["alternatives"] == []
        answer = await house.send(NEXT)
        assert answer["run_loop_id"] == hotel["run_loop_id"]
        places = {each["run_loop_id"]: each for each in answer["alternatives"]}
        assert set(places) <= {"new", sure["run_loop_id"]}
        for id_, goal in (("new", ""), (sure["run_loop_id"], "修水管的发票")):
            if id_ in places:
                assert places[id_]["goal"] == goal
                assert 0 < places[id_]["probability"] < 1
        assert answer["route"]["alternatives"] == list(places)
        frames = await house.frames("POST", "/v1/send", json={"message": NEXT})
        [decided] = [each.data["data"] for each in frames if each.event == "route.decided"]
        assert decided["route"]["alternatives"]
        lines = (await house.client.get("/v1/run-loops?why=true")).json()["run_loops"]
        marked = {line["id"]: line["route"]["alternatives"] for line in lines}
        assert marked[hotel["run_loop_id"]]
        assert not marked[sure["run_loop_id"]]
        details = await shown(house, hotel["run_loop_id"])
        assert details["routes"][-1]["route"]["alternatives"]


async def test_one_call_moves_it_to_an_alternative_and_another_takes_that_back(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, options=UNSURE) as house:
        await house.send(FIRST)
        answer = await house.send(NEXT)
        hotel, message = answer["run_loop_id"], answer["message_id"]
        [*_, place] = answer["route"]["alternatives"]
        moved = (await post(house, hotel, message_id=message, to=place)).json()
        there = moved["to"]
        assert moved["run_loop"]["iterations"][-1]["response"] == f"Answer to {NEXT}"

        undone = await post(house, there, message_id=message, undo=True)

        assert undone.status_code == 200, undone.text
        rerouted = undone.json()
        assert (rerouted["moved"], rerouted["from"], rerouted["to"]) == ([message], there, hotel)
        assert rerouted["run_loop"]["iterations"][-1]["response"] == f"Answer to {NEXT}"
        for loop in (there, hotel):
            again = await post(house, loop, message_id=message, undo=True)
            assert (again.json()["to"], again.json()["run_loop"]) == (hotel, rerouted["run_loop"])
        [*_, why] = (await shown(house, hotel))["routes"]
        assert why["route"]["undo"] is True


ASKING = """
== when table
call: ask_user {"question": "What name?"}
--
text: Booked for {result}.
== when pay
call: ask_user {"question": "Which name?"}
--
call: charge {"whom": "Ada"}
--
text: {result}
== default
text: Answer to {message}
"""


@tool(effect="side_effects", needs_approval=False)
async def charge(whom: str) -> str:
    """Charge."""
    return f"{whom} was charged"


@pytest.mark.slow
async def test_an_answer_that_the_router_was_unsure_of_goes_wherever_it_is_said_to_go(
    tmp_path: Path,
) -> None:
    llm = ScriptedModel(parse_script(ASKING))
    async with running(tmp_path, llm=llm, tools=[ask_user], options=UNSURE) as house:
        other = (await house.send("修水管的发票", run_loop_id="new"))["run_loop_id"]
        table = (await house.send("Please book a table", run_loop_id="new"))["run_loop_id"]
        answer = await house.send("Ada Byron")
        assert (answer["run_loop_id"], answer["response"]) == (table, "Booked for Ada Byron.")
        message = answer["message_id"]
        places = [each["run_loop_id"] for each in answer["alternatives"]]
        assert places
        assert set(places) <= {other, "new"}
        assert (await shown(house, table))["routes"][-1]["route"]["alternatives"] == places
        for place in places:
            moved = await post(house, table, message_id=message, to=place)
            assert moved.status_code == 200, moved.text
            assert (await shown(house, table))["input_required"]["prompt"] == "What name?"
            undone = await post(house, table, message_id=message, undo=True)
            assert undone.status_code == 200, undone.text
            assert undone.json()["to"] == table
        with anyio.fail_after(10):
            while (now := await shown(house, table))["status"] != "idle":
                await anyio.sleep(0.01)
        assert now["iterations"][-1]["response"] == "Booked for Ada Byron."


async def test_no_move_is_offered_that_would_be_refused(tmp_path: Path) -> None:
    llm = ScriptedModel(parse_script(ASKING))
    async with running(tmp_path, llm=llm, tools=[ask_user, charge], options=UNSURE) as house:
        await house.send("修水管的发票", run_loop_id="new")
        paying = (await house.send("Please pay", run_loop_id="new"))["run_loop_id"]
        answer = await house.send("Ada Byron")
        assert answer["run_loop_id"] == paying
        assert answer["response"] == "Ada was charged"
        assert answer["route"]["alternatives"]
        assert answer["alternatives"] == []
        assert (await shown(house, paying))["routes"][-1]["route"]["alternatives"] == []
        refused = await post(house, paying, message_id=answer["message_id"], to=None)
        assert refused.status_code == 409
        assert "`charge` has run upon it" in refused.json()["detail"]


async def test_an_undo_that_makes_no_sense_is_refused_in_words(tmp_path: Path) -> None:
    async with running(tmp_path, options=UNSURE) as house:
        loop = (await house.send(FIRST))["run_loop_id"]
        for body, status in (
            ({"undo": True}, 409),
            ({"undo": True, "to": None}, 422),
            ({"undo": False}, 422),
            ({}, 422),
        ):
            refused = await post(house, loop, **body)
            assert refused.status_code == status, (body, refused.text)
            assert refused.json()["detail"]
