"""Over HTTP: a question shows what would change in a file, and a change is taken back."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.config import ToolsSettings
from tests.support.server.http_daemon import PatientLLM, problem_of, running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRITE = 'call: write_file {"path": "新.txt", "content": "茶\\n"}'


async def test_a_change_is_shown_made_listed_and_taken_back(tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    path = home / "新.txt"
    async with running(
        tmp_path / "data", llm=PatientLLM(WRITE), tool_settings=ToolsSettings(files_write=(home,))
    ) as house:
        assert (await house.client.get("/v1/files/changes")).json() == {"changes": []}
        waiting = await house.send("write")
        request = waiting["input_required"]
        [preview] = request["previews"].values()
        assert preview == f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+茶"
        loop = f"/v1/run-loops/{waiting['run_loop_id']}"
        answer = {"approved": True, "request_id": request["request_id"]}
        response = await house.client.post(f"{loop}/input", json=answer)
        assert response.status_code == 200, response.text
        with anyio.fail_after(10):
            while (await house.client.get(loop)).json()["status"] != "idle":
                await anyio.sleep(0.01)
        assert path.read_text("utf-8") == "茶\n"

        [change] = (await house.client.get("/v1/files/changes")).json()["changes"]
        assert (change["path"], change["is_new"], change["state"]) == (str(path), True, "written")
        address = f"/v1/files/changes/{change['id']}"
        shown = (await house.client.get(address)).json()
        assert shown["difference"] == f"--- {path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-茶"
        path.write_text("mine")
        problem = problem_of(await house.client.post(f"{address}/undo"), 409)
        assert "has been changed, moved or deleted since" in problem["detail"]
        path.write_text("茶\n", "utf-8")
        undone = (await house.client.post(f"{address}/undo")).json()
        assert undone == {"id": change["id"], "path": str(path), "deleted": True}
        assert not path.exists()
        problem_of(await house.client.post(f"{address}/undo"), 404)
        problem_of(await house.client.get("/v1/files/changes/..%2Ftoken"), 404)
