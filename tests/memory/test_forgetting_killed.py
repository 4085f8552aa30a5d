"""Forgetting in a process that is killed in the middle: afterwards all is gone, or nothing."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.domain.forgetting_terms import ForgetRequest
from tests.memory.test_forgetting import QUESTION, SECRETS, secret_loop
from tests.support.memory.secrets import Loop, archived, forget, piece, traces, working_memory

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["tests.memory.test_forgetting"])

NOT_YET_DECIDED = [
    ("service.memory.forgetting.selective_redaction", "remove", "after"),
    ("service.memory.journal.sqlite.receipt_table", "write", "after"),
]
DECIDED = [
    ("service.memory.forgetting.just_forgotten:JustForgotten", "learn", "before"),
    ("service.memory.ledger.sqlite.loop_rows", "remove", "before"),
    ("service.memory.ledger.sqlite.loop_rows", "remove", "after"),
    ("service.memory.ledger.sqlite.sqlite_ledger:SqliteLedger", "forget", "after"),
    ("service.memory.ledger.sqlite.sqlite_ledger:SqliteLedger", "scrub", "before"),
    ("service.memory.ledger.sqlite.sqlite_ledger:SqliteLedger", "scrub", "after"),
    ("service.storage.sqlite_file:SqliteFile", "scrub", "after"),
    ("service.memory.forgetting.forgetting:Forgetting", "_clear_vectors", "before"),
    ("service.memory.ledger.sqlite.generation_rows:SqliteGenerations", "create", "after"),
]


def _die(path: str, name: str, moment: str) -> None:
    module, _, kind = path.partition(":")
    place: Any = importlib.import_module(module)
    if kind:
        place = getattr(place, kind)
    original = getattr(place, name)

    def deadly(*args: Any, **options: Any) -> Any:
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, name, deadly)


def _live_and_die(folder: Path, path: str, name: str, moment: str) -> None:
    async def live() -> None:
        async with working_memory(folder) as memory:
            await archived(memory)
            _die(path, name, moment)
            await forget(memory, ForgetRequest(run_loop_ids=("secret",), with_answers=True))

    anyio.run(live)


async def _prepare(folder: Path) -> None:
    async with working_memory(folder) as memory:
        await secret_loop(memory)
        shown = Loop(memory, "shown")
        await shown.say(
            "What was that about the lighthouse?", recalled=[piece("secret", 0, QUESTION)]
        )
        await (await shown.answer(f"You asked: '{QUESTION}' I wonder.")).end()
        await archived(memory)


async def _kill(folder: Path, path: str, name: str, moment: str) -> None:
    process = _forkserver.Process(target=_live_and_die, args=(folder, path, name, moment))
    process.start()
    await anyio.to_thread.run_sync(process.join, 60)
    assert process.exitcode == -signal.SIGKILL, f"it was not killed there: {process.exitcode}"


@pytest.mark.parametrize(("path", "name", "moment"), DECIDED)
async def test_what_was_begun_is_finished_by_the_next_start(
    tmp_path: Path, path: str, name: str, moment: str
) -> None:
    await _prepare(tmp_path)
    await _kill(tmp_path, path, name, moment)
    async with working_memory(tmp_path) as memory:
        # From the first moment on nothing is found, whatever lies in the files still.
        response = await memory.long_term.search("vermilion sextant", owner="me")
        assert {hit.anchor.run_loop_id for hit in response.hits} <= {"shown"}
        with anyio.fail_after(60):
            while (await memory.forgetting.receipts(owner="me"))[0].pending:
                await anyio.sleep(0.02)
        assert traces(tmp_path, *SECRETS) == []
        assert len(await memory.forgetting.receipts(owner="me")) == 1
        await archived(memory)
        assert (await memory.journal.replay("shown")).iteration_count == 1


@pytest.mark.parametrize(("path", "name", "moment"), NOT_YET_DECIDED)
async def test_what_was_not_written_down_has_not_happened(
    tmp_path: Path, path: str, name: str, moment: str
) -> None:
    await _prepare(tmp_path)
    await _kill(tmp_path, path, name, moment)
    async with working_memory(tmp_path) as memory:
        assert await memory.forgetting.receipts(owner="me") == []
        assert (await memory.journal.replay("secret")).run_loop().goal == QUESTION
        receipt = await forget(memory, ForgetRequest(run_loop_ids=("secret",), with_answers=True))
        assert receipt.finished_at is not None
    assert traces(tmp_path, *SECRETS) == []
