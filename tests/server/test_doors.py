"""Who and what is let in, and how the others are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from service.config import ServerSettings
from service.server.daemon_main import listen, warn_when_others_can_reach
from tests.support.server.http_daemon import House, problem_of, running

pytestmark = pytest.mark.anyio


async def break_off(house: House, request: bytes) -> None:
    """Send the beginning of a request, and hang up."""
    port = int(house.url.rsplit(":", 1)[1])
    async with await anyio.connect_tcp("127.0.0.1", port) as connection:
        await connection.send(request)


async def test_without_the_token_nothing_is_served_and_the_answer_says_where_it_is(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as house:
        requests = (("GET", "/v1/run-loops"), ("POST", "/v1/send"), ("GET", "/nowhere"))
        for method, path in requests:
            response = await house.client.request(method, path, headers={"Authorization": ""})
            problem = problem_of(response, 401)
            assert str(tmp_path / "token") in problem["advice"]
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert house.token not in response.text


@pytest.mark.parametrize("given", ["Bearer wrong", "Basic {token}", "{token}", "Bearer {token}é"])
async def test_a_wrong_token_is_refused(house: House, given: str) -> None:
    header = given.format(token=house.token).encode("latin-1")
    response = await house.client.get("/v1/run-loops", headers={b"Authorization": header})
    problem_of(response, 401)


@pytest.mark.parametrize("name", ["token", "access_token", "Access_Token"])
@pytest.mark.parametrize("path", ["/v1/run-loops", "/healthz"])
async def test_a_token_in_the_address_is_refused_even_beside_the_right_header(
    house: House, name: str, path: str
) -> None:
    response = await house.client.get(path, params={name: house.token})
    assert "Authorization" in problem_of(response, 400)["advice"]
    assert house.token not in response.text


async def test_probes_and_documentation_need_no_token(house: House) -> None:
    await house.send("hello")  # so that everything is there
    async with httpx2.AsyncClient(base_url=house.url, trust_env=False) as stranger:
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json", "/"):
            assert (await stranger.get(path)).status_code == 200, path


async def test_the_description_of_the_api_lets_a_reader_authorize_with_the_token(
    house: House,
) -> None:
    api = (await house.client.get("/openapi.json")).json()
    assert api["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert api["paths"]["/v1/send"]["post"]["security"] == [{"HTTPBearer": []}]
    assert api["paths"]["/v1/routing/calibrate"]["get"]["security"] == [{"HTTPBearer": []}]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example"])
async def test_a_host_name_that_was_made_to_point_here_is_refused(house: House, host: str) -> None:
    for path in ("/healthz", "/v1/run-loops"):
        problem_of(await house.client.get(path, headers={"Host": host}), 403)


async def test_a_host_with_another_port_than_the_daemons_is_refused(house: House) -> None:
    for host in ("127.0.0.1:1", "localhost:80", "[::1]:9", "127.0.0.1:x"):
        problem_of(await house.client.get("/healthz", headers={"Host": host}), 403)


async def test_loopback_goes_by_any_of_its_names(house: House) -> None:
    port = house.url.rsplit(":", 1)[1]
    for host in (f"localhost:{port}", "127.0.0.1", f"[::1]:{port}", "LOCALHOST", "127.0.0.2"):
        response = await house.client.get("/healthz", headers={"Host": host})
        assert response.status_code == 200, host


async def test_a_gateway_open_to_any_web_page_refuses_other_sites_and_serves_ours(
    house: House,
) -> None:
    encrypted = house.url.replace("http:", "https:")
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", encrypted):
        response = await house.client.get("/v1/run-loops", headers={"Origin": origin})
        problem_of(response, 403)
    portless = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1"}
    problem_of(await house.client.get("/v1/run-loops", headers=portless), 403)
    own = await house.client.get("/v1/run-loops", headers={"Origin": house.url})
    assert own.status_code == 200


async def test_an_address_that_is_not_there_is_told_in_words(house: House) -> None:
    assert "/docs" in problem_of(await house.client.get("/v1/nowhere"), 404)["advice"]
    response = await house.client.delete("/v1/send")
    problem_of(response, 405)
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "message"),
        ({"message": 5}, "message"),
        ({"message": "hi", "colour": "red"}, "colour"),
        ({"message": "hi", "mode": "shout"}, "mode"),
        ({"message": "hi", "metadata": "x"}, "metadata"),
    ],
)
async def test_a_field_that_is_wrong_is_named(
    house: House, body: dict[str, Any], field: str
) -> None:
    problem = problem_of(await house.client.post("/v1/send", json=body), 422)
    assert problem["errors"][0]["field"] == field
    assert field in problem["detail"]


async def test_an_empty_message_is_refused(house: House) -> None:
    problem = problem_of(await house.client.post("/v1/send", json={"message": " \n"}), 422)
    assert "empty" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": "hi"',
        b"not json",
        b'{"message": "\xff\xfe"}',
        '{"message": "hi"}'.encode("utf-16"),
    ],
    ids=["cut", "words", "not UTF-8", "UTF-16"],
)
async def test_a_body_that_is_not_json_in_utf_8_is_refused(house: House, body: bytes) -> None:
    before = (await house.client.get("/v1/run-loops")).json()
    response = await house.client.post(
        "/v1/send", content=body, headers={"Content-Type": "application/json"}
    )
    problem_of(response, 400)
    assert (await house.client.get("/v1/run-loops")).json() == before


async def test_a_body_without_its_content_type_is_refused(house: House) -> None:
    response = await house.client.post("/v1/send", content=b'{"message": "hi"}')
    problem_of(response, 422)


async def test_a_body_of_ten_megabytes_is_refused(house: House) -> None:
    response = await house.client.post("/v1/send", json={"message": "x" * 10_000_000})
    problem = problem_of(response, 413)
    assert "200,000" in problem["detail"]
    assert (await house.client.get("/healthz")).status_code == 200


async def test_a_body_that_grows_too_long_without_saying_so_is_refused(house: House) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"message": "'
        for _ in range(1000):
            yield b"x" * 1000
        yield b'"}'

    response = await house.client.post(
        "/v1/send", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert "200,000" in problem_of(response, 413)["detail"]


async def test_a_body_that_is_cut_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        request = (
            "POST /v1/send HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {house.token}\r\n\r\n"
            '{"message": "half a mess'
        )
        await break_off(house, request.encode())
        await house.send("whole")
        loops = (await house.client.get("/v1/run-loops")).json()["run_loops"]
        assert [loop["goal"] for loop in loops] == ["whole"]


async def test_a_mistake_of_our_own_tells_nothing_of_the_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as house:
        await house.send("hello")  # so that everything is there

        async def broken(*args: object, **options: object) -> None:
            raise RuntimeError("secret details")

        monkeypatch.setattr(house.agent.memory.long_term, "stats", broken)
        response = await house.client.get("/v1/memory/stats")
        problem_of(response, 500)
        assert "secret" not in response.text


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_daemon_that_other_machines_can_reach_says_so_in_its_log(
    host: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with listen(ServerSettings(host=host, port=0)) as listener:
        warn_when_others_can_reach(listener)
    assert ("other machines can reach it" in caplog.text) is warned
