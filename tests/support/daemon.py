"""The daemon as a real process, for tests that start it, talk to it, and kill it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import httpx2

ECHO = """
== default
text: You said: {message}
"""
_FOREIGN = ("RONDO_", "OPENAI_", "ANTHROPIC_", "TAVILY_")


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that has said that it is ready."""

    process: subprocess.Popen[str]
    greeting: str
    url: str

    def rest(self) -> tuple[str, str]:
        """What else it has said, and what it has complained of."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return self.process.stdout.read(), self.process.stderr.read()

    def client(self, folder: Path) -> httpx2.Client:
        """A client that shows the folder's token."""
        token = (folder / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The variables of a process on this data folder, untouched by what the machine has set."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {**kept, "RONDO_DATA_DIR": str(folder), **settings}


@contextmanager
def started(
    folder: Path,
    *,
    script: str = ECHO,
    port: int = 0,
    settings: Mapping[str, str] = MappingProxyType({}),
    open_files: str = "",
) -> Iterator[subprocess.Popen[str]]:
    """A process that serves a data folder with a scripted model, or tries to.

    `open_files` are options of the shell's ``ulimit``, such as ``-Sn 1024``.
    """
    limited = ["sh", "-c", f'ulimit {open_files} && exec "$@"', "sh"] if open_files else []
    script_file = folder.parent / "script.txt"
    script_file.write_text(script)
    variables = environment(
        folder,
        RONDO_SERVER__PORT=str(port),
        RONDO_LLM__PROVIDER="scripted",
        RONDO_LLM__MODEL=str(script_file),
        RONDO_EMBEDDER__KIND="none",
    )
    with subprocess.Popen(
        [*limited, sys.executable, "-m", "service.cli", "serve"],
        env={**variables, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(
    folder: Path,
    *,
    script: str = ECHO,
    settings: Mapping[str, str] = MappingProxyType({}),
    open_files: str = "",
) -> Iterator[Running]:
    """A daemon that is ready."""
    with started(folder, script=script, settings=settings, open_files=open_files) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        assert "ready at http://" in greeting, process.communicate()
        yield Running(process, greeting, greeting.split()[4])
