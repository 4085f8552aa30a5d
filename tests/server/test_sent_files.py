"""A file is sent over HTTP as a part of a message."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from service.config import ToolsSettings
from tests.support.server.http_daemon import problem_of, running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DATA = base64.b64encode("茶在谷仓\n".encode()).decode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "name": "茶.txt", "data": DATA},
        {"type": "file", "name": "茶.txt", "data": f"data:text/plain;base64,{DATA}"},
        {"type": "file", "file": {"filename": "茶.txt", "file_data": f"data:;base64,{DATA}"}},
    ],
)
async def test_a_file_goes_with_a_message(tmp_path: Path, part: dict[str, Any]) -> None:
    async with running(
        tmp_path / "data", tool_settings=ToolsSettings(files_write=(tmp_path,))
    ) as house:
        words = {"type": "text", "text": "What is it?"}
        sent = (await house.send([words, part]))["run_loop_id"]  # type: ignore[arg-type]
        whole = (await house.client.get(f"/v1/run-loops/{sent}")).json()
        assert whole["goal"] == "What is it? (a file: 茶.txt)"
        [kept] = (tmp_path / "data" / "sent-files").iterdir()
        assert kept.read_bytes().endswith("\n茶在谷仓\n".encode())
        tools = (await house.client.get("/v1/tools")).json()["tools"]
        assert "read_file" in [each["name"] for each in tools]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"data": "no base64!"}, "cannot be read"),
        ({"data": "data:text/plain,plain"}, "cannot be read"),
        ({}, "data"),
        ({"data": DATA, "more": 1}, "more"),
    ],
)
async def test_what_is_no_file_is_refused(tmp_path: Path, part: dict[str, Any], words: str) -> None:
    async with running(tmp_path) as house:
        body = {"message": [{"type": "file", "name": "x", **part}]}
        problem = problem_of(await house.client.post("/v1/send", json=body), 422)
        assert words in problem["detail"]
        assert not (tmp_path / "sent-files").exists()
