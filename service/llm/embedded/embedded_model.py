"""The language model that comes with Rondo: small, local, and there without any account."""

from __future__ import annotations

import platform
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import (
    StreamPart,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from service.domain.conversation.tool_definitions import ToolDefinition
from service.domain.errors import (
    LLMConnectionError,
    LLMContextError,
    LLMError,
    LLMNotReadyError,
    LLMStatusError,
)
from service.llm.embedded.embedded_process import ModelProcess
from service.llm.embedded.embedded_server import SlottedLLM
from service.llm.embedded.prompt_states import Opening, PromptStates
from service.llm.embedded.small_answer import answered, beginning_of
from service.llm.embedded.tool_adapter import ToolChoice, plain
from service.llm.protocol import LLMStatus, without_images
from service.models.catalog import SMALL_MODEL, known_model
from service.models.weight_store import ModelStore

BETTER_MODEL = (
    "`rondo setup` finds a better model and sets it up; by hand: RONDO_LLM__BASE_URL (or"
    " OPENAI_BASE_URL), RONDO_LLM__API_KEY (or OPENAI_API_KEY, or ANTHROPIC_API_KEY)"
    " and RONDO_LLM__MODEL."
)
_WINDOW_TOKENS = 8192
_CHOICE_TOKENS = 160
"""How long the choice of a tool may be, with its arguments."""
_POLL_SECONDS = 0.05
_FAILURE_LASTS_SECONDS = 30.0
_DEATH_SHOWS_SECONDS = 1.0


def describe(name: str = SMALL_MODEL) -> str:
    """What an embedded model can and cannot do, in words for people.

    >>> "invents facts" in describe()
    True
    """
    return (
        f"{name} runs on this machine, on its processor, without any account. It is a real"
        " but very small model: it chats briefly in English and Chinese, restates what is put"
        " before it, and picks simple tools. It invents facts, reasons badly, answers one call"
        f" at a time, and is not for load. {BETTER_MODEL}"
    )


class EmbeddedLLM:
    """A model in a child process. Satisfies `service.llm.protocol.LLM`.

    The first call fetches the weights if they are not there, and starts the process; further calls
    share it, and take turns. A process that died is started again by the next call.
    """

    takes_images = False
    is_free = True

    def __init__(
        self,
        *,
        store: ModelStore,
        name: str = SMALL_MODEL,
        max_tokens: int = 512,
        temperature: float | None = None,
        context_tokens: int = _WINDOW_TOKENS,
        states_dir: Path | None = None,
    ) -> None:
        """Describe the model. Does no I/O.

        Args:
            store: where its weights are, or are brought to.
            name: of the store's catalogue.
            max_tokens: bound of every answer; calls cannot go above it, as small models tend to
                run on.
            temperature: None for 0, which chooses tools most reliably.
            context_tokens: the window to make room for (memory grows with it).
            states_dir: a folder of its own for what it has read of how prompts begin, so that the
                next start need not read it again; None: nothing is kept.

        Raises:
            NotFoundError: no model of that name is known.
        """
        weights = known_model(name, store.catalog)
        self.parameters = weights.parameters
        self._store = store
        self._name = name
        self._max_tokens = max_tokens
        self._temperature = temperature or 0.0
        self._window = min(context_tokens, weights.context_tokens)
        self._states: PromptStates | None = None
        if states_dir is not None:
            made_with = (weights.sha256, _library(), str(self._window))
            self._states = PromptStates(states_dir, name, made_with)
        self._openings: list[Opening] = []
        self._process: ModelProcess | None = None
        self._client: SlottedLLM | None = None
        self._closed = False
        self._choices: dict[tuple[str, ...], ToolChoice] = {}

    @property
    def model(self) -> str:
        """The model's name."""
        return self._name

    @property
    def context_tokens(self) -> int:
        """How many tokens a call may hold."""
        return self._window

    def most_output_tokens(self, max_tokens: int | None) -> int:
        """See `service.llm.protocol.most_output_tokens`; with the choice of a tool."""
        return min(max_tokens or self._max_tokens, self._max_tokens) + _CHOICE_TOKENS

    @property
    def process(self) -> ModelProcess | None:
        """The process that holds the model; None before the first message."""
        return self._process

    def status(self) -> LLMStatus:
        """What the process is doing, or why it is not there."""
        process = self.process
        if process is None:
            words = "is fetched if missing, and loaded, with the first message"
            return LLMStatus(False, f"{self._name} {words}")
        match process.phase:
            case "ready":
                return LLMStatus(True, f"{self._name}, embedded")
            case "downloading" if process.progress is not None:
                return LLMStatus(False, process.progress.in_words(), process.progress)
            case "over":
                problem = process.problem
                return LLMStatus(False, problem.in_words() if problem else "stopped")
            case phase:
                return LLMStatus(False, f"{phase} {self._name}")

    async def warm_up(
        self, openings: Sequence[Sequence[Message]], *, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Fetch and load the model, and have it read how conversations begin.

        Reading that takes seconds. The server keeps it for all later calls, and the states' folder
        for later starts: then it is there before the first call. Cancelled, it stops the fetching:
        what has come is kept.

        Raises:
            LLMNotReadyError: it cannot be made ready; says why and what to do.
            LLMError: the process died meanwhile.
        """
        # What was learnt before is there for every call from the first one on.
        self._openings[:] = [tuple(each) for each in openings]
        if tools:
            self._openings.insert(0, self._choice(tools).opening)  # asked first
        try:
            _, client = await self._ready()
        except anyio.get_cancelled_exc_class():
            # Nobody wants it any more. `aclose` comes only when all else has ended, which may
            # wait for a library that is being imported.
            if self._process is not None:
                self._process.stop_fetching()
            raise
        for each in self._openings:
            await client.learn(each)
        if self._states is not None and self._openings:
            await anyio.to_thread.run_sync(self._states.keep_only, self._openings)

    async def aclose(self) -> None:
        """Stop the process and whatever leads up to it. Later calls fail."""
        self._closed = True
        process, client = self._process, self._client
        with anyio.CancelScope(shield=True):
            if client is not None:
                await client.aclose()
            if process is not None:
                await anyio.to_thread.run_sync(process.stop)

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolDefinition] = (),
        response_schema: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[StreamPart]:
        """Stream the answer (see the protocol).

        Raises:
            LLMNotReadyError: the model cannot be made ready.
            LLMError: of the kind that fits.
        """
        process, client = await self._ready()
        bound = min(max_tokens or self._max_tokens, self._max_tokens)
        warmth = self._temperature if temperature is None else temperature
        messages = without_images(messages)
        choice = self._choice(tools) if tools and response_schema is None else None
        used: TokenUsage | None = None
        try:
            said = messages[:-1] if beginning_of(messages) else messages
            if choice is not None and choice.is_open(said):
                call, used = await self._chosen(client, choice, said)
                if call is not None:
                    yield call
                    if used is not None:
                        yield used
                    return
            prompt = plain(messages)
            if response_schema is not None:
                parts = client.stream(
                    prompt,
                    response_schema=response_schema,
                    max_tokens=bound,
                    temperature=warmth,
                )
            else:
                ask = partial(client.stream, max_tokens=bound, temperature=warmth)
                # What a tool gave may well say the question again.
                to = said[-1].text if said[-1].role == "user" else ""
                parts = answered(ask, prompt, to=to)
            async with aclosing(parts):
                async for part in parts:
                    if isinstance(part, TokenUsage):
                        part, used = _together(used, part), None
                    yield part
            if used is not None:  # it was stopped before it had told
                yield used
        except LLMError as error:
            if error.retryable and await _has_ended(process):
                raise self._death(process) from error
            too_long = isinstance(error, LLMContextError)
            if too_long or (isinstance(error, LLMStatusError) and error.status == 400):
                raise (LLMContextError if too_long else LLMError)(
                    f"{self._name} cannot take this: {error.detail.partition(': ')[2]}",
                    advice=f"Ask with fewer words, in a new conversation. {BETTER_MODEL}",
                ) from error
            raise

    async def _chosen(
        self, client: SlottedLLM, choice: ToolChoice, messages: Sequence[Message]
    ) -> tuple[ToolCallDelta | None, TokenUsage | None]:
        """Which tool the last message needs, if any, and what it took to find out."""
        words, used = "", None
        asked = client.stream(
            choice.question(messages),
            response_schema=choice.schema,
            max_tokens=_CHOICE_TOKENS,
            temperature=0.0,
        )
        async with aclosing(asked):
            async for part in asked:
                if isinstance(part, TextDelta):
                    words += part.text
                elif isinstance(part, TokenUsage):
                    used = part
        return choice.call_in(words), used

    def _choice(self, tools: Sequence[ToolDefinition]) -> ToolChoice:
        key = tuple(tool.model_dump_json() for tool in tools)
        if key not in self._choices:
            if len(self._choices) >= 8:
                self._choices.clear()
            self._choices[key] = ToolChoice(tools)
        return self._choices[key]

    async def _ready(self) -> tuple[ModelProcess, SlottedLLM]:
        # No await stands between looking and replacing: one event loop, one start.
        if self._process is None or self._may_start_again(self._process):
            self._process = ModelProcess(
                self._store,
                self._name,
                context_tokens=self._window,
                states_dir=self._states.folder if self._states else None,
            )
            self._client = None
            self._process.start()
        process = self._process
        while process.phase not in ("ready", "over"):  # noqa: ASYNC110 - a thread changes it
            await anyio.sleep(_POLL_SECONDS)
        if process.phase == "over" or self._closed:
            raise self._not_ready(process)
        if self._client is None:
            self._client = SlottedLLM(
                model=self._name,
                address=process.address,
                api_key=process.api_key,
                states=self._states,
                openings=self._openings,
            )
        return process, self._client

    def _may_start_again(self, process: ModelProcess) -> bool:
        if process.phase != "over" or process.is_hopeless or self._closed:
            return False
        died_in_service, was_stopped = bool(process.address), process.problem is None
        return (
            died_in_service
            or was_stopped
            or time.monotonic() - process.ended_at > _FAILURE_LASTS_SECONDS
        )

    def _not_ready(self, process: ModelProcess) -> LLMNotReadyError:
        if process.problem is None:
            error = LLMNotReadyError(f"{self._name} was stopped")
        else:
            what = process.problem.model_copy(update={"advice": ""}).in_words()
            error = LLMNotReadyError(what, advice=f"{process.problem.advice} {BETTER_MODEL}")
        error.retryable = False  # another try in some seconds would meet the same
        return error

    def _death(self, process: ModelProcess) -> LLMConnectionError:
        problem = process.problem
        if problem is None:
            return LLMConnectionError(f"{self._name} was stopped")
        return LLMConnectionError(problem.detail, advice=problem.advice)


def _library() -> str:
    try:
        return f"{version('xllamacpp')} {platform.machine()}"
    except PackageNotFoundError:  # the process will say so
        return ""


def _together(one: TokenUsage | None, other: TokenUsage) -> TokenUsage:
    if one is None:
        return other
    return TokenUsage(
        other.model,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
    )


async def _has_ended(process: ModelProcess) -> bool:
    """Whether the process is gone. A broken connection can be noticed before its end is."""
    with anyio.move_on_after(_DEATH_SHOWS_SECONDS):
        while process.phase != "over":  # noqa: ASYNC110 - a thread changes it
            await anyio.sleep(_POLL_SECONDS)
    return process.phase == "over"
