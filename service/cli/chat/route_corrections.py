"""Mending a route in the chat: the last message goes to where it belongs, or back."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from service.cli.chat.turn import Turn
from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.stream_items import Json, Note, read_as
from service.cli.terminal.output import one_line, short_id
from service.cli.views.phrases import percent
from service.cli.views.run_loop_ids import resolve
from service.domain.errors import ConflictError, InvalidInputError, RondoError
from service.domain.history.human_input import NEW_RUN_LOOP
from service.domain.routes import Route, RouteCandidate, alternatives_of
from service.domain.run_loops import RunLoop
from service.wire.run_loop_bodies import Rerouted

KEYS = {"1": "/1", "2": "/2", "3": "/3", "z": "/undo"}
"""What is typed by Alt and one of these."""
_MOST_PLACES = 3
_GOAL_WIDTH = 40


@dataclass(frozen=True, slots=True)
class _Message:
    """The message whose route can be mended, and where it is."""

    id: str
    run_loop_id: str


def is_mend(name: str) -> bool:
    """Whether a command of the chat mends a route.

    >>> [is_mend(name) for name in ("/move", "/2", "/undo", "/loop")]
    [True, True, True, False]
    """
    return name in ("/move", "/undo") or (name[1:].isascii() and name[1:].isdecimal())


def unsure_in_chat(route: Route) -> list[str]:
    """What else an unsure route could have been, by number, and how to move the message there.

    >>> route = Route(decision="join", confidence=0.5, method="words", reason="",
    ...     candidates=[{"run_loop_id": "b", "goal": "A bill", "probability": 0.3}],
    ...     new_probability=0.2, alternatives=("b", "new"))
    >>> for line in unsure_in_chat(route): print(line)
    unsure, 50 %: it could be 1 “A bill” 30 %, or 2 a new one 20 %
    /1 or /2 moves it there; /undo takes that back
    """
    places = alternatives_of(route)
    keys = " or ".join(f"/{number}" for number in range(1, len(places) + 1))
    return [
        f"unsure, {percent(route.confidence)}: it could be {_listed(places)}",
        f"{keys} moves it there; /undo takes that back",
    ]


class Mending:
    """The newest message of a chat, where else it could belong, and where it was moved last."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._message: _Message | None = None
        self._route: Route | None = None
        self._places: Sequence[RouteCandidate] = ()
        """Those that were listed, in the order of their numbers."""
        self._moved: _Message | None = None
        """What was moved last, and out of which run loop."""

    def on_turn(self, turn: Turn) -> None:
        """A message is in a run loop; perhaps another one than before."""
        if not turn.message_id or not turn.run_loop_id:
            return
        message = _Message(turn.message_id, turn.run_loop_id)
        if message != self._message or turn.route != self._route:
            self._message, self._route = message, turn.route
            self._places = () if turn.route is None else alternatives_of(turn.route)

    def notes(self, line: str) -> Generator[Note]:
        """Do what a line says; what came of it. Raises nothing."""
        try:
            words, _ = self.do(line)
        except RondoError as error:
            yield Note(error.problem().in_words(), style="red")
        else:
            yield Note(words)

    def do(self, line: str) -> tuple[str, RunLoop | None]:
        """Do what a line says (see `is_mend`); what to say, and where the message is now.

        Raises:
            RondoError: there is nothing to mend, or it was refused; says why.
        """
        name, _, rest = line.partition(" ")
        if name == "/undo":
            return self._undo()
        where = rest.strip() if name == "/move" else name[1:]
        if not where:
            return self._list(), None
        return self._move(where)

    def _list(self) -> str:
        message = self._known()
        self._places = self._others(message)
        return f"It could be {_listed(self._places)}: /move NUMBER, or /move ID"

    def _others(self, message: _Message) -> Sequence[RouteCandidate]:
        if self._route is not None and self._route.alternatives:
            return alternatives_of(self._route)
        weighed = () if self._route is None else self._route.candidates
        others = [each for each in weighed if each.run_loop_id != message.run_loop_id]
        share = None if self._route is None else self._route.new_probability
        new = RouteCandidate(run_loop_id=NEW_RUN_LOOP, goal="", probability=share or 0.0)
        return (*others[: _MOST_PLACES - 1], new)

    def _move(self, where: str) -> tuple[str, RunLoop]:
        message = self._known()
        rerouted = self._post(message, {"to": self._place(where)})
        self._moved = message
        return self._settled(message, rerouted, "moved it to")

    def _undo(self) -> tuple[str, RunLoop]:
        moved = self._moved
        if moved is None:
            raise ConflictError(
                "nothing was moved in this chat",
                advice="`rondo loops reroute ID --undo` takes back a move that was made elsewhere.",
            )
        rerouted = self._post(moved, {"undo": True})
        return self._settled(moved, rerouted, "took it back to")

    def _settled(self, message: _Message, rerouted: Rerouted, how: str) -> tuple[str, RunLoop]:
        loop = rerouted.run_loop
        self._message, self._route, self._places = _Message(message.id, loop.id), None, ()
        goes_on = ", and it goes on there" if loop.status == "running" else ""
        words = f"{how} {short_id(loop.id)} “{one_line(loop.goal, _GOAL_WIDTH)}”{goes_on}"
        return (words if how.startswith("took") else f"{words} · /undo takes that back"), loop

    def _post(self, message: _Message, how: Json) -> Rerouted:
        path = f"{loop_path(message.run_loop_id)}/reroute"
        answer = self._daemon.post(path, {"message_id": message.id, **how})
        return read_as(Rerouted, answer)

    def _place(self, where: str) -> str:
        if not (where.isascii() and where.isdecimal()) or len(where) > 1:
            return where if where == NEW_RUN_LOOP else resolve(self._daemon, where)
        if not 0 < int(where) <= len(self._places):
            raise InvalidInputError(
                f"there is no place number {where}",
                advice="/move lists where the last message could belong.",
            )
        return self._places[int(where) - 1].run_loop_id

    def _known(self) -> _Message:
        if self._message is None:
            raise ConflictError(
                "no message was sent in this chat that could be moved",
                advice="`rondo loops reroute` moves any other one.",
            )
        return self._message


def _listed(places: Sequence[RouteCandidate]) -> str:
    named = [
        "a new one" if each.run_loop_id == NEW_RUN_LOOP else f"“{one_line(each.goal, _GOAL_WIDTH)}”"
        for each in places
    ]
    return ", or ".join(
        f"{number} {name} {percent(place.probability)}" if place.probability else f"{number} {name}"
        for number, (name, place) in enumerate(zip(named, places, strict=True), start=1)
    )
