"""Forgetting while the disk refuses, and while somebody else takes over an id."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.errors import StorageError
from service.domain.forgetting_terms import ForgetRequest
from service.memory.forgetting import forgetting
from service.memory.journal.rewriting import Record
from service.memory.journal.sqlite import receipt_table
from service.memory.memory import Memory
from tests.memory.test_forgetting import SECRETS, secret_loop
from tests.memory.test_forgetting_reach import bring_in
from tests.support.memory.remembering import WordEmbedder, run_loop
from tests.support.memory.secrets import archived, finished, house, told, traces

pytestmark = pytest.mark.anyio

FULL = StorageError("database or disk is full", advice="Make room.")


def _refuse(*args: Any, **options: Any) -> Any:
    raise FULL


async def _confirmed(memory: Memory, request: ForgetRequest, *, owner: str = "me") -> Any:
    preview = await memory.forgetting.preview(request, owner=owner)
    assert preview.confirm is not None
    return await memory.forgetting.forget(request, preview.confirm, owner=owner, stop=_nobody)


async def _nobody(run_loop_id: str) -> None:
    raise AssertionError("nothing was to be stopped")


def _only_the_first(write: Callable[[Any, Record], None]) -> Callable[[Any, Record], None]:
    """The words leave the journal; from then on nothing more can be written down."""
    written: list[Record] = []

    def limited(db: Any, record: Record) -> None:
        if written:
            raise FULL
        written.append(record)
        write(db, record)

    return limited


@pytest.mark.slow
@pytest.mark.parametrize("failure", [FULL, OSError(28, "No space left on device")])
async def test_a_disk_that_fills_up_in_the_middle_leaves_a_receipt_and_a_memory_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(forgetting, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(forgetting, "_LONGEST_PAUSE", 0.05)

    def refuse(*args: Any) -> Any:
        raise failure

    async with house(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with monkeypatch.context() as full:
            full.setattr(receipt_table, "write", _only_the_first(receipt_table.write))
            full.setattr(memory.long_term._ledger, "forget", refuse)
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending == ("ledger", "files", "vectors")
            assert "No space" in (receipt.problem or "") or "full" in (receipt.problem or "")
            await anyio.sleep(0.3)  # it is tried again some times, and fails
            await told(memory, "later", "How do I bake rye bread?", "With sourdough.")
        await archived(memory)
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_the_records_cannot_even_be_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "_FIRST_PAUSE", 0.02)
    async with house(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with monkeypatch.context() as full:
            full.setattr(receipt_table.ReceiptTable, "unfinished", _refuse)
            full.setattr(receipt_table.ReceiptTable, "find", _refuse)
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending == ("ledger", "files", "vectors")
            assert receipt.problem is not None
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_the_start_does_not_fail_because_forgetting_cannot_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(forgetting, "_LONGEST_PAUSE", 0.05)
    with monkeypatch.context() as full:
        async with Memory(tmp_path, WordEmbedder()) as memory:
            await secret_loop(memory)
            full.setattr(receipt_table, "write", _only_the_first(receipt_table.write))
            receipt = await _confirmed(memory, ForgetRequest(run_loop_ids=("secret",)))
            assert receipt.pending
        async with house(tmp_path) as memory:
            assert (await memory.forgetting.receipts(owner="me"))[0].pending
    async with house(tmp_path) as memory:
        await finished(memory, receipt)
        assert traces(tmp_path, *SECRETS) == []


@pytest.mark.slow
async def test_somebody_else_who_takes_the_id_meanwhile_does_not_keep_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as memory:
        await secret_loop(memory)
        await archived(memory)
        with monkeypatch.context() as full:
            full.setattr(memory.long_term._ledger, "forget", _refuse)
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
