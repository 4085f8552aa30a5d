"""Where the libraries that Rondo is compared with are installed.

They have no place in Rondo's own environment: theirs is made by ``scripts/bench-peers.sh``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import service
from service.bench.parameters import BenchmarkError


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
