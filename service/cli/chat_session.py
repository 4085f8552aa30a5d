"""A chat in the terminal: reads lines, sends them, and knows what Ctrl-C means when.

Lines are edited with readline, with a history for as long as the chat lasts. It is not written to
a file: what a person asked Rondo to forget must not stay behind in one.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from service.cli.client import Daemon
from service.cli.connect import patiently
from service.cli.conversation import Conversation
from service.cli.interrupts import CancelOnInterrupt
from service.cli.loop_tables import loops_table
from service.cli.model_words import capabilities, model_in_words
from service.cli.output import aside, one_line, out, short_id
from service.cli.run_loop_ids import resolve, run_loops
from service.cli.streams import read_line
from service.config import Settings
from service.domain.errors import RondoError

HELP = """\
/loop ID   send what follows to this run loop; /loop alone lets the router decide again
/loops     the active run loops
/quit      leave (or Ctrl-D)
Ctrl-C     stop the run loop that is at work"""


class ChatSession:
    """One person's talk with the daemon."""

    def __init__(self, daemon: Daemon, settings: Settings) -> None:
        self._daemon = daemon
        self._settings = settings
        self._conversation = Conversation(
            daemon, on_break=patiently(), on_event=lambda turn: self._interrupts.told(turn)
        )
        self._interrupts = CancelOnInterrupt(daemon, self._conversation)
        self._loop: str | None = None

    def run(self, loop: str | None = None) -> None:
        """Greet, and talk until the person leaves.

        Raises:
            RondoError: the daemon cannot be reached at the start.
        """
        self._greet()
        if loop is not None:
            self._pin(loop)
        interrupted = False
        while True:
            try:
                line = self._read()
            except EOFError:
                break
            except KeyboardInterrupt:
                aside().print()
                if interrupted:
                    break
                interrupted = True
                aside().print("Ctrl-C again, or Ctrl-D, leaves.", style="dim")
                continue
            interrupted = False
            if line in ("/quit", "/exit", "/q"):
                break
            if line and not self._handle(line):
                break
        aside().print("Run loops go on without you.", style="dim")

    def _handle(self, line: str) -> bool:
        """Do what a line says; False to leave."""
        try:
            if line.startswith("/"):
                self._command(line)
                return True
            return self._say(line)
        except RondoError as error:
            aside().print(error.problem().in_words(), style="red")
            return True

    def _say(self, text: str) -> bool:
        try:
            with self._interrupts:
                self._conversation.send(text, run_loop=self._loop)
        except KeyboardInterrupt:
            self._conversation.leave()
            return False
        if self._loop is not None:
            self._loop = self._conversation.turn.run_loop_id or self._loop
        aside().print()
        return True

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        match name:
            case "/loop":
                self._pin(rest.strip())
            case "/loops":
                found = list(run_loops(self._daemon, statuses=("active",)))
                out().print(loops_table(found) if found else "No run loop is active.", crop=False)
            case "/help":
                aside().print(HELP, style="dim")
            case _:
                aside().print(f"There is no {name}.\n{HELP}", style="dim")
        out().print()

    def _pin(self, beginning: str) -> None:
        self._loop = resolve(self._daemon, beginning) if beginning else None
        words = f"What follows goes to {self._loop}." if self._loop else "The router decides."
        aside().print(words, style="dim")

    def _greet(self) -> None:
        waiting = list(run_loops(self._daemon, statuses=("waiting_for_human_input",)))
        readiness = self._daemon.readiness()
        aside().print(f"Rondo · {model_in_words(self._settings)}", style="bold")
        if self._settings.llm.effective_provider == "embedded":
            aside().print(capabilities(self._settings), style="dim")
        llm = readiness.get("llm")
        if not readiness["ready"] and isinstance(llm, dict) and not llm.get("ready"):
            aside().print(f"The model is not ready: {llm.get('detail')}", style="yellow")
        for loop in waiting[:3]:
            words = f"{short_id(loop.id)} “{one_line(loop.goal, 50)}” waits for your answer:"
            aside().print(f"{words} rondo loops show {short_id(loop.id)}", style="yellow")
        aside().print("Ctrl-C stops an answer, Ctrl-D leaves, /help tells more.\n", style="dim")

    def _read(self) -> str:
        if not sys.stdin.isatty():
            return read_line().strip()
        with suppress(ImportError):  # not on every platform: lines can be typed all the same
            import readline  # noqa: F401  importing it gives `input` editing and a history
        # readline must be told which characters of the prompt take no room.
        return read_line("\001\033[1m\002› \001\033[0m\002").strip()
