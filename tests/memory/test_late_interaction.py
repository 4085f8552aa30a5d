"""Searching by tokens: what is kept of them, when, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from service.domain.errors import EmbeddingError
from service.domain.forgetting_terms import ForgetRequest
from service.memory.embedders.query_cache import QueryCache
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Embedded
from tests.support.memory.journal_file import refusing, rows, writing
from tests.support.memory.remembering import WordEmbedder, remembering, run_loop
from tests.support.memory.secrets import archived, forget, record_exchange, traces, working_memory
from tests.support.memory.word_tokens import WordTokenEmbedder, coded

pytestmark = pytest.mark.anyio

LOOPS = [run_loop(f"r{i}", (f"question {i}", f"answer {i}")) for i in range(20)]
TEXTS = {text for i in range(20) for text in (f"question {i}", f"answer {i}")}


async def coded_all(folder: Path, texts: set[str]) -> None:
    """Wait until these segments have their codes, and no others."""
    with anyio.fail_after(30):
        while coded(folder).keys() != texts:
            await anyio.sleep(0.02)


async def test_what_is_embedded_by_tokens_is_kept_with_its_vector(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordTokenEmbedder(), *LOOPS) as memory:
        assert coded(tmp_path).keys() == TEXTS
        assert {len(codes) for codes in coded(tmp_path).values()} == {2 * 1024 // 8}
        (best, *_) = (await memory.search("answer 7", owner="me", explain=True)).hits
        assert best.content == "answer 7"
        assert best.scores is not None
        assert best.scores["match"] > 0.7


async def test_without_states_vectors_rank_as_before(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS) as memory:
        found = (await memory.search("answer 7", owner="me", explain=True)).hits
        assert coded(tmp_path) == {}
        assert all("match" not in (hit.scores or {}) for hit in found)
        assert all("cosine" in (hit.scores or {}) for hit in found)


async def test_a_question_is_embedded_once_for_its_vector_and_its_tokens(tmp_path: Path) -> None:
    embedder = WordTokenEmbedder()
    cached = QueryCache(embedder)
    async with remembering(tmp_path, cached, *LOOPS) as memory:
        cached.embed_queries(["answer 7"])  # as the router does
        await memory.search("answer 7", owner="me")
        await memory.search("answer 7", owner="me")
        assert embedder.asked_by_token.count("answer 7") == 1


async def test_codes_come_later_where_the_states_do(tmp_path: Path) -> None:
    embedder = WordTokenEmbedder(ready=False)
    async with working_memory(tmp_path, embedder) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
        assert coded(tmp_path) == {}, "nobody has waited for them"
        (best, *_) = (await memory.long_term.search("pears", owner="me")).hits
        assert best.content == "pears"
        embedder.ready.set()
        await coded_all(tmp_path, {"pears", "green"})
        await record_exchange(memory, "s", "plums", "blue")
        await archived(memory)
        await coded_all(tmp_path, {"pears", "green", "plums", "blue"})
    assert embedder.passages.count("pears") == 2, "once for the vector, once for the codes"
    assert embedder.passages.count("plums") == 1


async def test_how_far_coding_has_come_can_be_read(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordEmbedder(), *LOOPS) as memory:
        assert memory.index.queue.progress() is None
    async with remembering(tmp_path, WordTokenEmbedder()) as memory:
        assert await anyio.to_thread.run_sync(memory.index.queue.add_codes)
        progress = memory.index.queue.progress()
        assert progress is not None
        assert (progress.doing, progress.total) == ("indexing tokens", 40)
        assert progress.done == len(coded(tmp_path))
        while await anyio.to_thread.run_sync(memory.index.queue.add_codes):
            pass
        assert memory.index.queue.progress() is None
    assert coded(tmp_path).keys() == TEXTS


async def test_a_model_that_never_gives_states_is_not_asked_again(tmp_path: Path) -> None:
    embedder = WordTokenEmbedder(ready=False)
    embedder.never = True
    async with working_memory(tmp_path, embedder) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
        await memory.long_term.index.coding.ended.wait()
        assert memory.long_term.index.coding.problem is None
    assert embedder.passages == ["pears", "green"]


async def test_a_store_of_an_older_version_gets_its_codes(tmp_path: Path) -> None:
    async with working_memory(tmp_path, WordTokenEmbedder()) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
    with writing(tmp_path / "memory.sqlite3") as db:
        db.execute("DROP TABLE token_codes")
        db.execute("PRAGMA user_version = 5")
    async with working_memory(tmp_path, WordTokenEmbedder()) as memory:
        await archived(memory)
        await coded_all(tmp_path, {"pears", "green"})


async def test_what_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    async with working_memory(tmp_path, WordTokenEmbedder(ready=False)) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
    async with working_memory(tmp_path, WordTokenEmbedder()) as memory:
        step = memory.long_term.index.coding
        with refusing(tmp_path / "memory.sqlite3", "token_codes", "INSERT"), anyio.fail_after(30):
            while step.problem is None:
                await anyio.sleep(0.02)
        assert coded(tmp_path) == {}
        await coded_all(tmp_path, {"pears", "green"})
        await archived(memory)


class Choosy(WordTokenEmbedder):
    """Refuses one text when it is asked for states."""

    def embed_passages_by_token(self, texts: list[str]) -> Embedded:  # type: ignore[override]
        if any("pears" in text for text in texts):
            raise EmbeddingError("not this one")
        return super().embed_passages_by_token(texts)


async def test_a_text_that_is_refused_keeps_no_other_from_its_codes(tmp_path: Path) -> None:
    async with working_memory(tmp_path, WordTokenEmbedder(ready=False)) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await record_exchange(memory, "s", "plums", "blue")
        await archived(memory)
    async with working_memory(tmp_path, Choosy()) as memory:
        await coded_all(tmp_path, {"green", "plums", "blue"})
        found = (await memory.long_term.search("pears", owner="me")).hits
        assert found[0].content == "pears", "it is found by its words and its vector"


async def test_forgetting_takes_the_codes_along(tmp_path: Path) -> None:
    async with working_memory(tmp_path, WordTokenEmbedder()) as memory:
        await record_exchange(memory, "r", "Walrosszahn", "long")
        await record_exchange(memory, "s", "pears", "green")
        await archived(memory)
        gone = coded(tmp_path)["Walrosszahn"]
        assert gone in (tmp_path / "memory.sqlite3-wal").read_bytes()
        await forget(memory, ForgetRequest(run_loop_ids=("r",)))
        await coded_all(tmp_path, {"pears", "green"})
    assert traces(tmp_path, "Walrosszahn") == []
    for path in tmp_path.glob("memory.sqlite3*"):
        assert gone not in path.read_bytes()


async def test_another_embedder_leaves_no_codes_of_the_first(tmp_path: Path) -> None:
    async with remembering(tmp_path, WordTokenEmbedder(), *LOOPS):
        assert len(coded(tmp_path)) == 40
    other = WordEmbedder()
    other.identity = "other-words v2 dimension=1024"
    async with remembering(tmp_path, other) as memory:
        await memory.index.reindex(force=False)
        await memory.embed_pending()
        assert coded(tmp_path) == {}


async def test_another_form_of_states_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with working_memory(tmp_path, WordTokenEmbedder()) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
    (before,) = codings(tmp_path)
    other = WordTokenEmbedder()
    other.token_identity = "words as tokens, counted from another centre"
    async with working_memory(tmp_path, other) as memory:
        await archived(memory)
        with anyio.fail_after(30):
            while len(codings(tmp_path)) != 1 or codings(tmp_path) == {before}:
                await anyio.sleep(0.02)
    assert coded(tmp_path).keys() == {"pears", "green"}


def codings(folder: Path) -> set[int]:
    return {row[0] for row in rows(folder / "memory.sqlite3", "SELECT id >> 40 FROM token_codes")}


@pytest.mark.slow
async def test_the_bundled_model_finds_by_tokens_in_two_languages(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    said = [
        ("The padlock of the shed opens with 4711.", "I will remember it."),
        ("下个月三号去上海的火车票订好了。", "好的，记住了。"),
        ("", "😀"),
        ("word " * 900, "That is long."),
    ]
    loops = [run_loop(f"r{at}", pair) for at, pair in enumerate(said)]
    async with remembering(tmp_path, bundled, *loops) as memory:
        for query, text in (("which number opens the shed?", "4711"), ("去上海的火车", "火车票")):
            (best, *_) = (await memory.search(query, owner="me", explain=True)).hits
            assert text in best.content
            assert best.scores is not None
            assert best.scores["match"] > 0.3
    sizes = {text: len(codes) for text, codes in coded(tmp_path).items()}
    assert 48 * 8 <= sizes["The padlock of the shed opens with 4711."] <= 48 * 16
    assert "😀" in sizes


@pytest.mark.slow
async def test_a_quick_start_is_coded_once_the_model_is_there(tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder("bundled:multilingual-e5-small")
    async with working_memory(tmp_path, embedder) as memory:
        await record_exchange(memory, "r", "pears", "green")
        await archived(memory)
        await coded_all(tmp_path, {"pears", "green"})
