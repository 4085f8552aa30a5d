"""The whole report: each reply sent to a run loop that waits, and what became of it."""

from __future__ import annotations

import platform
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from service import __version__
from service.agent.agent import Agent
from service.bench.waiting.waiting_dataset import LABELS, Case, Part, read_parts
from service.bench.waiting.waiting_subject import subject, waiting
from service.domain.history.events import Event, MessageCompleted, MessageReceived
from service.domain.history.human_input import InputReceived, InputRequired
from service.memory.protocol import Embedder
from service.routing.candidate_loops import VERSION
from service.routing.routing_model import shipped

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    data: Path
    """A folder of files, or one file."""
    make_embedder: Callable[[], Embedder | None] | None
    """None: the router decides by words alone."""


@dataclass(frozen=True, slots=True)
class Came:
    """What became of one reply."""

    case: Case
    joined: bool
    """Whether it came to the loop that waits."""
    heard: bool
    """Whether it was answered, there or elsewhere, or asked back about."""
    choices: tuple[str, ...] | None
    """What it was taken to choose; None where it did not come to a choice."""


def run(plan: Plan, *, tell: Callable[[str], None] = lambda words: None) -> Figures:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on, and of each reply that went astray.

    Returns:
        ``{"parts": {NAME: FIGURES}, "inputs": {NAME: SHA-256}, …}``; FIGURES has those of `figures`
        ``all``, and by language, by kind, and by label.

    Raises:
        BenchmarkError: the data cannot be used.
        RondoError: the agent failed.
    """
    parts = read_parts(plan.data)
    measured = {part.name: anyio.run(_measure, plan, part, tell) for part in parts}
    return {
        "benchmark": "waiting",
        "parts": {name: of_all(came) for name, came in measured.items()},
        "method": "words" if plan.make_embedder is None else "embedding",
        "model": f"{shipped().version}/{VERSION}",
        "inputs": {part.name: part.sha256 for part in parts},
        "version": __version__,
        "python": platform.python_version(),
    }


def of_all(came: Sequence[Came]) -> Figures:
    """The figures of all replies, and of those of each language, kind and label."""

    def by(name: Callable[[Came], str]) -> dict[str, Figures]:
        groups = defaultdict[str, list[Came]](list)
        for each in came:
            groups[name(each)].append(each)
        return {key: figures(groups[key]) for key in sorted(groups)}

    return {
        "all": figures(came),
        "by_language": by(lambda each: each.case.scene.language),
        "by_kind": by(lambda each: each.case.scene.kind),
        "by_label": by(lambda each: each.case.label),
    }


def figures(came: Sequence[Came]) -> Figures:
    """Counts and shares: what was swallowed, sent elsewhere, or taken for an answer."""
    belonging = [each for each in came if each.case.belongs]
    others = [each for each in came if not each.case.belongs]
    chosen = [each for each in came if each.case.choices is not None and each.joined]
    return {
        "messages": len(came),
        "labels": {label: sum(each.case.label == label for each in came) for label in LABELS},
        "swallowed": sum(not each.heard for each in came),
        "wrongly_opened": _share(not each.joined for each in belonging),
        "wrongly_taken": _share(each.joined for each in others),
        "choices_misread": _share(each.choices != each.case.choices for each in chosen),
    }


def _share(outcomes: Iterable[bool]) -> Figures:
    each = list(outcomes)
    return {
        "count": sum(each),
        "of": len(each),
        "share": round(sum(each) / len(each), 4) if each else None,
    }


async def _measure(plan: Plan, part: Part, tell: Callable[[str], None]) -> list[Came]:
    embedder = None if plan.make_embedder is None else plan.make_embedder()
    came = []
    with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
        async with subject(Path(folder), part.scenes, embedder) as agent:
            cases = list(part.cases())
            for number, case in enumerate(cases, 1):
                came.append(await _send(agent, case, f"{part.name} {number}"))
                _tell_of(came[-1], tell)
                if number % 50 == 0:
                    tell(f"{part.name}: {number} of {len(cases)}")
    return came


async def _send(agent: Agent, case: Case, owner: str) -> Came:
    """Send one reply to a subject of its own: every owner has their run loops to themselves."""
    loop_id = await waiting(agent, case.scene, owner)
    events = [event async for event in agent.send(case.words, owner=owner)]
    joined = events[-1].run_loop_id == loop_id
    state = await agent.replay(events[-1].run_loop_id, owner=owner)
    return Came(
        case=case,
        joined=joined,
        heard=not state.unseen and _answered(events),
        choices=_choices(events) if joined and case.scene.kind == "select" else None,
    )


def _answered(events: Sequence[Event]) -> bool:
    """Whether anything was said to the message: an answer, or a question that asks back."""
    message_id = next(
        (event.body.message_id for event in events if isinstance(event.body, MessageReceived)), None
    )
    return any(
        isinstance(event.body, MessageCompleted)
        or (isinstance(event.body, InputRequired) and event.body.message_id == message_id)
        for event in events
    )


def _choices(events: Sequence[Event]) -> tuple[str, ...]:
    return next(
        (event.body.choices for event in events if isinstance(event.body, InputReceived)), ()
    )


def _tell_of(came: Came, tell: Callable[[str], None]) -> None:
    case = came.case
    what = f"{case.scene.id}: {case.label} {case.words!r}"
    if not came.heard:
        tell(f"swallowed: {what}")
    elif came.joined != case.belongs:
        tell(f"{'wrongly taken' if came.joined else 'wrongly opened'}: {what}")
    elif came.joined and case.choices not in (None, came.choices):
        tell(f"misread as {', '.join(came.choices or ()) or 'none'}: {what}")
