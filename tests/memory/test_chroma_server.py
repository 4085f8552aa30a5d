"""The vector index on a real Chroma server, and how a client for the cloud is made."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from service.config import MemorySettings
from service.domain.errors import IndexUnreachableError
from service.memory.stores import long_term_memory
from service.memory.vectors.chroma.chroma_index import collection_names
from service.memory.vectors.chroma.chroma_places import RemotePlace
from tests.support.memory.indexing import folders, index_of, nearest, rows
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop

LOOPS = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(20)]


def free_port() -> int:
    """A port that nobody uses, below those that are given to connections by themselves."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(folder: Path, port: int) -> Iterator[None]:
    """A `chroma run`, from when it answers until it is killed."""
    command = [Path(sys.executable).with_name("chroma"), "run", "--path", folder, "--port", port]
    with subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None, "the server ended"
                time.sleep(0.05)
            yield
        finally:
            process.kill()


def on_server(port: int, **more: Any) -> MemorySettings:
    return MemorySettings(chroma="server", chroma_port=port, **more)


def collections_on(settings: MemorySettings) -> list[str]:
    client = RemotePlace(settings, lambda: "nobody").client()
    try:
        return sorted(collection_names(client))
    finally:
        client.close()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_holds_the_index_and_nobody_elses_collections_are_touched(
    tmp_path: Path,
) -> None:
    settings = on_server(port := free_port())
    with serving(tmp_path / "server", port):
        client = RemotePlace(settings, lambda: "nobody").client()
        client.create_collection("of-somebody-else")
        client.close()
        home, other_home = tmp_path / "home", tmp_path / "other"
        home.mkdir()
        other_home.mkdir()
        loops = (run_loop("elsewhere", ("figs", "plums")),)
        async with remembering(other_home, WordEmbedder(), *loops, chroma=settings):
            pass
        before = collections_on(settings)
        async with remembering(home, WordEmbedder(), *LOOPS, chroma=settings) as memory:
            assert nearest(memory, home, "answer 7") == ["answer 7"]
            index = await index_of(memory)
            assert index.place == f"server http://127.0.0.1:{port}"
            assert folders(home) == []
            await memory.index.scrub()
            assert await memory.index.scrubbed()
            assert nearest(memory, home, "answer 7") == ["answer 7"]
            assert len(collections_on(settings)) == len(before) + 1
        assert set(before) < set(collections_on(settings))
        again = WordEmbedder()
        async with remembering(home, again, chroma=settings) as memory:
            assert again.passages == []
            assert (await memory.stats()).pending == 0


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_server_that_goes_away_loses_nothing_and_is_used_again(tmp_path: Path) -> None:
    settings = on_server(port := free_port())
    home = tmp_path / "home"
    home.mkdir()
    memory = long_term_memory(home, WordEmbedder(), chroma=settings)
    await memory.start()
    for loop in LOOPS[:10]:
        await memory.archive(loop)
    problem = (await memory.embed_pending()).problem
    assert problem is not None
    assert problem.kind == "index-unreachable"
    assert f"127.0.0.1:{port}" in problem.in_words()
    dense = memory.index.dense
    assert dense is not None
    assert "Start the server" in (dense.why_not() or "")
    with serving(tmp_path / "server", port):
        assert (await memory.embed_pending()).problem is None
        assert nearest(memory, home, "answer 7") == ["answer 7"]
    with pytest.raises(IndexUnreachableError, match="cannot be read"):
        nearest(memory, home, "answer 7")
    for loop in LOOPS[10:]:
        await memory.archive(loop)
    assert (await memory.embed_pending()).problem is not None
    assert (await memory.stats()).pending == 20
    with serving(tmp_path / "server", port):
        assert (await memory.embed_pending()).problem is None
        assert nearest(memory, home, "answer 17") == ["answer 17"]
        assert (await memory.stats()).pending == 0
        assert rows(home, "SELECT count(*) FROM vectors") == [(40,)]
        await memory.aclose()


@pytest.mark.slow
@pytest.mark.anyio
async def test_collections_that_somebody_deleted_are_built_anew(tmp_path: Path) -> None:
    settings = on_server(port := free_port())
    home = tmp_path / "home"
    home.mkdir()
    with serving(tmp_path / "server", port):
        async with remembering(home, WordEmbedder(), *LOOPS, chroma=settings) as memory:
            client = RemotePlace(settings, lambda: "nobody").client()
            for name in collection_names(client):
                client.delete_collection(name)
            client.close()
            with pytest.raises(Exception, match="read"):
                nearest(memory, home, "answer 7")
            await memory.embed_pending()
            assert nearest(memory, home, "answer 7") == ["answer 7"]


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_index_moves_from_the_folder_to_a_server_without_embedding_anything(
    tmp_path: Path,
) -> None:
    settings = on_server(port := free_port())
    home = tmp_path / "home"
    home.mkdir()
    async with remembering(home, WordEmbedder(), *LOOPS):
        assert folders(home) == ["1"]
    with serving(tmp_path / "server", port):
        embedder = WordEmbedder()
        async with remembering(home, embedder, chroma=settings) as memory:
            assert embedder.passages == []
            assert nearest(memory, home, "answer 7") == ["answer 7"]
            assert folders(home) == [], "what is not used any more is not left lying about"
    async with remembering(home, WordEmbedder()) as memory:
        assert nearest(memory, home, "answer 7") == ["answer 7"]


def test_the_cloud_is_asked_with_the_key_and_without_telemetry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import chromadb

    given: dict[str, Any] = {}

    def client(**named: Any) -> object:
        given.update(named)
        return object()

    monkeypatch.setattr(chromadb, "CloudClient", client)
    settings = MemorySettings(
        chroma="cloud", chroma_api_key="ck-1", chroma_tenant="t", chroma_database="d"
    )
    place = RemotePlace(settings, lambda: "abc")
    assert place.name == "cloud t/d"
    place.client()
    assert (given["api_key"], given["tenant"], given["database"]) == ("ck-1", "t", "d")
    assert given["settings"].anonymized_telemetry is False
    assert given.keys() == {"api_key", "tenant", "database", "settings"}


def test_a_server_is_asked_with_the_headers_that_are_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import chromadb

    given: dict[str, Any] = {}

    def client(**named: Any) -> object:
        given.update(named)
        return object()

    monkeypatch.setattr(chromadb, "HttpClient", client)
    settings = on_server(
        8443, chroma_ssl=True, chroma_host="example.org", chroma_token="t0",
        chroma_headers={"X-Proxy": "p0"},
    )  # fmt: skip
    RemotePlace(settings, lambda: "abc").client()
    assert given["headers"] == {"X-Proxy": "p0", "Authorization": "Bearer t0"}
    assert (given["host"], given["port"], given["ssl"]) == ("example.org", 8443, True)
    assert given["settings"].anonymized_telemetry is False
