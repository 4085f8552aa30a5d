"""A token is never written to a log, wherever a client has put it."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

import pytest

from service.server.security.bearer_token import ScrubbingFormatter
from tests.support.daemon import serving
from tests.support.server.http_daemon import House, problem_of

SECRET = "s3cret-token/of+the house"


def written(message: str, *arguments: object, error: Exception | None = None) -> str:
    formatter = ScrubbingFormatter("%(levelname)s %(message)s")
    formatter.know(SECRET)
    info = (type(error), error, error.__traceback__) if error is not None else None
    return formatter.format(
        logging.LogRecord("x", logging.INFO, "x.py", 1, message, arguments, info)
    )


@pytest.mark.parametrize(
    "line",
    [
        'GET /v1/run-loops?token=old-one HTTP/1.1" 400',
        "GET /?a=b&ACCESS_TOKEN=old-one&c=d",
        "http://localhost/?api_key=old-one",
        "Authorization: Bearer old-one",
        "{'authorization': 'Bearer old-one'}",
    ],
)
def test_what_looks_like_a_token_is_hidden_in_a_line(line: str) -> None:
    assert "old-one" not in written("%s", line)
    assert "[hidden]" in written("%s", line)


def test_the_token_is_hidden_as_it_is_and_as_an_address_has_it() -> None:
    line = written("%s and %s", SECRET, "s3cret-token%2Fof%2Bthe%20house")
    assert line == "INFO [hidden] and [hidden]"


def test_the_token_is_hidden_in_a_traceback() -> None:
    try:
        raise ValueError(f"what is {SECRET}?")
    except ValueError as error:
        text = written("failed", error=error)
    assert "Traceback" in text
    assert "what is [hidden]?" in text


def test_other_words_of_a_line_stay() -> None:
    line = "the tokens=3 were counted; a bearer of news; token: none"
    assert written(line).startswith("INFO the tokens=3 were counted; ")
    assert sys.getdefaultencoding() in written(f"{sys.getdefaultencoding()}")


@pytest.mark.anyio
@pytest.mark.parametrize("address", ["/v1/run-loops?{name}={token}", "/v1/run-loops/{token}"])
async def test_the_token_is_refused_anywhere_in_an_address(house: House, address: str) -> None:
    for name in ("token", "api_key", "key", "whatever"):
        path = address.format(name=name, token=house.token)
        response = await house.client.get(path)
        assert "Authorization" in problem_of(response, 400)["advice"]
        assert house.token not in response.text


@pytest.mark.slow
def test_at_debug_a_token_in_an_address_is_not_logged(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    debug = {"RONDO_LOG_LEVEL": "debug"}
    with serving(folder, settings=debug) as daemon, daemon.client(folder) as client:
        token = (folder / "token").read_text().strip()
        for address in (f"/v1/run-loops?token={token}", "/?access_token=another-one", f"/{token}"):
            assert client.get(address).status_code == 400
        assert client.get("/v1/run-loops").status_code == 200
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(timeout=60) == 0
        _, log = daemon.rest()
    assert "/v1/run-loops" in log, "requests are logged at debug"
    assert token not in log
    assert "another-one" not in log
