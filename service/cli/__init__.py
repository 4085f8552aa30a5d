"""The command line `rondo`. Commands are imported when they are called: start-up is quick."""

from __future__ import annotations


def main() -> None:
    """Run the command that the arguments name, and leave the process with its exit code."""
    from service.cli.rondo_command import rondo
    from service.cli.terminal.standard_streams import output_in_words

    with output_in_words():
        rondo(prog_name="rondo")
