"""Killed at any moment, the daemon goes on where it was, and nothing acknowledged is missing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import serving

pytestmark = pytest.mark.slow

STEPS = 12
SCRIPT = f"""
== when count
-- x{STEPS}
pause: 0.03
call: calculator {{"expression": "1 + 1"}}
--
text: Counted, {{result}}.
== default
pause: 0.05
text: You said: {{message}}
"""

SETTINGS = {
    "RONDO_AGENT__AUTO_CLASSIFY": "false",
    "RONDO_AGENT__MAX_ITERATIONS": "50",
    "RONDO_AGENT__MAX_REPEATED_CALLS": "50",
}


def send_until(client: httpx2.Client, message: str, stop_after: int, **more: str) -> None:
    """Send, and go away after so many events; the first of them is the acknowledgement."""
    seen = 0
    body = {"message": message, **more}
    with client.stream(
        "POST", "/v1/send", json=body, headers={"Accept": "text/event-stream"}
    ) as response:
        for line in response.iter_lines():
            seen += line.startswith("event:")
            if seen >= stop_after:
                return
    pytest.fail(f"the stream ended after {seen} events")


def rested(client: httpx2.Client, message: str) -> dict[str, Any]:
    """The one loop that a message opened, once it has answered."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        loops = client.get("/v1/run-loops").json()["run_loops"]
        mine = [loop for loop in loops if loop["goal"] == message]
        assert len(mine) <= 1, "the message was taken in twice"
        if mine and mine[0]["status"] == "idle":
            loop: dict[str, Any] = client.get(f"/v1/run-loops/{mine[0]['id']}").json()
            return loop
        time.sleep(0.05)
    pytest.fail(f"the loop of {message!r} did not go on")


@pytest.mark.parametrize("kills_after", [[1], [4], [9, 30], [17, 1, 12]])
def test_a_loop_goes_on_after_kills_as_if_nothing_had_been(
    tmp_path: Path, kills_after: list[int]
) -> None:
    folder = tmp_path / "home"
    message = f"count, killed {len(kills_after)} times"
    for number, events in enumerate(kills_after):
        with (
            serving(folder, script=SCRIPT, settings=SETTINGS) as daemon,
            daemon.client(folder) as client,
        ):
            if number == 0:
                send_until(client, message, events)
            else:
                send_until(client, f"and number {number}", 1)
                time.sleep(events / 100)
            daemon.process.kill()

    with (
        serving(folder, script=SCRIPT, settings=SETTINGS) as daemon,
        daemon.client(folder) as client,
    ):
        loop = rested(client, message)
        assert len(loop["iterations"]) == STEPS + 1
        for iteration in loop["iterations"][:-1]:
            called = [call["id"] for call in iteration["tool_calls"]]
            results = [(result["id"], result["content"]) for result in iteration["tool_results"]]
            assert results == [(called[0], "2")]
        assert loop["iterations"][-1]["response"] == "Counted, 2."
        for number in range(1, len(kills_after)):
            other = rested(client, f"and number {number}")
            assert other["iterations"][0]["response"] == f"You said: and number {number}"


@pytest.mark.parametrize("kill_after", [1, 9])
def test_a_follow_up_that_was_acknowledged_is_answered_after_the_answer_whatever_was_killed(
    tmp_path: Path, kill_after: int
) -> None:
    folder = tmp_path / "home"
    with (
        serving(folder, script=SCRIPT, settings=SETTINGS) as daemon,
        daemon.client(folder) as client,
    ):
        send_until(client, "count on", 6)
        loop_id = client.get("/v1/run-loops").json()["run_loops"][0]["id"]
        send_until(client, "what next", kill_after, run_loop_id=loop_id, mode="followup")
        daemon.process.kill()
    with (
        serving(folder, script=SCRIPT, settings=SETTINGS) as daemon,
        daemon.client(folder) as client,
    ):
        loop = rested(client, "count on")
    said = [iteration["response"] for iteration in loop["iterations"] if iteration["response"]]
    assert said == ["Counted, 2.", "You said: what next"]
    assert loop["iterations"][-1]["user_message"] == "what next"
