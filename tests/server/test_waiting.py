"""A run loop waits for a person across restarts of the real daemon, killed or stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.tools.sandbox.levels import sandbox_for
from tests.support.daemon import serving

pytestmark = pytest.mark.slow

SCRIPT = """
== when back up
call: run_script {"name": "backup.sh"}
--
text: It said: {result}
== when trip
call: ask_user {"question": "Where to?"}
--
text: To {result}, then.
== default
text: You said: {message}
"""
SETTINGS = {"RONDO_AGENT__AUTO_CLASSIFY": "false", "RONDO_TOOLS__SCRIPTS": "true"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "scripts").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "scripts" / "backup.sh").write_text("echo saved >> $HOME/backups; echo done\n")
    return folder


def sent(client: httpx2.Client, message: str) -> dict[str, Any]:
    response = client.post("/v1/send", json={"message": message})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def rested(client: httpx2.Client, run_loop_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        loop: dict[str, Any] = client.get(f"/v1/run-loops/{run_loop_id}").json()
        if loop["status"] == "idle":
            return loop
        time.sleep(0.05)
    pytest.fail(f"run loop {run_loop_id} did not go on")


def test_questions_and_what_was_allowed_outlive_the_process(folder: Path, tmp_path: Path) -> None:
    if sandbox_for("auto").level == "none":
        pytest.skip("without a sandbox each run asks, and no yes is remembered")
    granted = {"RONDO_TOOLS__SCRIPT_WRITE": json.dumps([str(tmp_path)])}
    settings = {**SETTINGS, **granted, "HOME": str(tmp_path)}
    with (
        serving(folder, script=SCRIPT, settings=settings) as daemon,
        daemon.client(folder) as client,
    ):
        backup, trip = sent(client, "back up"), sent(client, "a trip")
        assert backup["status"] == trip["status"] == "waiting_for_human_input"
        daemon.process.kill()

    with (
        serving(folder, script=SCRIPT, settings=settings) as daemon,
        daemon.client(folder) as client,
    ):
        assert not (tmp_path / "backups").exists()
        for waiting in (backup, trip):
            loop = client.get(f"/v1/run-loops/{waiting['run_loop_id']}").json()
            assert loop["input_required"] == waiting["input_required"]
        yes = {
            "approved": True,
            "remember": "always",
            "request_id": backup["input_required"]["request_id"],
        }
        path = f"/v1/run-loops/{backup['run_loop_id']}/input"
        assert client.post(path, json=yes).status_code == 200
        daemon.process.kill()  # right after the yes was acknowledged

    with (
        serving(folder, script=SCRIPT, settings=settings) as daemon,
        daemon.client(folder) as client,
    ):
        assert client.post(path, json=yes).status_code == 200, "it was sent again, and counts once"
        rested(client, backup["run_loop_id"])
        assert len(client.get("/v1/approvals").json()["approvals"]) == 1
        before = (tmp_path / "backups").read_text() if (tmp_path / "backups").exists() else ""
        assert before.count("saved") <= 1
        assert sent(client, "back up again")["status"] == "idle"
        assert (tmp_path / "backups").read_text() == before + "saved\n"
        words = {"text": "里斯本"}
        path = f"/v1/run-loops/{trip['run_loop_id']}/input"
        assert client.post(path, json=words).status_code == 200
        assert rested(client, trip["run_loop_id"])["iterations"][-1]["response"] == (
            "To 里斯本, then."
        )


def test_a_tool_that_is_misspelt_in_the_settings_is_told_at_the_start(folder: Path) -> None:
    settings = {**SETTINGS, "RONDO_TOOLS__APPROVAL_FOR": '{"run_scirpt": "always"}'}
    with serving(folder, settings=settings) as daemon:
        daemon.process.terminate()
        daemon.process.wait(20)
        _, complaints = daemon.rest()
    assert "`run_scirpt`" in complaints
    assert "Did you mean `run_script`?" in complaints


def test_the_settings_decide_which_tools_ask(folder: Path) -> None:
    settings = {**SETTINGS, "RONDO_TOOLS__APPROVAL_FOR__RUN_SCRIPT": "never"}
    with (
        serving(folder, script=SCRIPT, settings=settings) as daemon,
        daemon.client(folder) as client,
    ):
        assert sent(client, "back up")["status"] == "idle"
    settings = {**SETTINGS, "RONDO_TOOLS__APPROVAL": "always"}
    script = SCRIPT.replace("run_script", "calculator").replace("name", "expression")
    with (
        serving(folder, script=script, settings=settings) as daemon,
        daemon.client(folder) as client,
    ):
        assert sent(client, "back up")["status"] == "waiting_for_human_input"
