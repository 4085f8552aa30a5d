"""What cannot be read, kept or meant is refused at every door, in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from service.domain.errors import LLMStatusError
from tests.support.server.http_daemon import House, PatientLLM, problem_of, running

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
_DEEP = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("1e999", id="1e999"),
        pytest.param("-1e999", id="-1e999"),
        pytest.param("NaN", id="NaN"),
        pytest.param("Infinity", id="Infinity"),
        pytest.param("-Infinity", id="-Infinity"),
        pytest.param("9" * 30, id="huge"),
        pytest.param("9" * 5000, id="endless"),
        pytest.param('"\\ud800"', id="half a character"),
        pytest.param('{"\\udc00": 1}', id="half a name"),
        pytest.param("[" * 101 + "]" * 101, id="deep"),
        pytest.param(_DEEP, id="very deep"),
    ],
)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/send", '{"message": "hi", "metadata": {"a": %s}}'),
        ("/v1/memory/search", '{"query": "hi", "metadata": {"a": %s}}'),
        ("/v1/memory/forget", '{"query": "hi", "limit": %s}'),
        ("/v1/memory/expand", '{"anchor": "x:0.0", "before": %s}'),
        ("/v1/run-loops/x/input", '{"approved": true, "arguments": {"a": %s}}'),
        ("/v1/run-loops/x/fork", '{"at": %s}'),
    ],
)
async def test_what_json_cannot_hold_is_refused_at_every_door(
    house: House, path: str, body: str, value: str
) -> None:
    before = (await house.client.get("/v1/run-loops")).json()
    content = (body % value).encode()
    problem = problem_of(await house.client.post(path, content=content, headers=JSON), 422)
    assert problem["errors"][0]["message"] in problem["detail"]
    assert (await house.client.get("/v1/run-loops")).json() == before


async def test_a_number_that_is_not_finite_is_named_with_its_place(house: House) -> None:
    content = b'{"message": "hi", "metadata": {"a": [1, 1e999]}}'
    problem = problem_of(await house.client.post("/v1/send", content=content, headers=JSON), 422)
    assert problem["errors"] == [{"field": "metadata.a.1", "message": "it is not a finite number"}]


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/send", "POST"),
        ("/v1/memory/search", "POST"),
        ("/v1/memory/import", "POST"),
        ("/v1/memory/forget", "POST"),
        ("/v1/run-loops/x/input", "POST"),
    ],
)
async def test_another_encoding_or_a_compression_is_refused_on_every_route_with_a_body(
    house: House, path: str, method: str
) -> None:
    kind = "application/x-ndjson" if path.endswith("import") else "application/json"
    text = '{"message": "你好"}'
    utf_16 = {"Content-Type": f'{kind}; charset="UTF-16"'}
    response = await house.client.request(
        method, path, content=text.encode("utf-16"), headers=utf_16
    )
    assert "UTF-8" in problem_of(response, 415)["advice"]
    packed = {"Content-Type": kind, "Content-Encoding": "gzip"}
    response = await house.client.request(
        method, path, content=gzip.compress(text.encode()), headers=packed
    )
    assert "as it is" in problem_of(response, 415)["advice"]
    assert response.headers["accept-encoding"] == "identity"


async def test_utf_8_may_be_named_in_any_of_its_ways(house: House) -> None:
    for charset in ("utf-8", "UTF-8", '"utf8"'):
        headers = {"Content-Type": f"application/json; charset={charset}"}
        response = await house.client.post(
            "/v1/memory/search", content='{"query": "你好"}'.encode(), headers=headers
        )
        assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    "moment",
    ["0.5", "17", "1e3", "-1", "NaN", "inf", "tomorrow", "", "0001-01-01T00:00:00+14:00", "25:00"],
)
async def test_a_time_that_cannot_be_meant_is_refused(house: House, moment: str) -> None:
    for path in ("/v1/run-loops", "/v1/usage", "/v1/memory/export"):
        response = await house.client.get(path, params={"until": moment})
        assert "until" in problem_of(response, 422)["detail"]
    for written in {moment, *([float(moment)] if moment in ("0.5", "17", "-1") else [])}:
        for path in ("/v1/memory/search", "/v1/memory/forget"):
            body = {"query": "x", "since": written}
            assert "since" in problem_of(await house.client.post(path, json=body), 422)["detail"]


@pytest.mark.parametrize(
    "moment", ["2026-03-31", "2026-03-31T17:00", "2026-03-31T17:00:00.5Z", "2026-03-31T17:00+08:00"]
)
async def test_a_date_or_a_moment_in_iso_8601_is_taken(house: House, moment: str) -> None:
    response = await house.client.get("/v1/run-loops", params={"until": moment})
    assert response.status_code == 200, response.text


async def test_every_method_of_an_address_is_named(house: House) -> None:
    for method, path, allowed in (
        ("PUT", "/v1/approvals", {"GET", "DELETE"}),
        ("DELETE", "/v1/routing/calibrate", {"GET", "POST"}),
        ("GET", "/v1/send", {"POST"}),
        ("POST", "/v1/run-loops/x", {"GET"}),
        ("POST", "/docs", {"GET", "HEAD"}),
    ):
        response = await house.client.request(method, path)
        problem_of(response, 405)
        assert set(response.headers["allow"].split(", ")) == allowed, path


async def test_problems_are_described_as_what_they_are_sent_as(house: House) -> None:
    api = (await house.client.get("/openapi.json")).json()
    count = 0
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                for kind, described in response.get("content", {}).items():
                    is_problem = _is_problem(api, described.get("schema", {}))
                    count += is_problem
                    assert is_problem == (kind == "application/problem+json"), (path, status)
            assert "default" in operation["responses"], (path, method)
    assert count > 20


def _is_problem(api: dict[str, Any], schema: dict[str, Any]) -> bool:
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    described = api["components"]["schemas"].get(name, {})
    members = set(described.get("properties", {}))
    return members >= {"type", "title", "status", "detail", "advice"}


async def test_a_preview_that_cannot_be_confirmed_says_why_and_null_confirms_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, llm=PatientLLM()) as house:
        resting = (await house.send("Where is the sextant?"))["run_loop_id"]
        body = {"run_loop_ids": [resting]}
        preview = (await house.client.post("/v1/memory/forget", json=body)).json()
        assert preview["confirm"] is None
        assert "stop" in preview["notice"]
        assert "at rest" in preview["notice"]
        refused = await house.client.post("/v1/memory/forget", json={**body, "confirm": None})
        assert "nothing was forgotten" in problem_of(refused, 422)["detail"]
        assert (await house.client.get(f"/v1/run-loops/{resting}")).status_code == 200


async def test_an_endpoint_that_fails_is_not_said_to_have_refused(tmp_path: Path) -> None:
    assert "failed" in LLMStatusError(503).title
    assert "refused" in LLMStatusError(401).title
    async with running(tmp_path, llm=PatientLLM("error: 500 boom")) as house:
        response = await house.client.post("/v1/send", json={"message": "Hi"})
        problem = problem_of(response, 502)
        assert "refused" not in problem["title"], json.dumps(problem)
