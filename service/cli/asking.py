"""Asking the person at the terminal what a run loop wants to know, and sending the answer.

It fails closed: only a clear yes is a yes, and when the terminal goes away nothing is answered.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from service.cli.client import Daemon, Json, loop_path
from service.cli.output import aside, plain, short_id, visible
from service.cli.streams import read_line
from service.domain.events import InputRequired

YES = frozenset(("y", "yes", "j", "ja", "是", "好", "同意"))


def can_ask() -> bool:
    """Whether a person sits at this terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(request: InputRequired) -> Json | None:
    """Put a request to the person; None when they would rather not answer now.

    An end of input (Ctrl-D) or an interrupt (Ctrl-C) is no answer, and so never a yes.
    """
    show_request(request)
    try:
        answer = _ask(request)
    except (EOFError, KeyboardInterrupt):
        aside().print()
        return None
    return {**answer, "request_id": request.request_id}


def show_request(request: InputRequired) -> None:
    """Write what is asked, with the whole of the calls that wait."""
    aside().print()
    aside().print(plain(request.prompt), style="bold yellow")
    for call in request.tool_calls:
        aside().print(f"  {plain(call.name)}", style="bold")
        for line in _pretty(call.arguments).splitlines():
            aside().print(f"    {line}")


def answer(daemon: Daemon, run_loop_id: str, value: Json) -> Json:
    """Send an answer; the run loop as it is after it.

    Raises:
        DaemonError: it could not be sent, or the loop does not wait for it (any more).
    """
    return daemon.post(f"{loop_path(run_loop_id)}/input", value)


def how_to_answer(run_loop_id: str, request: InputRequired) -> str:
    """The commands that answer a request, for people who are not at a terminal."""
    command = f"rondo loops answer {short_id(run_loop_id)}"
    if request.kind == "approve":
        return f"  {command} --yes\n  {command} --no --text REASON"
    return f'  {command} --text "…"'


def _ask(request: InputRequired) -> Json:
    if request.kind == "approve":
        if read_line("Run it? [y/N] ").strip().lower() in YES:
            return {"approved": True}
        reason = read_line("Why not? (may be left empty) ").strip()
        return {"approved": False, "text": reason or None}
    if request.kind == "select" and request.options:
        for number, option in enumerate(request.options, 1):
            aside().print(f"  {number}  {plain(option)}")
        while True:
            chosen = read_line("Which one? (number) ").strip()
            if chosen.isdecimal() and 1 <= int(chosen) <= len(request.options):
                return {"text": request.options[int(chosen) - 1]}
    return {"text": read_line("› ")}


def _pretty(arguments: str) -> str:
    with suppress(ValueError):  # what is no JSON is shown as the model wrote it
        arguments = json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
    return visible(arguments)
