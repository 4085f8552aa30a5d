"""The vector index over HTTP and from a terminal: what is told of it, and building it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from service.cli.model_checks import check_vectors
from service.config import ServerSettings, Settings
from tests.support.cli.commands import Terminal
from tests.support.memory.indexing import assert_whole, other_embedder
from tests.support.memory.remembering import WordEmbedder
from tests.support.server.http_daemon import House, running

pytestmark = pytest.mark.anyio


async def stats_of(house: House) -> dict[str, Any]:
    stats: dict[str, Any] = (await house.client.get("/v1/memory/stats")).json()
    return stats


async def test_without_an_embedder_reindex_is_refused_in_words(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        refused = await house.client.post("/v1/memory/reindex")
        assert refused.status_code == 409
        assert "no embedder" in refused.json()["detail"]
        assert (await house.client.post("/v1/memory/reindex", json={"x": 1})).status_code == 422
        stats = await stats_of(house)
        assert stats["progress"] is None
        assert stats["index"]["embedder"] is None


@pytest.mark.slow
async def test_another_embedder_is_told_everywhere_and_reindex_mends_it(tmp_path: Path) -> None:
    async with running(tmp_path, embedder=WordEmbedder()) as house:
        for number in range(5):
            sent = await house.send(f"answer {number}")
            await house.client.post(f"/v1/run-loops/{sent['run_loop_id']}/complete")
        with anyio.fail_after(20):
            while (stats := await stats_of(house))["embedded"] < 10 or stats["pending"]:
                await anyio.sleep(0.02)
    async with running(tmp_path, embedder=other_embedder()) as house:
        with anyio.fail_after(20):
            while "reindex" not in ((stats := await stats_of(house))["index"]["notice"] or ""):
                await anyio.sleep(0.02)
        assert stats["index"]["embedder"] == WordEmbedder.identity
        assert stats["index"]["configured"].startswith("other-words")
        results = (await house.client.post("/v1/memory/search", json={"query": "answer 3"})).json()
        assert results["mode"] == "lexical"
        assert "`rondo memory reindex`" in results["notice"]
        terminal = Terminal(tmp_path, int(house.url.rsplit(":", 1)[1]))
        settings = Settings(
            data_dir=tmp_path, server=ServerSettings(port=int(house.url.rsplit(":", 1)[1]))
        )
        finding = await anyio.to_thread.run_sync(check_vectors, settings)
        assert finding.verdict == "note"
        assert "other-words" in finding.words
        assert "`rondo memory reindex`" in finding.words
        shown = await anyio.to_thread.run_sync(terminal.run, "memory", "stats")
        assert "rondo memory reindex" in " ".join(shown.stderr.split())
        done = await anyio.to_thread.run_sync(terminal.run, "memory", "reindex")
        assert done.exit_code == 0, done.stderr
        assert "holds 10 segments" in " ".join(done.stderr.split())
        again = await anyio.to_thread.run_sync(terminal.run, "memory", "reindex")
        assert "nothing to do" in again.stderr
        results = (await house.client.post("/v1/memory/search", json={"query": "answer 3"})).json()
        assert results["mode"] == "hybrid"
        forced = await anyio.to_thread.run_sync(
            terminal.run, "memory", "reindex", "--force", "--json"
        )
        assert '"started": true' in forced.stdout
    assert_whole(tmp_path, segments=10)
