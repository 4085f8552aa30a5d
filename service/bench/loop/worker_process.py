"""Starting the workers: each run of a benchmark is a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import service
from service.bench.parameters import BenchmarkError

_PACKAGE = Path(service.__file__).parent
_MISLEADING = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH")
_QUIET = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


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
