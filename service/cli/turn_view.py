"""Shows what becomes of a message as it happens: the words on one console, the rest beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from service.cli.client import Accepted, SeenEvent
from service.cli.output import one_line, plain, short_id
from service.domain.events import (
    ErrorOccurred,
    InputReceived,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageDelta,
    ReasoningDelta,
    RouteDecided,
    RunLoopCancelled,
    RunLoopFailed,
    ToolFinished,
    ToolStarted,
)
from service.domain.routes import Route

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class TurnView:
    """Writes an answer as it streams, and dim lines for all that is not the answer."""

    def __init__(
        self, out: Console, aside: Console, *, own_message: Callable[[], str] = lambda: ""
    ) -> None:
        """Make a view.

        Args:
            out: for the answer. Where it is no terminal, only whole messages are written, so that
                a reader never gets words that are taken back later.
            aside: for everything else.
            own_message: the id of the message that is followed; the routes of others that joined
                the loop meanwhile are left out. Empty: all are shown.
        """
        self._out = out
        self._aside = aside
        self._own_message = own_message
        self._streams = out.is_terminal
        self._partial = ""
        self._started: dict[str, ToolStarted] = {}
        self._status: Status | None = None

    # --- waiting

    def wait(self, words: str) -> None:
        """Show that something is being waited for, on a terminal."""
        if not self.waits_visibly or self._partial:
            return
        from rich.text import Text

        shown = Text(words, style="dim")
        if self._status is None:
            self._status = self._aside.status(shown, spinner="dots", spinner_style="dim")
            self._status.start()
        else:
            self._status.update(shown)

    @property
    def waits_visibly(self) -> bool:
        """Whether waiting is shown at all."""
        return self._aside.is_terminal

    def explain_wait(self, words: str) -> None:
        """Say what is being waited for, if something is just now. Any thread may call this."""
        from rich.text import Text

        status = self._status  # another thread may take it away: then this changes nothing seen
        if status is not None:
            status.update(Text(words, style="dim"))

    def pause(self) -> None:
        """Stop showing that something is being waited for."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def close(self) -> None:
        """End the line and the waiting, whatever came last."""
        self.pause()
        self._end_partial()

    # --- events

    def show(self, item: Accepted | SeenEvent) -> None:
        """Show one thing that came."""
        if isinstance(item, Accepted):
            self.wait("on its way")
            return
        match item.body:
            case RouteDecided(message_id=message_id, route=route):
                if self._own_message() in ("", message_id):
                    self._route(route_in_words(route, item.run_loop_id))
                self.wait("thinking")
            case MemoryRecalled(recollections=recollections):
                self._say(f"recalled {counted(len(recollections), 'piece')} of earlier matters")
                self.wait("thinking")
            case ReasoningDelta():
                self.wait("thinking")
            case MessageDelta(text=text):
                self._stream(plain(text))
            case MessageCompleted(message=message):
                self._complete(plain(message.text))
            case LLMRetry() as retry:
                self._retry(retry)
            case ToolStarted() as started:
                self._started[started.call_id] = started
                self.wait(f"{plain(started.name)} …")
            case ToolFinished() as finished:
                self._tool(finished)
                self.wait("thinking")
            case InputReceived():
                self.wait("thinking")
            case RunLoopFailed(problem=problem) | ErrorOccurred(problem=problem):
                self._say(problem.in_words(), style="red")
            case RunLoopCancelled():
                self._say("cancelled", style="yellow")
            case _:
                pass

    def note(self, words: str, *, style: str = "dim") -> None:
        """A line about what is going on."""
        self._say(words, style=style)

    def _say(self, words: str, *, style: str = "dim") -> None:
        self.pause()
        self._end_partial()
        # In a log, a line is a line: only a terminal needs wrapping.
        self._aside.print(plain(words), style=style, soft_wrap=not self._aside.is_terminal)

    def _route(self, words: str) -> None:
        # It comes with every message: one line, whatever the reason for it.
        terminal = self._aside.is_terminal
        self._say(one_line(words, self._aside.width) if terminal else words)

    def _stream(self, text: str) -> None:
        if not self._streams or not text:
            return
        self.pause()
        self._partial += text
        self._out.file.write(text)
        self._out.file.flush()

    def _complete(self, text: str) -> None:
        """Write what of a whole message has not streamed yet: after a broken connection, all."""
        rest = text
        if text.startswith(self._partial):
            rest = text[len(self._partial) :]
        elif self._partial:
            self._say("the words above were not complete; the whole message:")
        if not text.strip():
            self._end_partial()
            return
        self.pause()
        self._out.file.write(rest if rest.endswith("\n") else f"{rest}\n")
        self._out.file.flush()
        self._partial = ""

    def _end_partial(self) -> None:
        if self._partial:
            self._out.file.write("\n")
            self._out.file.flush()
            self._partial = ""

    def _retry(self, retry: LLMRetry) -> None:
        dropped = "; the words above are dropped" if self._partial else ""
        self._say(
            f"{retry.problem.title}{dropped}. Attempt {retry.attempt} in "
            f"{retry.delay_seconds:.1f} s. {retry.problem.detail}",
            style="yellow",
        )
        self.wait("trying again")

    def _tool(self, finished: ToolFinished) -> None:
        from rich.cells import cell_len
        from rich.text import Text

        self.pause()
        self._end_partial()
        started = self._started.pop(finished.call_id, None)
        arguments = arguments_in_words(started.arguments) if started else ""
        mark = ("error", "red") if finished.is_error else ("ok", "green")
        width = max(self._aside.width - 12, 30)
        call = one_line(f"{finished.name}({arguments})", width * 3 // 5)
        self._aside.print(
            Text.assemble(
                ("  ", ""),
                (call, "dim"),
                ("  ", ""),
                mark,
                ("  ", ""),
                (one_line(finished.content, width - cell_len(call)), "dim"),
            ),
            no_wrap=True,
            overflow="ellipsis",
        )


def route_in_words(route: Route, run_loop_id: str) -> str:
    """Where a message went and why, as a line.

    A reason that quotes a goal tells which matter it is; else the goal is told beside the id.
    """
    reason = route.reason.removeprefix("it is ")
    where = f"new run loop {short_id(run_loop_id)}"
    if route.decision == "join":
        where = f"joined {short_id(run_loop_id)}"
        goal = next((c.goal for c in route.candidates if c.run_loop_id == run_loop_id), "")
        if goal and "“" not in reason:
            where += f" “{one_line(goal, 40)}”"
    elif route.predecessor_id:
        where += f", after {short_id(route.predecessor_id)}"
    return f"{where} · {reason}"


def arguments_in_words(arguments: str) -> str:
    """A call's arguments as a person would write them; as they are, when they are no JSON object.

    >>> arguments_in_words('{"expression": "2 + 2", "digits": 3}')
    "expression='2 + 2', digits=3"
    >>> arguments_in_words('{"cut')
    '{"cut'
    """
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(values, dict):
        return arguments
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "piece"), counted(2000, "piece")
    ('1 piece', '2,000 pieces')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
