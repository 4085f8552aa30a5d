"""A store is asked questions made from itself, and what is lost since the last check is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.errors import InvalidInputError, StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.memory.memory import Memory
from service.memory.search_check import SearchChecker
from tests.support.memory.exchanging import at_work
from tests.support.memory.journal_file import rows, writing
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import Loop, archived, forget, record_exchange, working_memory

pytestmark = pytest.mark.anyio

SAID = [
    ("Where did I moor the boat this summer?", "It lies at pier nine of the harbour in Lund."),
    ("What goes into grandmother's winter soup?", "Leeks, potatoes, cream and a little nutmeg."),
    ("钢琴什么时候需要调音？", "调音师星期四下午三点半到家里来。"),
    ("Which paint did we use for the kitchen?", "Pale ochre number twelve, two coats of it."),
    ("我们上次去爬山是在哪座山？", "去年十月爬的是黄山，住在山顶的宾馆。"),
    ("Who repairs old bicycles in our street?", "Signe in number four, on Tuesday evenings."),
]


async def fill(memory: Memory) -> None:
    for number, (question, answer) in enumerate(SAID):
        await record_exchange(memory, f"loop{number}", question, answer)
    await memory.archivist.drain()
    await memory.long_term.embed_pending()


def kept(folder: Path) -> Path:
    (path,) = folder.glob("search-check-*.json")
    return path


async def test_a_store_that_is_as_it_was_has_lost_nothing(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        checker = SearchChecker(memory, owner="me")
        first = await checker.check()
        assert first.earlier is None
        assert first.asked == first.found >= len(SAID)
        assert first.by_kind["answer"][1] > 0
        assert first.by_kind["quote"][1] > 0
        assert sum(asked for _, asked in first.by_kind.values()) == first.asked
        again = await checker.check()
        assert again.earlier is not None
        assert (again.earlier.asked, again.earlier.lost, again.earlier.gained) == (
            first.asked,
            0,
            0,
        )
        assert not again.earlier.finds_less
    words = kept(tmp_path).read_text("utf-8")
    assert not any(part in words for part in ("harbour", "Lund", "nutmeg", "钢琴", "黄山"))


async def test_what_is_not_found_any_more_is_told_with_its_anchors(tmp_path: Path) -> None:
    async with at_work(tmp_path) as memory:
        await fill(memory)
        first = await SearchChecker(memory, owner="me").check()
        assert first.found > 5
        assert first.embedder is None
    with writing(tmp_path / "memory.sqlite3") as db:
        db.execute("DELETE FROM words")  # a lexical index that finds nothing
    async with at_work(tmp_path) as memory:
        second = await SearchChecker(memory, owner="me").check()
    assert second.found == 0
    assert second.earlier is not None
    assert second.earlier.lost == first.found
    assert second.earlier.finds_less
    assert set(second.earlier.lost_anchors) <= {
        f"{loop}:{iteration}.{number}"
        for loop, iteration, number in rows(
            tmp_path / "memory.sqlite3", "SELECT run_loop_id, iteration, segment FROM segments"
        )
    }


async def test_what_was_forgotten_is_not_asked_for_again(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        checker = SearchChecker(memory, owner="me")
        first = await checker.check()
        await forget(memory, ForgetRequest(run_loop_ids=("loop0", "loop2")))
        second = await checker.check()
        assert second.earlier is not None
        assert second.earlier.asked == second.asked < first.asked
        assert second.earlier.lost == 0


async def test_each_owner_has_a_check_of_their_own(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        await SearchChecker(memory, owner="me").check()
        with pytest.raises(InvalidInputError, match="nothing yet"):
            await SearchChecker(memory, owner="you").check()
        theirs = Loop(memory, "theirs", owner="you")
        await (await theirs.say("Where is my umbrella, the long one?")).answer("At the tailor's.")
        await theirs.end()
        await archived(memory)
        check = await SearchChecker(memory, owner="you").check()
        assert check.earlier is None
        assert check.asked <= 2


async def test_a_kept_check_that_was_cut_short_is_a_first_one(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        checker = SearchChecker(memory, owner="me")
        await checker.check()
        kept(tmp_path).write_bytes(kept(tmp_path).read_bytes()[:40])
        assert (await checker.check()).earlier is None
        assert (await checker.check()).earlier is not None


async def test_a_check_that_cannot_be_kept_says_so(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        checker = SearchChecker(memory, owner="me")
        await checker.check()
        path = kept(tmp_path)
        path.unlink()
        path.mkdir()
        with pytest.raises(StorageError, match="cannot be used"):
            await checker.check()


@pytest.mark.parametrize("questions", [0, 2001])
async def test_how_many_can_be_asked_is_bounded(tmp_path: Path, questions: int) -> None:
    async with working_memory(tmp_path, WordEmbedder()) as memory:
        with pytest.raises(InvalidInputError, match="questions cannot be asked"):
            await SearchChecker(memory, owner="me").check(questions)


async def test_of_a_large_store_as_many_are_asked_for_as_were_wanted(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await fill(memory)
        checker = SearchChecker(memory, owner="me")
        few = await checker.check(3)
        assert few.asked == 3
        more = await checker.check(5)
        assert more.earlier is not None
        assert (more.earlier.asked, more.asked) == (3, 5)
