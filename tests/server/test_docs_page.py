"""``/docs`` shows the API without the web: nothing of it comes from, or goes to, another host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread
import httpx2
import pytest

from tests.support.server.http_daemon import House

pytestmark = pytest.mark.anyio

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


async def test_the_page_and_all_that_it_loads_is_there_without_a_token(house: House) -> None:
    async with httpx2.AsyncClient(base_url=house.url, trust_env=False) as stranger:
        page = await stranger.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "http" not in page.text
        loaded = re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text)
        assert len(loaded) == 3
        for path in loaded:
            part = await stranger.get(path)
            assert part.status_code == 200, path
            kind = "text/css" if path.endswith("css") else "text/javascript"
            assert part.headers["content-type"].startswith(kind)
            again = await stranger.get(
                path, headers={"If-None-Match": part.headers.get("etag", "")}
            )
            assert again.status_code == (304 if "assets" in path else 200)
        assert (await stranger.get("/docs/assets/__init__.py")).status_code == 401
        assert (await stranger.get("/docs/assets/../main.py")).status_code in (401, 404)
        assert (await stranger.head("/docs")).status_code == 200


async def test_a_browser_is_told_to_load_and_send_nothing_elsewhere(house: House) -> None:
    policy = (await house.client.get("/docs")).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == rules["script-src"] == "'self'"
    assert not re.search(r"https?:|\*|unsafe-eval", policy)


async def test_what_is_not_there_below_the_page_is_a_problem_in_words(house: House) -> None:
    answer = await house.client.get("/docs/assets/nothing.js")
    assert answer.status_code == 404
    assert answer.json()["advice"]


@pytest.mark.slow
@pytest.mark.skipif(
    BROWSER is None,
    reason="no Chromium on this machine: Debian has one in its package chromium-headless-shell",
)
async def test_a_browser_without_any_other_host_shows_the_operations(
    house: House, tmp_path: Path
) -> None:
    log = tmp_path / "net.json"
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--log-net-log={log}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        f"{house.url}/docs",
    ]
    run = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    )
    shown = set(re.findall(r'data-path="([^"]+)"', run.stdout))
    described = (await house.client.get("/openapi.json")).json()["paths"]
    assert {path.replace("\u200b", "") for path in shown} == set(described)
    assert "Authorize" in run.stdout
    asked = _asked(log, house.url)
    assert {"/openapi.json", "/docs/start.js"} <= {urlsplit(url).path for url in asked}
    assert {urlsplit(url).hostname for url in asked} == {"127.0.0.1"}


def _asked(log: Path, page: str) -> list[str]:
    """What the page asked for. The browser's own requests are begun by no page."""
    events = json.loads(log.read_text())["events"]
    begun = [event["params"] for event in events if "initiator" in event.get("params", {})]
    return [params["url"] for params in begun if params["initiator"].startswith(page)]
