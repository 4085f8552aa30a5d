"""`rondo bench answers`: conversations through the daemon's own parts, beside the bare model."""

from __future__ import annotations

import json
import platform
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Literal

import anyio

from service import __version__
from service.bench.answers import answer_subject
from service.bench.answers.answer_checks import faults
from service.bench.answers.answer_dataset import Conversation, read_data
from service.bench.answers.answer_figures import Figures, Outcome, of_runs, starts
from service.bench.answers.answer_subject import Heard
from service.bench.parameters import BenchmarkError
from service.config import Settings
from service.llm.factory import create_llm
from service.llm.protocol import LLM
from service.memory.embedders import create_embedder

Arm = Literal["rondo", "bare"]
Tell = Callable[[str], None]
_TELL_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    data: Sequence[Path]
    """Files, or folders of files."""
    settings: Settings
    """As the daemon has them, its folder of data apart."""
    models: Sequence[str] = ()
    """Of the catalogue; none: what the settings say."""
    only: Sequence[str] = ()
    """Categories; patterns do."""
    runs: int = 1
    bare: bool = True
    """Whether the model is asked by itself, too."""
    starts: bool = True
    """Whether the first message after a start is timed, with a model process of its own."""
    seed: int = 0
    """Draws in which order the conversations are had: another one for each run."""
    save: Path | None = None
    """A file for all that was said, as JSON Lines."""


def run(plan: Plan, *, tell: Tell = lambda words: None) -> Figures:
    """Measure.

    Args:
        plan: what.
        tell: told in words, for a person, what goes on, and of each answer that does not pass.

    Returns:
        ``{"models": {NAME: {"rondo": FIGURES, "bare": FIGURES, "starts": …}}, …}``; FIGURES as
        `of_runs` gives them.

    Raises:
        BenchmarkError: the data cannot be used, or nothing can be written to the file.
        RondoError: the model or the embedder cannot be had.
    """
    data = read_data(plan.data, plan.only)
    named = {_name(settings): settings for settings in _settings(plan)}
    tell(f"{data.checked} answers of {len(data.conversations)} conversations are checked")
    with ExitStack() as stack:
        saved = stack.enter_context(_opened(plan.save)) if plan.save else None
        models = {
            name: anyio.run(
                partial(_Measuring(plan, name, settings, tell, saved).all, data.conversations)
            )
            for name, settings in named.items()
        }
    embedder = create_embedder(plan.settings, quick_start=False)
    return {
        "benchmark": "answers",
        "models": models,
        "messages": data.checked,
        "conversations": len(data.conversations),
        "runs": plan.runs,
        "seed": plan.seed,
        "bare_prompt": answer_subject.BARE_PROMPT,
        "inputs": data.inputs,
        "embedder": embedder.identity if embedder else None,
        "version": __version__,
        "python": platform.python_version(),
    }


class _Measuring:
    """All conversations with one model."""

    def __init__(
        self, plan: Plan, name: str, settings: Settings, tell: Tell, saved: IO[str] | None
    ) -> None:
        self._plan = plan
        self._name = name
        self._settings = settings
        self._tell = tell
        self._saved = saved

    async def all(self, conversations: Sequence[Conversation]) -> Figures:
        # The model keeps what it reads of prompts in the folder of data: not in a person's own.
        with tempfile.TemporaryDirectory(prefix="rondo-bench-") as folder:
            return await self._all(conversations, Path(folder))

    async def _all(self, conversations: Sequence[Conversation], folder: Path) -> Figures:
        figures: Figures = {}
        if self._plan.starts:
            self._tell(f"{self._name}: starting, several times")
            figures["starts"] = await starts(self._settings)
        llm = create_llm(self._settings.model_copy(update={"data_dir": folder}))
        arms: tuple[Arm, ...] = ("rondo", "bare") if self._plan.bare else ("rondo",)
        runs: dict[Arm, list[list[Outcome]]] = {arm: [] for arm in arms}
        try:
            await llm.warm_up(())  # what cannot be had at all is told once, not for each message
            for number in range(self._plan.runs):
                order = list(conversations)
                random.Random(self._plan.seed + number).shuffle(order)
                for arm in arms:
                    had = [each async for each in self._run(llm, arm, number, order)]
                    runs[arm].append(had)
        finally:
            await llm.aclose()
        return {**{arm: of_runs(runs[arm]) for arm in arms}, **figures}

    async def _run(
        self, llm: LLM, arm: Arm, run: int, conversations: Sequence[Conversation]
    ) -> AsyncIterator[Outcome]:
        for number, conversation in enumerate(conversations, 1):
            if arm == "bare":
                heard = await answer_subject.converse_with_bare_model(llm, conversation)
            else:
                heard = await answer_subject.converse(self._settings, llm, conversation)
            for turn, each in enumerate(heard):
                outcome = _outcome(conversation, turn, each)
                self._note(arm, run, outcome)
                yield outcome
            if number % _TELL_EVERY == 0:
                self._tell(f"{self._name}, {arm}, run {run + 1}: {number} of {len(conversations)}")

    def _note(self, arm: Arm, run: int, outcome: Outcome) -> None:
        conversation, turn = outcome.conversation, outcome.turn
        said = conversation.turns[turn].say
        if outcome.faults:
            why = "; ".join(outcome.faults)
            answer = " ".join(outcome.heard.answer.split())
            self._tell(
                f"failed: {self._name}, {arm}, run {run + 1}: {conversation.id}, turn {turn + 1}:"
                f" {said!r} → {answer[:300]!r}: {why}"
            )
        if self._saved is None:
            return
        line = {
            "model": self._name,
            "arm": arm,
            "run": run + 1,
            "id": conversation.id,
            "category": conversation.category,
            "safety": conversation.safety,
            "turn": turn + 1,
            "said": said,
            **asdict(outcome.heard),
            "checked": outcome.faults is not None,
            "faults": list(outcome.faults or ()),
        }
        print(json.dumps(line, ensure_ascii=False), file=self._saved, flush=True)


def _outcome(conversation: Conversation, turn: int, heard: Heard) -> Outcome:
    said = conversation.turns[turn]
    if said.check is None:
        return Outcome(conversation, turn, heard, None)
    wrong = faults(
        heard.answer,
        said.check,
        said=said.say,
        language=conversation.language,
        tools=heard.tools,
        today=datetime.now().astimezone().date(),
    )
    return Outcome(
        conversation, turn, heard, tuple([heard.problem, *wrong] if heard.problem else wrong)
    )


def _settings(plan: Plan) -> list[Settings]:
    if not plan.models:
        return [plan.settings]
    chosen = plan.settings.llm
    return [
        plan.settings.model_copy(
            update={"llm": chosen.model_copy(update={"provider": "embedded", "model": name})}
        )
        for name in dict.fromkeys(plan.models)
    ]


def _name(settings: Settings) -> str:
    return create_llm(settings).model


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise BenchmarkError(
            f"nothing can be written to {path}: {error.strerror or error}",
            advice="Give --save another file.",
        ) from error
