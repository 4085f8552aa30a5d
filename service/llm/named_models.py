"""The configured models by their names, and which of them is asked when another one is down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from service.domain.errors import (
    ConfigurationError,
    InvalidInputError,
    LLMConnectionError,
    LLMError,
    LLMNotReadyError,
    LLMStatusError,
    LLMStreamError,
    LLMTimeoutError,
    Problem,
)
from service.domain.run_loops import DEFAULT_MODEL_NAME
from service.domain.usage import Prices
from service.llm.generate import Backoff
from service.llm.protocol import LLM, LLMStatus
from service.tuning import MODEL_DOWN_MOST_SECONDS, MODEL_DOWN_SECONDS

ANSWER_TOKENS = 2048
"""What is kept free for an answer in a model's window where no bound of it is set."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A language model, and how it is asked."""

    llm: LLM
    prices: Prices | None = None
    """What it costs; None: its calls have no cost."""
    answer_tokens: int = ANSWER_TOKENS
    """Tokens kept free for an answer in its window."""
    max_retries: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    """How long it is waited before a call is made again."""
    fallback: tuple[str, ...] = ()
    """The names of the models that are asked, in this order, while it is down."""

    @property
    def window_tokens(self) -> int:
        """How long a call may be, less the answer: at least half of the model's window."""
        window = self.llm.context_tokens
        return max(window - self.answer_tokens, window // 2)


@dataclass(frozen=True, slots=True)
class Turn:
    """A model that is to be asked, as it is its turn."""

    name: str
    model: NamedModel
    instead: Mapping[str, Problem]
    """The models that were to be asked before it, and are passed over: what is wrong with each."""
    is_last: bool
    """Whether there is none to be asked after it."""


class Models:
    """All models of an agent. `DEFAULT_MODEL_NAME` is the one that answers where none is named."""

    def __init__(
        self,
        default: NamedModel,
        others: Mapping[str, NamedModel],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check that the names fit together.

        Args:
            default: answers where none is named.
            others: by their names.
            clock: seconds that only grow, by which one that is down is passed over for a while.

        Raises:
            ConfigurationError: another one is called as the default one is, or a fallback is no
                model.
        """
        if DEFAULT_MODEL_NAME in others:
            raise ConfigurationError(
                f"no other model can be called {DEFAULT_MODEL_NAME}",
                advice="Give it another name.",
            )
        self._models = {DEFAULT_MODEL_NAME: default, **others}
        self._clock = clock
        self._down: dict[str, tuple[float, Problem]] = {}
        for name, model in self._models.items():
            for fallback in model.fallback:
                if fallback not in self._models or fallback == name:
                    raise ConfigurationError(
                        f"the fallback of the model {name} is {fallback}: there is no other model"
                        " of that name",
                        advice=f"There are: {', '.join(self._models)}.",
                    )

    @property
    def by_name(self) -> Mapping[str, NamedModel]:
        """All of them."""
        return self._models

    def check(self, name: str) -> None:
        """Refuse a name that no model has.

        Raises:
            InvalidInputError: there is none; says which there are.
        """
        if name not in self._models:
            raise InvalidInputError(
                f"there is no model {name!r}",
                advice=f"Name one of the configured ones: {', '.join(self._models)}.",
            )

    def of(self, name: str | None) -> NamedModel:
        """The model of that name; the default one where there is none of it any more."""
        return self._models.get(name or DEFAULT_MODEL_NAME, self._models[DEFAULT_MODEL_NAME])

    def turns(self, name: str | None) -> Iterator[Turn]:
        """The models to ask, one after another, until one has answered.

        First the one that is named, then its fallbacks. Those that have been found down lately come
        after all others, as they might be up again.
        """
        first = name or DEFAULT_MODEL_NAME
        passed: dict[str, Problem] = {}
        if first not in self._models:
            passed[first] = _not_configured(first)
            first = DEFAULT_MODEL_NAME
        order = list(dict.fromkeys([first, *self._models[first].fallback]))
        down = {each: problem for each in order if (problem := self._problem(each)) is not None}
        if len(down) == len(order):
            down = {}
        order = [each for each in order if each not in down] + list(down)
        for place, each in enumerate(order):
            # What went wrong in an earlier turn was told then.
            before = {**passed, **down} if place == 0 else {}
            yield Turn(each, self._models[each], before, is_last=place == len(order) - 1)

    def answered(self, name: str) -> None:
        """Note that a model has answered."""
        self._down.pop(name, None)

    def failed(self, name: str, error: LLMError) -> None:
        """Note that a model has failed: one that is down is passed over for a while."""
        if is_down(error) and not isinstance(error, LLMStreamError):
            pause = min(max(error.retry_after or 0, MODEL_DOWN_SECONDS), MODEL_DOWN_MOST_SECONDS)
            self._down[name] = (self._clock() + pause, error.problem())

    def status(self) -> LLMStatus:
        """Whether messages can be answered now: by the default model, or by a fallback of its."""
        first = self._models[DEFAULT_MODEL_NAME].llm.status()
        if first.ready:
            return first
        for name in self._models[DEFAULT_MODEL_NAME].fallback:
            if self._models[name].llm.status().ready:
                return LLMStatus(True, f"{first.detail} The model {name} answers in its place.")
        return first

    async def aclose(self) -> None:
        """Close all of them."""
        for model in {id(each.llm): each for each in self._models.values()}.values():
            await model.llm.aclose()

    def _problem(self, name: str) -> Problem | None:
        until, problem = self._down.get(name, (0.0, None))
        return problem if self._clock() < until else None


def is_down(error: LLMError) -> bool:
    """Whether another model might answer instead: not where the request itself is the cause."""
    if isinstance(error, LLMStatusError):
        return error.retryable or error.status in (401, 402, 403, 404)
    down = (LLMConnectionError, LLMTimeoutError, LLMStreamError, LLMNotReadyError)
    return isinstance(error, down)


def _not_configured(name: str) -> Problem:
    return Problem(
        kind="model-not-configured",
        title=f"The model {name} is not configured any more",
        detail="",
        advice="Add it to the section models of rondo.toml again, or name another one.",
    )
