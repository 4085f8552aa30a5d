"""A person's answers over HTTP: each is taken once, or refused in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.tools.builtins.ask_user import ask_user, choose
from tests.support.agent.waiting import Launches
from tests.support.server.http_daemon import House, PatientLLM, problem_of, running

pytestmark = pytest.mark.anyio

LAUNCH = 'call: launch {"what": "the rocket"}'
TWO = f'{LAUNCH}\ncall: launch {{"what": "the boat"}}'
CHOOSE = 'call: choose {"question": "喝什么？", "options": ["茶", "milk"]}'


async def asked(house: House) -> tuple[str, dict[str, Any]]:
    """The address of a run loop that waits, and what it asks."""
    waiting = await house.send("Go on")
    assert waiting["status"] == "waiting_for_human_input"
    return f"/v1/run-loops/{waiting['run_loop_id']}", waiting["input_required"]


async def rested(house: House, path: str) -> dict[str, Any]:
    with anyio.fail_after(10):
        while True:
            whole: dict[str, Any] = (await house.client.get(path)).json()
            if whole["status"] == "idle":
                return whole
            await anyio.sleep(0.01)


def results(whole: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["content"] for each in whole["iterations"][0]["tool_results"]}


@pytest.mark.slow
async def test_calls_are_decided_one_by_one_with_edited_arguments_and_reasons(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with running(tmp_path, llm=PatientLLM(TWO), tools=[launches.tool()]) as house:
        path, request = await asked(house)
        rocket, boat = (call["id"] for call in request["tool_calls"])
        answer = {
            "calls": {
                rocket: {"approved": False, "text": "太危险"},
                boat: {"approved": True, "arguments": {"what": "纸船"}},
            },
            "request_id": request["request_id"],
        }
        response = await house.client.post(f"{path}/input", json=answer)
        assert response.status_code == 200, response.text
        contents = results(await rested(house, path))
        assert "太危险" in contents[rocket]
        assert "纸船 is launched" in contents[boat]
        assert launches.launched == ["纸船"]


async def test_when_one_call_waits_its_arguments_need_no_id(tmp_path: Path) -> None:
    launches = Launches()
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[launches.tool()]) as house:
        path, _ = await asked(house)
        answer = {"approved": True, "arguments": {"what": "a kite"}}
        assert (await house.client.post(f"{path}/input", json=answer)).status_code == 200
        await rested(house, path)
        assert launches.launched == ["a kite"]


async def test_an_option_is_chosen_and_anything_else_is_told_what_there_is(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=PatientLLM(CHOOSE), tools=[choose]) as house:
        path, request = await asked(house)
        assert (request["kind"], request["options"]) == ("select", ["茶", "milk"])
        wrong = await house.client.post(f"{path}/input", json={"choices": ["water"]})
        assert "'茶', 'milk'" in problem_of(wrong, 422)["advice"]
        right = await house.client.post(f"{path}/input", json={"choices": ["茶"]})
        assert right.status_code == 200
        assert list(results(await rested(house, path)).values()) == ["茶"]


async def test_a_question_is_answered_in_words(tmp_path: Path) -> None:
    llm = PatientLLM('call: ask_user {"question": "Where to?"}')
    async with running(tmp_path, llm=llm, tools=[ask_user]) as house:
        path, request = await asked(house)
        assert (request["kind"], request["prompt"]) == ("prompt", "Where to?")
        await house.client.post(f"{path}/input", json={"text": "里斯本"})
        assert list(results(await rested(house, path)).values()) == ["里斯本"]


async def test_the_same_answer_twice_is_fine_and_another_one_is_a_conflict(
    tmp_path: Path,
) -> None:
    launches = Launches()
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[launches.tool()]) as house:
        path, request = await asked(house)
        answer = {"approved": True, "request_id": request["request_id"]}
        for _ in range(3):
            assert (await house.client.post(f"{path}/input", json=answer)).status_code == 200
        await rested(house, path)
        assert (await house.client.post(f"{path}/input", json=answer)).status_code == 200
        other = await house.client.post(f"{path}/input", json={**answer, "approved": False})
        assert "answered already" in problem_of(other, 409)["detail"]
        assert launches.launched == ["the rocket"]


async def test_an_answer_to_one_of_two_questions_says_to_which(tmp_path: Path) -> None:
    launches = Launches()
    llm = PatientLLM(LAUNCH, LAUNCH.replace("rocket", "boat"))
    async with running(tmp_path, llm=llm, tools=[launches.tool()]) as house:
        path, first = await asked(house)
        response = await house.client.post(f"{path}/input", json={"approved": True})
        assert response.status_code == 200, "there was only one question"
        with anyio.fail_after(10):
            while True:
                second = (await house.client.get(path)).json()["input_required"]
                if second and second["request_id"] != first["request_id"]:
                    break
                await anyio.sleep(0.01)
        late = await house.client.post(f"{path}/input", json={"approved": True})
        assert "request_id" in problem_of(late, 409)["advice"]
        assert launches.launched == ["the rocket"]
        answer = {"approved": True, "request_id": second["request_id"]}
        assert (await house.client.post(f"{path}/input", json=answer)).status_code == 200
        await rested(house, path)
        assert launches.launched == ["the rocket", "the boat"]


@pytest.mark.slow
async def test_of_many_answers_at_once_one_kind_counts(tmp_path: Path) -> None:
    launches = Launches()
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[launches.tool()]) as house:
        path, request = await asked(house)
        statuses: dict[bool, list[int]] = {True: [], False: []}

        async def answer(approved: bool) -> None:
            body = {"approved": approved, "request_id": request["request_id"]}
            response = await house.client.post(f"{path}/input", json=body)
            statuses[approved].append(response.status_code)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(answer, number % 2 == 0)
        await rested(house, path)
        won = statuses[True] == [200] * 5
        assert statuses[won] == [200] * 5
        assert statuses[not won] == [409] * 5
        assert launches.launched == (["the rocket"] if won else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"approved": True, "arguments": "{}"}, "arguments"),
        ({"approved": True, "remember": "for ever"}, "remember"),
        ({"calls": {"c": {"approved": "yes"}}}, "calls.c.approved"),
        ({"calls": {"c": {"approve": True}}}, "calls.c.approve"),
        ({"calls": [True]}, "calls"),
        ({"choices": "茶"}, "choices"),
    ],
)
async def test_a_field_that_is_wrong_is_named_and_nothing_is_decided(
    tmp_path: Path, body: dict[str, Any], field: str
) -> None:
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[Launches().tool()]) as house:
        path, _ = await asked(house)
        problem = problem_of(await house.client.post(f"{path}/input", json=body), 422)
        assert field in problem["detail"]
        assert (await house.client.get(path)).json()["input_required"] is not None


@pytest.mark.slow
async def test_arguments_that_do_not_fit_are_refused_in_words(tmp_path: Path) -> None:
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[Launches().tool()]) as house:
        path, _ = await asked(house)
        body = {"approved": True, "arguments": {"wat": "x"}}
        problem = problem_of(await house.client.post(f"{path}/input", json=body), 422)
        assert "Did you mean `what`?" in problem["detail"]
        assert (await house.client.get(path)).json()["status"] == "waiting_for_human_input"


async def test_what_was_allowed_for_good_is_listed_and_taken_back(tmp_path: Path) -> None:
    llm = PatientLLM(LAUNCH, "text: launched", LAUNCH, "text: again", LAUNCH)
    async with running(tmp_path, llm=llm, tools=[Launches().tool()]) as house:
        assert (await house.client.get("/v1/approvals")).json() == {"approvals": []}
        path, _ = await asked(house)
        body = {"approved": True, "remember": "always"}
        assert (await house.client.post(f"{path}/input", json=body)).status_code == 200
        await rested(house, path)
        assert (await house.send("Once more"))["status"] == "idle"
        (listed,) = (await house.client.get("/v1/approvals")).json()["approvals"]
        assert (listed["scope"], listed["tool"]) == ("launch", "launch")
        assert path.endswith(listed["run_loop_id"])
        assert listed["granted_at"].endswith("Z")
        scope = {"scope": "launch"}
        revoked = await house.client.delete("/v1/approvals", params=scope)
        assert revoked.json() == listed
        assert (await house.client.get("/v1/approvals")).json() == {"approvals": []}
        await asked(house)
        problem_of(await house.client.delete("/v1/approvals", params=scope), 404)
        problem_of(await house.client.delete("/v1/approvals"), 422)


async def test_approvals_need_the_token(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        for method in ("GET", "DELETE"):
            response = await house.client.request(
                method, "/v1/approvals?scope=x", headers={"Authorization": "Bearer no"}
            )
            problem_of(response, 401)


async def test_the_list_of_tools_says_which_ask_and_why_the_embedded_model_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with running(tmp_path, tools=[Launches().tool()]) as house:
        listed = (await house.client.get("/v1/tools")).json()
        assert listed["tools"][0]["needs_approval"] is True
        reasons = {item["name"]: item["reason"] for item in listed["not_offered"]}
        assert "embedded model" in reasons["ask_user"]
        assert "llm.base_url" in reasons["choose"]


async def test_the_rule_of_a_narrowed_yes_is_shown_before_it_counts_and_listed_then(
    tmp_path: Path,
) -> None:
    launches = Launches()
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    said = {"approved": True, "remember": "always"}
    limits = {"arguments": True, "until": until}
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[launches.tool()]) as house:
        client = house.client
        path, _ = await asked(house)
        shown = await client.post(f"{path}/input/rules", json={**said, "narrow": limits})
        (rule,) = shown.json()["rules"]
        assert rule["rule"].startswith(
            'launch, with just these arguments: {"what": "the rocket"}, until 20'
        )
        assert (await client.get(path)).json()["status"] == "waiting_for_human_input"
        assert (await client.get("/v1/approvals")).json()["approvals"] == []
        assert launches.launched == []

        await client.post(f"{path}/input", json={**said, "narrow": {"until": until}})
        await rested(house, path)
        (listed,) = (await client.get("/v1/approvals")).json()["approvals"]
        assert listed["arguments"] is None
        assert listed["rule"].startswith("every call of launch, until 20")
        later = {"until": (datetime.now(UTC) + timedelta(hours=2)).isoformat()}
        body = {"scope": "launch", "narrow": later}
        wider = problem_of(await client.post("/v1/approvals/narrow", json=body), 422)
        assert "longer" in wider["detail"]
        body["narrow"] = {"arguments": True}
        narrower = (await client.post("/v1/approvals/narrow", json=body)).json()["approvals"]
        assert narrower == (await client.get("/v1/approvals")).json()["approvals"]
        assert narrower[0]["arguments"] == '{"what": "the rocket"}'
        gone = await client.delete("/v1/approvals", params={"scope": narrower[0]["id"]})
        assert gone.json()["scope"] == "launch"
        assert (await client.get("/v1/approvals")).json()["approvals"] == []


UNCLEAR: tuple[Any, ...] = (
    {"times": 3},
    {"arguments": "yes"},
    {"arguments": True, "scope": "launch"},
    {"until": "18:00"},
    {"until": "2999-01-01T18:00:00"},
    {"until": "2020-01-01T18:00:00Z"},
    {},
    "all",
)


async def test_a_narrowing_that_is_not_known_or_not_clear_allows_nothing(tmp_path: Path) -> None:
    launches = Launches()
    async with running(tmp_path, llm=PatientLLM(LAUNCH), tools=[launches.tool()]) as house:
        path, _ = await asked(house)
        for narrow in UNCLEAR:
            said = {"approved": True, "remember": "always", "narrow": narrow}
            for where in ("input", "input/rules"):
                problem_of(await house.client.post(f"{path}/{where}", json=said), 422)
        assert (await house.client.get(path)).json()["status"] == "waiting_for_human_input"
        assert launches.launched == []
