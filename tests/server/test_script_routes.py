"""``/v1/scripts``: the script repository over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest

from service.config import ToolsSettings
from tests.support.server.http_daemon import Frame, House, frames_of, running
from tests.support.tools.skills import TEA, put_file, put_skill

pytestmark = pytest.mark.anyio

OTHER = TEA.replace("Boil", "Heat")


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[House]:
    async with running(
        tmp_path, tool_settings=ToolsSettings(scripts=True, sandbox="none")
    ) as house:
        yield house


async def test_a_skill_is_added_written_compared_and_brought_back(
    daemon: House, tmp_path: Path
) -> None:
    client = daemon.client
    files = {"SKILL.md": TEA, "scripts/a.sh": "#!/bin/sh\necho 茶\n"}
    added = await client.post("/v1/scripts", json={"name": "tea", "files": files})
    assert (added.status_code, added.json()["version"]) == (201, 1)
    again = await client.post("/v1/scripts", json={"name": "tea", "files": files})
    assert (again.status_code, again.json()["type"]) == (409, "urn:rondo:conflict")
    listed = (await client.get("/v1/scripts")).json()
    assert listed["scripts"] == [
        {"name": "tea", "kind": "skill", "description": "How tea is made.", "project": ""}
    ]
    details = (await client.get("/v1/scripts/tea")).json()
    assert details["files"] == ["SKILL.md", "scripts/a.sh"]
    assert details["scripts"][0]["name"] == "tea/scripts/a.sh"
    body = {"file": "SKILL.md", "text": OTHER}
    written = (await client.put("/v1/scripts/tea/file", json=body)).json()
    assert "+Heat water." in written["difference"]
    read = await client.get("/v1/scripts/tea/file", params={"path": "SKILL.md"})
    assert read.json()["text"] == OTHER
    compared = await client.get("/v1/scripts/tea/difference", params={"before": 2, "after": 1})
    assert "-Heat water." in compared.json()["difference"]
    reverted = await client.post("/v1/scripts/tea/revert", json={"version": 1})
    assert reverted.json()["version"] == 3
    assert (await client.delete("/v1/scripts/tea")).json()["version"] == 4
    history = (await client.get("/v1/scripts/tea/history")).json()["versions"]
    assert [(each["version"], each["author"]) for each in history] == [
        (number, "person") for number in (1, 2, 3, 4)
    ]
    gone = await client.delete("/v1/scripts/tea", params={"versions": True})
    assert gone.json() == {"name": "tea", "version": None, "versions_removed": 4}
    assert (await client.get("/v1/scripts/tea/history")).status_code == 404
    assert not (tmp_path / ".agents" / "skills" / "tea").exists()


async def test_what_cannot_be_is_a_problem_in_words(daemon: House, tmp_path: Path) -> None:
    put_skill(tmp_path)
    put_file(tmp_path / "token-of-others", "sk")
    client = daemon.client
    for path, status in [
        ("/v1/scripts/coffee", 404),
        ("/v1/scripts/tea/file?path=../../../token", 404),
        ("/v1/scripts/tea/file?path=/etc/passwd", 404),
        ("/v1/scripts/tea/difference?before=7", 404),
        ("/v1/scripts/%2e%2e/history", 404),
        ("/v1/scripts/..%2f..%2ftoken/history", 404),
    ]:
        response = await client.get(path)
        assert response.status_code == status, path
        assert response.headers["content-type"] == "application/problem+json"
    bodies = [
        {"file": "../x", "text": ""},
        {"file": "SKILL.md", "text": "no head"},
        {"file": "SKILL.md"},
        {"file": "SKILL.md", "text": TEA, "more": 1},
    ]
    for body in bodies:
        assert (await client.put("/v1/scripts/tea/file", json=body)).status_code == 422
    run = await client.post("/v1/scripts/tea/run", json={})
    assert (run.status_code, run.json()["detail"]) == (409, "tea has no scripts")


async def test_nothing_is_told_or_done_without_the_token(daemon: House) -> None:
    for method, path in [("GET", ""), ("POST", ""), ("POST", "/tea/run"), ("DELETE", "/tea")]:
        response = await daemon.client.request(
            method, f"/v1/scripts{path}", headers={"Authorization": "Bearer wrong"}
        )
        assert response.status_code == 401


async def test_while_scripts_are_off_the_token_runs_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        put_skill(tmp_path, scripts__a_dot_sh="touch ran")
        for method, path, body in [
            ("POST", "/v1/scripts/tea/run", {}),
            ("POST", "/v1/scripts", {"name": "a.sh", "kind": "script", "files": {"a.sh": "x"}}),
            ("PUT", "/v1/scripts/tea/file", {"file": "scripts/a.sh", "text": "x"}),
            ("POST", "/v1/scripts/tea/revert", {"version": 1}),
        ]:
            response = await house.client.request(method, path, json=body)
            assert response.status_code == 409
            assert "tools.scripts = true" in response.json()["advice"]
        assert (await house.client.delete("/v1/scripts/tea")).status_code == 409
        assert (await house.client.get("/v1/scripts")).json()["scripts"][0]["name"] == "tea"


@pytest.mark.slow
async def test_a_script_runs_to_its_end(daemon: House, tmp_path: Path) -> None:
    put_file(tmp_path / "scripts" / "备份.sh", 'echo "$@"; cat; echo no >&2; exit 3')
    body = {"arguments": ["a b"], "input": "in"}
    result = (await daemon.client.post("/v1/scripts/备份.sh/run", json=body)).json()
    assert result == {
        "name": "备份.sh",
        "exit_code": 3,
        "timed_out": False,
        "stdout": "a b\nin",
        "stderr": "no\n",
    }
    put_file(tmp_path / "scripts" / "备份.sh.toml", "parameters.properties.n = {type = 'integer'}")
    refused = await daemon.client.post("/v1/scripts/备份.sh/run", json={"parameters": {"n": "3"}})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:rondo:invalid-input")


@pytest.mark.slow
async def test_output_streams_and_who_goes_away_ends_the_run(daemon: House, tmp_path: Path) -> None:
    go, note = tmp_path / "go", tmp_path / "pid"
    text = f"echo 茶; while [ ! -e {go} ]; do sleep 0.01; done; echo last\n"
    put_file(tmp_path / "scripts" / "s.sh", text)
    stream = {"Accept": "text/event-stream"}
    path = "/v1/scripts/s.sh/run"
    async with daemon.client.stream("POST", path, json={}, headers=stream) as response:
        frames = [frame async for frame in _noted(response, go)]
    assert [frame.event for frame in frames][-1] == "script.finished"
    assert frames[0].data == {"stream": "stdout", "text": "茶\n"}
    assert frames[-1].data["stdout"] == "茶\nlast\n"
    put_file(tmp_path / "scripts" / "s.sh", f"sleep 1000 &\necho $! > {note}\necho begun\nwait\n")
    async with daemon.client.stream("POST", path, json={}, headers=stream) as response:
        async for _ in frames_of(response):
            break
    with anyio.fail_after(60):
        while _is_alive(int(note.read_text())):
            await anyio.sleep(0.01)


async def _noted(response: httpx2.Response, go: Path) -> AsyncIterator[Frame]:
    """The events, with a file that is made once the first one has come."""
    async for frame in frames_of(response):
        await anyio.Path(go).touch()
        yield frame


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
