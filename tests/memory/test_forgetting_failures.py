"""Forgetting while the disk refuses, and while somebody else takes over an id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.domain.forgetting_terms import ForgetRequest
from service.memory.memory import Memory
from tests.memory.test_forgetting import SECRETS, secret_loop
from tests.memory.test_forgetting_reach import bring_in
from tests.support.memory.journal_file import refusing, unreadable_receipts
from tests.support.memory.remembering import WordEmbedder, run_loop
from tests.support.memory.secrets import archived, finished, record_exchange, traces, working_memory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ANY_ROW = "(SELECT count(*) FROM forgettings) > 0"
"""The words leave the journal with a first receipt; from then on no other can be written."""


async def _confirmed(memory: Memory, request: ForgetRequest, *, owner: str = "me") -> Any:
    preview = await memory.forgetting.preview(request, owner=owner)
    assert preview.confirm is not None
    return await memory.forgetting.forget(request, preview.confirm, owner=owner, stop=_nobody)


async def _nobody(run_loop_id: str) -> None:
    raise AssertionError("nothing was to be stopped")


async def test_a_disk_that_fills_up_in_the_middle_leaves_a_receipt_and_a_memory_at_work(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with (
            refusing(tmp_path / "journal.sqlite3", "forgettings", "INSERT", ANY_ROW),
            refusing(tmp_path / "memory.sqlite3", "segments", "DELETE"),
        ):
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending == ("ledger", "files", "vectors")
            assert "full" in (receipt.problem or "")
            for _ in range(3):
                assert not await memory.forgetting.finish()
            await record_exchange(memory, "later", "How do I bake rye bread?", "With sourdough.")
        await archived(memory)
        await finished(memory, receipt)  # it is tried again by itself
        assert traces(tmp_path, *SECRETS) == []


async def test_a_file_that_cannot_be_deleted_leaves_the_rest_pending(tmp_path: Path) -> None:
    copy = tmp_path / "journal.before-v3.sqlite3"
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        copy.mkdir()
        receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
        assert receipt.pending == ("files", "vectors")
        assert copy.name in (receipt.problem or "")
        assert not await memory.forgetting.finish()
        copy.rmdir()
        await memory.forgetting.finish()
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


async def test_the_records_cannot_even_be_read_for_a_while(tmp_path: Path) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with unreadable_receipts(tmp_path / "journal.sqlite3"):
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending == ("ledger", "files", "vectors")
            assert receipt.problem is not None
        await memory.forgetting.finish()
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


async def test_the_start_does_not_fail_because_forgetting_cannot_go_on(tmp_path: Path) -> None:
    async with Memory(tmp_path, WordEmbedder()) as memory:
        await secret_loop(memory)
    with refusing(tmp_path / "journal.sqlite3", "forgettings", "INSERT", ANY_ROW):
        async with Memory(tmp_path, WordEmbedder()) as memory:
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending
        async with working_memory(tmp_path) as memory:
            assert (await memory.forgetting.receipts(owner="me"))[0].pending
    async with working_memory(tmp_path) as memory:
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


async def test_somebody_else_who_takes_the_id_meanwhile_does_not_keep_the_words(
    tmp_path: Path,
) -> None:
    async with working_memory(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with refusing(tmp_path / "memory.sqlite3", "segments", "DELETE"):
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert "ledger" in receipt.pending
        theirs = run_loop("secret", ("How do I bake rye bread?", "With sourdough."), owner="you")
        assert (await bring_in(memory, theirs, owner="you")).imported == 1
        await archived(memory)
        await memory.forgetting.finish()
        await finished(memory, receipt)
        assert await memory.long_term.run_loop("secret", owner="me") is None
        assert not (await memory.long_term.search("Zwibbelquast", owner="me")).hits
        assert (await memory.long_term.search("sourdough", owner="you")).hits
        assert traces(tmp_path, *SECRETS) == []
