"""A chat in the terminal: reads lines, sends them, and knows what Ctrl-C means when.

Lines are edited with readline, with a history for as long as the chat lasts. It is not written to
a file: what a person asked Rondo to forget must not stay behind in one.

While an answer comes the person can type, too: the first key opens a line, and the answer waits for
it to be finished. So typed and written words never get mixed up, in any terminal.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress

from service.cli.chat.chat_help import show_help, unknown
from service.cli.chat.conversation import Conversation, Item, Items, only_watch
from service.cli.chat.interjections import ELSEWHERE, MODES, CancelOnInterrupt, Interjections
from service.cli.chat.route_corrections import KEYS, Mending, is_mend
from service.cli.chat.turn import Turn
from service.cli.chat.turn_view import TurnView
from service.cli.daemon.attached_files import file_content
from service.cli.daemon.daemon_client import Broken, Daemon, patiently
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.daemon_settings import enhance_in_words, settings_told_by, switched
from service.cli.daemon.stream_items import SeenEvent, body_of, is_rest, read_as
from service.cli.terminal.key_listener import can_listen, listening
from service.cli.terminal.output import aside, one_line, out, plain, short_id
from service.cli.terminal.standard_streams import read_line
from service.cli.views.loop_tables import loops_table
from service.cli.views.phrases import compaction_in_words
from service.cli.views.run_loop_ids import resolve, run_loops
from service.cli.views.schedule_views import tell_what_came_due
from service.domain.conversation.messages import ImageUrlPart
from service.domain.errors import InvalidInputError, RondoError
from service.domain.history.events import CompactionFinished
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.run_loops import DEFAULT_MODEL_NAME, SendMode
from service.wire.run_loop_bodies import Fork, ForkRequest, RunLoopDetails
from service.wire.send_bodies import Accepted, FileContent

_PATH_AND_WORDS = re.compile(
    r"""(?:"(?P<quoted>[^"]+)"|'(?P<single>[^']+)'|(?P<plain>(?:\\.|[^\s"'])+))"""
    r"(?:\s+(?P<words>.*))?",
    re.DOTALL,
)
"""A path as a person types it, or drags it into a terminal: quoted, or with its spaces escaped."""
_QUIT = ("/quit", "/exit", "/q")
# readline must be told which characters of the prompt take no room.
_PROMPT = "\001\033[1m\002› \001\033[0m\002"


