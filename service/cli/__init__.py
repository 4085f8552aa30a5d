"""The command line `rondo`. Commands are imported when they are called: start-up is quick."""

from __future__ import annotations

import os

_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"


def main() -> None:
    """Run the command that the arguments name, and leave the process with its exit code."""
    # NumPy's matrices here are small, and the threads that it would share one out to wait by
    # spinning, on the cores that embed meanwhile: a search among 100,000 took half as long again.
    os.environ.setdefault(_MATRIX_THREADS, "1")
    from service.cli.rondo_command import rondo
    from service.cli.terminal.standard_streams import output_in_words

    with output_in_words():
        rondo(prog_name="rondo")
