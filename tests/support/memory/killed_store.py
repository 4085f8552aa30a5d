"""Writes to a store until it is killed, and tells each number once what it wrote is acknowledged.

As a program: ``python -m tests.support.memory.killed_store KIND FOLDER``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio

from service.domain.conversation.messages import Message
from service.domain.history.events import RunLoopStarted
from service.memory.journal.inbox import InboxEntry
from service.memory.journal.sqlite.sqlite_journal import SqliteJournal
from service.memory.ledger.sqlite.sqlite_ledger import SqliteLedger
from tests.support.histories import received
from tests.support.memory.remembering import run_loop

_ROOT = Path(__file__).parents[3]


def killed_after(count: int, kind: str, folder: Path) -> int:
    """Let a process write, and kill it once it has told so many; how many it has told by then."""
    program = [sys.executable, "-m", "tests.support.memory.killed_store", kind, str(folder)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        for _ in range(count):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        return count + len(process.stdout.read().splitlines())


async def _main(kind: str, folder: Path) -> None:
    ledger = SqliteLedger(folder / "memory.sqlite3")
    journal = SqliteJournal(folder / "journal.sqlite3")
    if kind == "ledger":
        ledger.open()
    else:
        journal.open(lambda change: None)
    for number in range(1_000_000):
        name = f"第{number}"
        if kind == "ledger":
            ledger.archive(run_loop(name, (f"question {name}", f"answer {name}")))
        elif kind == "inbox":
            await journal.inbox.accept(InboxEntry(name, "me", Message.user(f"message {name}")))
        else:
            opening = RunLoopStarted(goal=f"goal {name}")
            await journal.append(name, opening, received(name), owner="me")
        print(number, flush=True)


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1], Path(sys.argv[2]))
