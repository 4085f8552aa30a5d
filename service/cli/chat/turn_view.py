"""Shows what becomes of a message as it happens: the words on one console, the rest beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.cli.chat.output_lines import OutputLines
from service.cli.chat.route_corrections import unsure_in_chat
from service.cli.chat.turn import Turn
from service.cli.daemon.stream_items import SeenEvent, delivered_part
from service.cli.terminal.answer_writer import AnswerWriter
from service.cli.terminal.output import one_line, plain
from service.cli.terminal.waiting_line import WaitingLine
from service.cli.views.phrases import (
    arguments_in_words,
    compaction_in_words,
    counted,
    not_whole_in_words,
    part_in_words,
    route_in_words,
    unsure_lines,
)
from service.domain.history.events import (
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    EventBody,
    IterationAbandoned,
    IterationStarted,
    LLMFallback,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageDelta,
    MessageMoved,
    MessageReceived,
    ReasoningDelta,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopIdle,
    RunLoopInterrupted,
    RunLoopResumed,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from service.domain.history.human_input import InputReceived, InputRequired
from service.domain.routes import Route
from service.domain.run_loops import SendMode
from service.wire.send_bodies import DELIVERED, Accepted

if TYPE_CHECKING:
    from rich.console import Console

_HELD_UP: dict[SendMode, str] = {
    "steer": "it is at work; your message is seen at its next step",
    "followup": "it is at work; your message is seen after its answer",
    "interrupt": "it is at work on another message",
}
_WORDS_SHOWN = 50


class TurnView:
    """Writes an answer as it streams, and dim lines for all that is not the answer.

    What the loop says before the message lands is said to others, and is not shown.
    """

    def __init__(
        self, out: Console, aside: Console, *, turn: Turn | None = None, in_chat: bool = False
    ) -> None:
        """Make a view.

        Args:
            out: for the answer, see `AnswerWriter`.
            aside: for everything else.
            turn: the message that is followed; it must have been told of each item first. None:
                all is shown.
            in_chat: whether the person can mend a route by the chat's commands.
        """
        self._in_chat = in_chat
        self._aside = aside
        self._turn = turn or Turn()
        self._answer = AnswerWriter(out)
        self._waiting = WaitingLine(aside)
        self._streams = out.is_terminal
        self._started: dict[str, ToolStarted] = {}
        self._output = OutputLines()
        self._unseen: dict[str, MessageReceived] = {}
        self._held_up = False
        self._had_landed = False
        self._told_anchors = set[str]()
        self._is_cut_off = False
        self._is_resumed = False
        """Whether the loop was taken up again, and has not said anything since."""

    # --- waiting

    def wait(self, words: str) -> None:
        """Show that something is being waited for, on a terminal."""
        if not self._answer.is_mid_line:
            self._waiting.show(words)

    @property
    def waits_visibly(self) -> bool:
        """Whether waiting is shown at all."""
        return self._waiting.is_visible

    def explain_wait(self, words: str) -> None:
        """Say what is being waited for, if something is just now. Any thread may call this."""
        self._waiting.explain(words)

    @contextmanager
    def stepping_aside(self) -> Iterator[None]:
        """Within it, the terminal is free for something else; nothing may be shown."""
        with self._waiting.hidden():
            self._answer.end_line()
            yield

    def close(self) -> None:
        """End the line and the waiting, whatever came last."""
        self._waiting.hide()
        self._settle()
        self._answer.drop()

    # --- events

    def show(self, item: Accepted | SeenEvent) -> None:
        """Show one thing that came."""
        if isinstance(item, Accepted):
            self.wait("on its way")
        elif item.type == DELIVERED:
            self._say(part_in_words(delivered_part(item)))
        elif isinstance(item.body, MessageMoved) and self._turn.message_id in item.body.message_ids:
            self._move()
        elif self._turn.landed:
            self._show(item)
        else:
            self._show_others(item)

    def note(self, words: str, *, style: str = "dim") -> None:
        """A line about what is going on."""
        self._say(words, style=style)

    def _show(self, item: SeenEvent) -> None:
        match item.body:
            case RouteDecided() | MessageReceived() | RunLoopInterrupted() | RunLoopResumed():
                self._arrive(item.body, item.run_loop_id)
            case IterationStarted() as started:
                self._land(started)
            case MemoryRecalled(recollections=recollections):
                self._recalled(len(recollections))
            case ReasoningDelta():
                self.wait("thinking")
            case MessageDelta(text=text, whole=whole):
                self._stream(plain(text), whole=whole)
            case MessageCompleted() as completed:
                self._complete(completed)
            case IterationAbandoned():
                self._abandon()
            case LLMRetry() as retry:
                self._retry(retry)
            case LLMFallback() as fallback:
                dropped = " The words above are dropped." if self._answer.has_partial else ""
                self._answer.drop()
                self._say(fallback.in_words() + dropped, style="yellow")
                self.wait("trying again")
            case ToolStarted() as started:
                self._started[started.call_id] = started
                self.wait(f"{plain(started.name)} …")
            case ToolOutput(call_id=call_id, text=text):
                for line in self._output.add(call_id, text):
                    self._say(f"  │ {line}")
            case ToolFinished() as finished:
                for line in self._output.end(finished.call_id):
                    self._say(f"  │ {line}")
                self._tool(finished)
                self.wait("thinking")
            case CompactionStarted():
                words = "the conversation nears the end of the model's window"
                self._say(f"{words}: summarising earlier rounds")
                self.wait("summarising")
            case CompactionFinished() as compaction:
                self._say(compaction_in_words(compaction))
                self.wait("thinking")
            case _:
                self._show_state(item)

    def _show_others(self, item: SeenEvent) -> None:
        """What happens before the message lands: done for others, unless the loop stops."""
        match item.body:
            case RouteDecided() | MessageReceived() | RunLoopInterrupted() | RunLoopResumed():
                self._arrive(item.body, item.run_loop_id)
            case IterationStarted() | MessageDelta() | MessageCompleted() | ToolFinished():
                self._hold_up()
            case _:
                self._show_state(item)

    def _show_state(self, item: SeenEvent) -> None:
        """The loop rests, stops, or waits for a person, whoever it worked for."""
        match item.body:
            case InputReceived():
                self.wait("thinking")
            case RunLoopIdle() | RunLoopCompleted() | InputRequired():
                self._waiting.hide()
                self._settle()
                if not isinstance(item.body, InputRequired):
                    self._remembered()
            case RunLoopFailed(problem=problem):
                self._say(problem.in_words(), style="red")
            case ErrorOccurred(problem=problem):
                self._say(problem.in_words(), style="red" if item.seq is None else "yellow")
            case RunLoopCancelled():
                self._is_cut_off = False
                self._say("cancelled", style="yellow")
            case _:
                pass

    # --- messages

    def _arrive(self, body: EventBody, run_loop_id: str) -> None:
        own = self._turn.message_id
        match body:
            case MessageReceived() as received:
                self._unseen[received.message_id] = received
            case RouteDecided(message_id=message_id, route=route) if own in ("", message_id):
                # It comes with every message: one line, whatever the reason for it.
                words = route_in_words(route, run_loop_id)
                terminal = self._aside.is_terminal
                self._say(one_line(words, self._aside.width) if terminal else words)
                if own and route.alternatives:
                    self._tell_alternatives(route, run_loop_id)
                self.wait("thinking")
            case RunLoopInterrupted(message_id=message_id) if message_id == own:
                self._say("what it was doing was stopped")
                self.wait("thinking")
            case RunLoopInterrupted(message_id=message_id):
                self._unseen_no_more(message_id, "stopped, to take this instead", style="yellow")
                self.wait("thinking")
            case RunLoopResumed() if not own:
                self._is_resumed = True
                self._say("taken up again")
                self.wait("thinking")
            case _:
                pass

    def _tell_alternatives(self, route: Route, run_loop_id: str) -> None:
        lines = unsure_in_chat(route) if self._in_chat else unsure_lines(route, run_loop_id)
        for line in lines:
            self._say(line, style="yellow")

    def _land(self, started: IterationStarted) -> None:
        if started.continues:
            self.wait("going on")
            return
        if started.nudge is not None and self._is_resumed:
            self._say("going on with the answer")
        elif started.nudge is not None:
            self._say("looking over the answer once more")
            self._answer.look_over()
        else:
            self._settle()
        self._answer.drop()
        own = self._turn.message_id
        if own and not self._had_landed:
            self._had_landed = True
            self._unseen.pop(own, None)
            if self._held_up:
                self._say("your message is seen now")
            if self._turn.recalled:
                self._recalled(self._turn.recalled)
        for message_id in started.message_ids or ():
            self._unseen_no_more(message_id, "seen now")
        self.wait("looking over it" if started.nudge is not None else "thinking")

    def _move(self) -> None:
        dropped = "; the words above are dropped" if self._answer.has_partial else ""
        self._answer.drop()
        self._had_landed = self._held_up = False
        self._say(f"it was moved to another run loop, and goes on there{dropped}")
        self.wait("on its way")

    def _recalled(self, pieces: int) -> None:
        self._say(f"recalled {counted(pieces, 'piece')} of earlier conversations")
        self.wait("thinking")

    def _remembered(self) -> None:
        """The person's own words, below an answer that may have them wrong."""
        for each in self._turn.remembered:
            anchor = each.anchor.text
            if anchor in self._told_anchors:
                continue
            self._told_anchors.add(anchor)
            day = each.anchor.timestamp.astimezone()
            width = self._aside.width
            self._say(
                f"You said on {day:%A}, {day.day} {day:%B}:  rondo memory expand {plain(anchor)}"
            )
            self._say(f"“{one_line(each.content, max(width - 2, 20))}”")

    def _unseen_no_more(self, message_id: str, how: str, *, style: str = "dim") -> None:
        received = self._unseen.pop(message_id, None)
        if received is None:
            return
        words = one_line(received.message.words, _WORDS_SHOWN)
        self._say(f"{how}: “{words}”", style=style)

    def _hold_up(self) -> None:
        received = self._unseen.get(self._turn.message_id)
        if received is not None and not self._held_up:
            self._held_up = True
            self._say(_HELD_UP[received.mode])
            self.wait("waiting for it")

    # --- words

    def _say(self, words: str, *, style: str = "dim") -> None:
        self._waiting.hide()
        self._answer.end_line()
        # In a log, a line is a line: only a terminal needs wrapping.
        self._aside.print(plain(words), style=style, soft_wrap=not self._aside.is_terminal)

    def _stream(self, text: str, *, whole: bool) -> None:
        if self._answer.streams(text):
            self._waiting.hide()
            self._answer.stream(text, whole=whole)

    def _complete(self, completed: MessageCompleted) -> None:
        text = plain(completed.message.text)
        self._is_resumed = False
        self._waiting.hide()
        if not self._answer.is_continued(text):
            self._say("the words above were not complete; the whole message:")
        self._is_cut_off = False
        if completed.cut and not self._streams:
            return
        final = not completed.cut and not completed.message.tool_calls
        if final and not self._answer.is_bettered(text):
            self._say("it stands as it is")
            self._answer.keep()
            return
        self._is_cut_off = final and completed.finish_reason == "length"
        self._answer.complete(text, final=final, goes_on=self._is_cut_off)
        if completed.finish_reason == "content_filter":
            self._say(not_whole_in_words("content_filter"))

    def _abandon(self) -> None:
        if self._answer.has_partial:
            self._answer.drop()
            self._say("the words that came last do not count; the answer stands as it was")

    def _settle(self) -> None:
        """What was said last stands; where it is not whole, tell."""
        self._answer.settle()
        if self._is_cut_off:
            self._is_cut_off = False
            self._say(not_whole_in_words("length"))

    def _retry(self, retry: LLMRetry) -> None:
        dropped = "; the words above are dropped" if self._answer.has_partial else ""
        self._answer.drop()
        self._say(
            f"{retry.problem.title}{dropped}. Attempt {retry.attempt} in "
            f"{retry.delay_seconds:.1f} s. {retry.problem.detail}",
            style="yellow",
        )
        self.wait("trying again")

    def _tool(self, finished: ToolFinished) -> None:
        from rich.cells import cell_len
        from rich.text import Text

        self._waiting.hide()
        self._answer.end_line()
        started = self._started.pop(finished.call_id, None)
        arguments = arguments_in_words(started.arguments) if started else ""
        mark = ("error", "red") if finished.is_error else ("ok", "green")
        width = max(self._aside.width - (26 if finished.outside else 12), 30)
        call = one_line(f"{finished.name}({arguments})", width * 3 // 5)
        self._aside.print(
            Text.assemble(
                ("  ", ""),
                (call, "dim"),
                ("  ", ""),
                mark,
                ("  from outside" if finished.outside else "", "yellow"),
                ("  ", ""),
                (one_line(finished.content, width - cell_len(call)), "dim"),
            ),
            no_wrap=True,
            overflow="ellipsis",
        )
