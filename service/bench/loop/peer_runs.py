"""Runs of one peer with loops of one length, as many as its time allows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from service.bench.loop.bench_worker import Run
from service.bench.loop.peer_python import Peer
from service.bench.loop.worker_process import run_worker

PEER_SECONDS = 60.0
"""What a peer may take for all its runs of one length."""


@dataclass(slots=True)
class PeerRuns:
    """A peer's runs so far."""

    peer: Peer
    python: str
    length: int
    runs: list[Run] = field(default_factory=list)
    _taken: float = 0.0

    def once_more(self) -> None:
        """Run it again, unless that would take it past its time.

        Raises:
            BenchmarkError: the run failed.
        """
        expected = self._taken / len(self.runs) if self.runs else 0.0
        if self._taken + expected > PEER_SECONDS:
            return
        begun = time.monotonic()
        try:
            seen: Run = run_worker(
                self.peer.module, self.length, python=self.python, timeout=PEER_SECONDS
            )
        except TimeoutError:
            self._taken = math.inf
        else:
            self.runs.append(seen)
            self._taken += time.monotonic() - begun

    def shortfall(self, repeats: int) -> str | None:
        """What was not measured of it, in words; None when all was."""
        if len(self.runs) == repeats:
            return None
        said = f"{self.peer.name}, {self.length} steps: more than {PEER_SECONDS:g} s"
        if self.runs:
            return f"{said} for {repeats} runs, so only {len(self.runs)} count"
        return f"{said}, so it is left out"
