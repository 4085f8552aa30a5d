"""Starting the workers: each run of a benchmark is a process of its own.

A peer's runs by a Python that has the peers. They have no place in Rondo's own environment: theirs
is made by ``scripts/bench-peers.sh``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import service
from service.bench.loop.bench_worker import Run
from service.bench.parameters import BenchmarkError

_PACKAGE = Path(service.__file__).parent
_MISLEADING = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")
_QUIET = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
_ROOT = Path(service.__file__).parents[1]
_OWN = _ROOT / ".venv-peers" / "bin" / "python"
_ASK = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""
PEER_SECONDS = 60.0
"""What a peer may take for all its runs of one length."""


def run_worker(
    module: str, *arguments: int, python: str = sys.executable, timeout: float | None = None
) -> Any:
    """Run a worker once.

    Args:
        module: its name; it is given a number, a folder, and the other numbers.
        arguments: the numbers, at least one.
        python: what runs it. It finds our package, and otherwise only what is its own.
        timeout: seconds that it may take.

    Returns:
        What it told; of the shape that the worker says.

    Raises:
        BenchmarkError: the worker failed.
        TimeoutError: it took too long, and was ended.
    """
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        # Only this package, not what is installed beside it, is put in the way of another Python.
        (Path(folder) / _PACKAGE.name).symlink_to(_PACKAGE)
        count, *others = (str(each) for each in arguments)
        try:
            done = subprocess.run(
                [python, "-m", module, count, str(Path(folder) / "data"), *others],
                cwd=folder,
                env=_environment(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{module} took more than {timeout:g} s") from None
        except OSError as error:
            raise BenchmarkError(f"{python} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise BenchmarkError(
            f"{module} with {python} ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}",
            advice="The lines above say why. A peer may have changed with its version.",
        )
    return json.loads(done.stdout)


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in _MISLEADING}
    return {**kept, **_QUIET}


@dataclass(frozen=True, slots=True)
class Peer:
    """Another library at the same work."""

    name: str
    module: str
    """The worker that measures it."""
    packages: tuple[str, ...]
    """What must be installed for it."""


PEERS = (
    Peer("pydantic-ai", "service.bench.loop.peers.pydantic_ai", ("pydantic-ai-slim",)),
    Peer("openai-agents", "service.bench.loop.peers.openai_agents", ("openai-agents",)),
    Peer(
        "langgraph",
        "service.bench.loop.peers.langgraph",
        ("langgraph", "langgraph-checkpoint-sqlite"),
    ),
)


@dataclass(frozen=True, slots=True)
class PeerPython:
    """A Python that has all peers."""

    path: str
    version: str
    packages: Mapping[str, str]
    """Versions: of each peer by its name, and of what else is needed for it."""


def find_peers(named: Path | None = None) -> PeerPython:
    """The Python that has the peers: the one that is named, else theirs, else our own.

    Raises:
        BenchmarkError: none has them all; says how to install them.
    """
    candidates = [str(named)] if named else [str(_OWN), sys.executable]
    required = [package for peer in PEERS for package in peer.packages]
    for path in candidates:
        versions = _versions(path, required)
        if all(package in versions for package in required):
            names = {peer.packages[0]: peer.name for peer in PEERS}
            packages = {names.get(each, each): versions[each] for each in required}
            return PeerPython(path, versions["python"], packages)
    raise BenchmarkError(
        f"{', '.join(required)} are not all installed in {' or '.join(candidates)}",
        title="The libraries to compare with are missing",
        advice="Run `scripts/bench-peers.sh`, which installs them into .venv-peers; or name a"
        " Python that has them, with --peer-python.",
    )


def _versions(python: str, packages: list[str]) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK, *packages], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return {}  # there is no such Python, or it does not start
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


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