class ChatSession:
    """One person's talk with the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._line_closed = threading.Event()
        self._line_closed.set()
        self._patiently = patiently()
        self._conversation = Conversation(
            daemon,
            stays=True,
            on_break=self._on_break,
            on_item=self._told,
            listen=self._listen if can_listen() else only_watch,
        )
        self._interrupts = CancelOnInterrupt(daemon, self._conversation)
        self._mending = Mending(daemon)
        self._interjections = Interjections(
            daemon, mending=self._mending, stop=self._interrupts.cancel
        )
        self._pinned: str | None = None
        self._opens_new = False
        """Whether the next message is said to be new."""
        self._last: str | None = None
        self._model: str | None = None
        """The model that the next message names."""

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
                line, self._conversation.instead = self._conversation.instead, ""
                line = line or self._read()
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
            tell_what_came_due(self._daemon)
            if line in _QUIT or (line and not self._handle(line)):
                break
        aside().print("Run loops go on without you.", style="dim")

    # --- between answers

    def _handle(self, line: str) -> bool:
        """Do what a line says; False to leave."""
        try:
            if line.startswith("/"):
                self._command(line)
            else:
                self._say(line, to=NEW_RUN_LOOP if self._opens_new else self._pinned)
        except RondoError as error:
            aside().print(error.problem().in_words(), style="red")
            self._interjections.clear()
        except (KeyboardInterrupt, EOFError):
            aside().print()
            self._conversation.leave()
            return False
        return True

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        match name:
            case "/loop":
                self._pin(rest)
            case "/loops":
                active = list(run_loops(self._daemon, statuses=("active",), why=True))
                out().print(loops_table(active) if active else "No run loop is active.", crop=False)
                out().print()
            case "/resume":
                self._resume(rest)
            case "/fork":
                self._fork(rest)
            case "/compact":
                self._compact()
            case "/model":
                self._choose_model(rest)
            case "/enhance":
                words = enhance_in_words(switched(self._daemon, rest))
                aside().print(f"{words}\n", style="dim")
            case "/then" | "/instead" if rest:
                self._say(rest, to=self._pinned, mode=MODES[name])
            case "/new" | "/route" if rest:
                self._say(rest, to=ELSEWHERE[name])
            case "/new":
                self._opens_new = True
                aside().print("What you say next opens a new run loop.\n", style="dim")
            case _ if is_mend(name):
                self._mend(line)
            case "/image" | "/file" if rest:
                self._attach(rest, as_image=name == "/image")
            case "/stop":
                aside().print("No answer is coming just now.\n", style="dim")
            case "/help" | "/then" | "/instead" | "/route" | "/image" | "/file":
                show_help(meanwhile=False)
            case _:
                aside().print(f"{unknown(name, meanwhile=False)}\n", style="dim")

    def _say(
        self,
        text: str,
        *,
        to: str | None,
        mode: SendMode = "steer",
        images: Sequence[ImageUrlPart] = (),
        files: Sequence[FileContent] = (),
    ) -> None:
        self._opens_new = False
        with self._interrupts:
            turn = self._conversation.send(
                text, run_loop_id=to, mode=mode, images=images, files=files, model=self._model
            )
        if self._pinned is not None and to is not None and turn.run_loop_id:
            if to == NEW_RUN_LOOP:
                aside().print(f"What follows goes to {turn.run_loop_id}.", style="dim")
            self._pinned = turn.run_loop_id  # the new one, or the one after it
        self._see_interjections(turn)

    def _choose_model(self, name: str) -> None:
        settings = settings_told_by(self._daemon)
        if settings is None:
            raise InvalidInputError(
                "the daemon knows no models by name", advice="Start it again: it is an older one."
            )
        models = settings.models
        if name and name not in models:
            raise InvalidInputError(
                f"there is no model {name!r}", advice=f"There are: {', '.join(models)}."
            )
        self._model = self._interjections.model = name or self._model
        if name:
            aside().print(f"From now on {name} answers: {models[name]}.\n", style="dim")
            return
        for each, words in models.items():
            mark = "*" if each == (self._model or DEFAULT_MODEL_NAME) else " "
            aside().print(plain(f"{mark} {each}: {words}"), style="dim")
        aside().print()

    def _mend(self, line: str) -> None:
        words, loop = self._mending.do(line)
        aside().print(f"{words}\n", style="dim")
        if loop is None:
            return
        self._last = loop.id
        if loop.status == "running":
            self._follow(loop.id, after=self._newest_event(loop.id))

    def _attach(self, rest: str, *, as_image: bool) -> None:
        from service.agent.message_check import image_from_file

        match = _PATH_AND_WORDS.fullmatch(rest)
        if match is None:
            command = '/image "my photo.png"' if as_image else '/file "my report.pdf"'
            raise InvalidInputError(
                f"the path of the {'image' if as_image else 'file'} has a quotation mark too few",
                advice=f"Write {command} What is this?",
            )
        to = NEW_RUN_LOOP if self._opens_new else self._pinned
        path = match["quoted"] or match["single"] or re.sub(r"\\(.)", r"\1", match["plain"])
        images = [image_from_file(path)] if as_image else []
        files = [] if as_image else [file_content(path)]
        self._say(match["words"] or "", to=to, images=images, files=files)

    def _resume(self, beginning: str) -> None:
        loop = resolve(self._daemon, beginning) if beginning else self._last_loop("/resume ID")
        newest = self._newest_event(loop)
        self._daemon.post(f"{loop_path(loop)}/resume")
        self._follow(loop, after=newest)

    def _fork(self, at: str) -> None:
        loop = self._last_loop("/loop ID, and then /fork")
        if at and not at.isdecimal():
            raise InvalidInputError(
                "the number of an event is asked for",
                advice=f"`rondo loops watch {short_id(loop)}` shows them.",
            )
        request = body_of(ForkRequest, at=int(at) if at else None)
        fork = read_as(Fork, self._daemon.post(f"{loop_path(loop)}/fork", request))
        self._pinned = self._last = fork.id
        words = f"What follows goes to {self._pinned}, a fork of {short_id(loop)}."
        aside().print(f"{words}\n", style="dim")
        if fork.status == "running":
            self._follow(fork.id, after=fork.last_seq)

    def _compact(self) -> None:
        loop = self._last_loop("/loop ID, and then /compact")
        aside().print("Summarising; a model may take a minute.", style="dim")
        done = self._daemon.post(f"{loop_path(loop)}/compact", takes_long=True)
        words = compaction_in_words(read_as(CompactionFinished, done))
        aside().print(f"{words}\n", style="dim")

    def _last_loop(self, instead: str) -> str:
        loop = self._pinned or self._last
        if loop is None:
            raise InvalidInputError("no run loop was talked to yet", advice=f"Use {instead}.")
        return loop

    def _newest_event(self, run_loop_id: str) -> int:
        details = self._daemon.get(loop_path(run_loop_id))
        return read_as(RunLoopDetails, details).last_seq

    def _follow(self, run_loop_id: str, *, after: int) -> None:
        with self._interrupts:
            turn = self._conversation.follow(run_loop_id, after=after)
        self._see_interjections(turn)

    def _see_interjections(self, turn: Turn) -> None:
        """Follow what was typed so late that its answer was not in the stream any more."""
        self._remember(turn)
        while (each := self._interjections.next()) is not None:
            last_seq = self._conversation.turn.last_seq
            if each.elsewhere:  # another run loop has worked on it meanwhile
                last_seq = -1
                aside().print(f"\n“{one_line(each.text, 60)}”:", style="dim")
            with self._interrupts:
                turn = self._conversation.send(
                    each.text,
                    run_loop_id=each.run_loop_id,
                    mode=each.mode,
                    key=each.key,
                    after=last_seq,
                    model=each.model,
                )
            self._remember(turn)
        self._interjections.clear()
        aside().print()

    def _remember(self, turn: Turn) -> None:
        self._last = turn.run_loop_id or self._last

    def _pin(self, beginning: str) -> None:
        self._pinned = resolve(self._daemon, beginning) if beginning else None
        words = f"What follows goes to {self._pinned}." if self._pinned else "The router decides."
        aside().print(f"{words}\n", style="dim")

    def _greet(self) -> None:
        waiting = list(run_loops(self._daemon, statuses=("waiting_for_human_input",)))
        readiness = self._daemon.readiness()
        settings = settings_told_by(self._daemon)
        aside().print(plain(f"Rondo · {settings.model}" if settings else "Rondo"), style="bold")
        if settings and settings.disclaimer:
            aside().print(plain(settings.disclaimer), style="dim")
        if not readiness.llm.ready:
            aside().print(f"The model is not ready: {readiness.llm.detail}", style="yellow")
        for loop in waiting[:3]:
            words = f"{short_id(loop.id)} “{one_line(loop.goal, 50)}” waits for your answer:"
            aside().print(f"{words} rondo loops show {short_id(loop.id)}", style="yellow")
        typing = "Type to steer an answer while it comes. " if can_listen() else ""
        words = f"{typing}Ctrl-C stops it, Ctrl-D leaves, /help tells more.\n"
        aside().print(words, style="dim")
        tell_what_came_due(self._daemon)

    def _read(self) -> str:
        if not sys.stdin.isatty():
            return read_line().strip()
        with suppress(ImportError):  # not on every platform: lines can be typed all the same
            import readline  # importing it gives `input` editing and a history

            # What is pasted is one message, however many lines it has.
            readline.parse_and_bind("set enable-bracketed-paste on")
            for key, line in KEYS.items():  # what was typed so far goes: it can be yanked back
                readline.parse_and_bind(f'"\\e{key}": "\\C-e\\C-u{line}\\C-m"')
        return read_line(_PROMPT).strip()

    # --- while an answer comes

    def _listen(self, items: Items, view: TurnView) -> Items:
        def read() -> str:
            with view.stepping_aside():
                return self._read_meanwhile()

        def take(line: str, ended: bool) -> Generator[Item] | None:
            if line:
                with view.stepping_aside():
                    more = self._interjections.take(line, self._conversation.turn, ended=ended)
                if not ended:
                    return more
                for note in more or ():
                    view.note(note.words, style=note.style)
            return None

        def is_last(item: Item) -> bool:
            return isinstance(item, SeenEvent) and is_rest(item)

        return listening(items, read_line=read, on_line=take, is_last=is_last)

    def _read_meanwhile(self) -> str:
        """A line; empty when the person thought better of it.

        Raises:
            EOFError: the person leaves.
        """
        self._conversation.reading = True
        self._line_closed.clear()
        try:
            line = self._read()
            if line in _QUIT:
                raise EOFError
            return line
        except KeyboardInterrupt:
            aside().print()
            return ""
        finally:
            self._conversation.reading = False
            self._line_closed.set()

    def _told(self, turn: Turn, item: Accepted | SeenEvent) -> None:
        self._interrupts.on_turn(turn)
        self._mending.on_turn(turn)
        self._interjections.on_item(turn, item)

    def _on_break(self, error: Broken, breaks: int) -> None:
        self._line_closed.wait()  # called by the thread that reads: a line is not written into
        self._patiently(error, breaks)
