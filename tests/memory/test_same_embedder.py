"""An embedder is its model, wherever it answers; and another model under its name is another."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from service.memory.embedders.openai_endpoint import OpenAIEmbedder
from tests.memory.test_embedders import Endpoint
from tests.support.memory.indexing import index_of, rows
from tests.support.memory.remembering import remembering, run_loop

pytestmark = pytest.mark.anyio

LOOP = run_loop("r", ("abba", "bab"), ("aaa", "bbb"))

Answer = Callable[[dict[str, object]], tuple[int, object]]


def _model(first: str, second: str) -> Answer:
    """A model that counts two letters."""

    def answer(asked: dict[str, object]) -> tuple[int, object]:
        inputs = asked["input"]
        assert isinstance(inputs, list)
        data = [
            {"object": "embedding", "index": i, "embedding": [t.count(first), t.count(second), 1]}
            for i, t in enumerate(inputs)
        ]
        return 200, {"object": "list", "model": "m", "data": data, "usage": {}}

    return answer


@contextmanager
def _serving(answer: Answer) -> Iterator[Endpoint]:
    server = Endpoint(answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _embedded(server: Endpoint) -> set[str]:
    """Which of the loop's words an endpoint was asked for."""
    asked = (each["input"] for each in server.asked)
    return {text for texts in asked if isinstance(texts, list) for text in texts} & {
        "abba",
        "bab",
        "aaa",
    }


@pytest.mark.slow
async def test_the_same_model_on_another_port_embeds_nothing_again(tmp_path: Path) -> None:
    with _serving(_model("a", "b")) as here, _serving(_model("a", "b")) as there:
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=here.url), LOOP):
            assert _embedded(here) == {"abba", "bab", "aaa"}
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=there.url)) as memory:
            index = await index_of(memory)
            assert index.notice is None
            assert index.built_by == index.configured
            assert _embedded(there) == set()
            assert (await memory.search("abba", owner="me")).mode == "hybrid"


@pytest.mark.slow
async def test_another_model_of_the_same_name_is_noticed_and_the_first_one_known_again(
    tmp_path: Path,
) -> None:
    with _serving(_model("a", "b")) as here, _serving(_model("q", "o")) as there:
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=here.url), LOOP):
            pass
        for _ in range(2):
            async with remembering(tmp_path, OpenAIEmbedder("m", base_url=there.url)) as memory:
                index = await index_of(memory)
                assert index.configured == f"{index.built_by} other=2"
                assert "`rondo memory reindex`" in (index.notice or "")
                assert (await memory.search("abba", owner="me")).mode == "lexical"
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=here.url)) as memory:
            assert (await index_of(memory)).notice is None


@pytest.mark.slow
async def test_an_index_that_was_built_under_an_address_is_known_without_it(
    tmp_path: Path,
) -> None:
    with _serving(_model("a", "b")) as here:
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=here.url), LOOP):
            pass
        with closing(sqlite3.connect(tmp_path / "memory.sqlite3")) as db:
            db.executescript(
                "UPDATE embedders SET identity = replace(identity, 'openai m ',"
                " 'openai http://127.0.0.1:9/v1 m ');"
                "DROP TABLE embedder_probes;"
                "PRAGMA user_version = 4;"
            )
        here.asked.clear()
        async with remembering(tmp_path, OpenAIEmbedder("m", base_url=here.url)) as memory:
            assert (await index_of(memory)).notice is None
            assert _embedded(here) == set()
        assert rows(tmp_path, "SELECT count(*) FROM embedders") == [(1,)]
