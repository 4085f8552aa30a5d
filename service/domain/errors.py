"""Every error that Rondo raises, as one tree.

RondoError
├── InvalidInputError          what the person sent cannot be used
│   └── BadAnchorError
├── NotFoundError              no such run loop, anchor, model or tool for this owner
├── ConflictError              the thing is there, but not in a state that allows this
│   └── DataFolderInUseError
├── ConfigurationError         a setting is missing or wrong
├── StorageError               the disk is full, read-only or broken
│   ├── IndexDamagedError      the vector index cannot be read; it is built anew
│   └── IndexUnreachableError  the Chroma server does not answer
├── ModelStoreError            weights cannot be fetched or do not match their hash
├── LLMError                   a model call failed
│   ├── LLMConnectionError     could not be reached, or the connection broke   (retryable)
│   ├── LLMTimeoutError        took too long                                   (retryable)
│   ├── LLMStatusError         the endpoint answered with an HTTP error        (429, 5xx: retryable)
│   ├── LLMStreamError         the stream was cut, empty or malformed          (retryable)
│   ├── LLMContextError        the conversation is longer than the model's window
│   └── LLMNotReadyError       the embedded model is not there yet             (retryable)
├── BudgetError                a budget that was set is used up
├── HookError                  a hook of a person's own failed (service.loop.hooks)
├── OwnCodeError               a brain or an executor of a person's own failed
├── EmbeddingError             texts could not be embedded
└── RerankingError             hits could not be put into a better order

Each carries three things for people: a `title` (what happened, short), `detail` (what exactly),
and `advice` (what to do about it).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, field_validator

from service.domain.text import well_formed


class Problem(BaseModel):
    """An error as a value: what an event, an HTTP answer or a terminal shows."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """Stable machine-readable name, such as ``llm-connection``."""
    title: str
    """What happened, in a few words."""
    detail: str = ""
    """What exactly, with names and numbers."""
    advice: str = ""
    """What the person can do about it."""

    @field_validator("title", "detail", "advice")
    @classmethod
    def _can_be_stored(cls, text: str) -> str:
        return well_formed(text)  # an error must not fail for the words that it quotes

    def in_words(self) -> str:
        """The problem as one readable paragraph."""
        return " ".join(
            part if part.endswith((".", "!", "?", "。")) else part + "."
            for part in (self.title, self.detail, self.advice)
            if part
        )


class RondoError(Exception):
    """Base of all errors that Rondo raises on purpose."""

    kind = "internal"
    title = "Something went wrong"

    def __init__(self, detail: str = "", *, advice: str = "", title: str | None = None) -> None:
        self.title = title or type(self).title
        self.detail = detail
        self.advice = advice
        super().__init__(detail or self.title)

    def problem(self) -> Problem:
        """The error as a value that can be journaled, sent and shown."""
        return Problem(kind=self.kind, title=self.title, detail=self.detail, advice=self.advice)


class InvalidInputError(RondoError):
    """What was sent cannot be used."""

    kind = "invalid-input"
    title = "The request cannot be used"


class BadAnchorError(InvalidInputError):
    """A text is not an anchor."""

    kind = "bad-anchor"
    title = "That is not an anchor"


class NotFoundError(RondoError):
    """There is no such thing for this owner."""

    kind = "not-found"
    title = "Not found"


class ConflictError(RondoError):
    """The thing exists, but its state does not allow this."""

    kind = "conflict"
    title = "Not possible in the present state"


class DataFolderInUseError(ConflictError):
    """Another process owns the data folder."""

    kind = "data-folder-in-use"
    title = "The data folder is in use by another process"


class ConfigurationError(RondoError):
    """A setting is missing or wrong."""

    kind = "configuration"
    title = "A setting is missing or wrong"


class StorageError(RondoError):
    """The disk refuses to store something."""

    kind = "storage"
    title = "The disk refuses to store this"


class IndexDamagedError(StorageError):
    """The vector index cannot be read or written any more."""

    kind = "index-damaged"
    title = "The vector index is damaged"


class IndexUnreachableError(StorageError):
    """The Chroma server does not answer, or refuses us."""

    kind = "index-unreachable"
    title = "The Chroma server cannot be used"


class ModelStoreError(RondoError):
    """Model weights cannot be fetched or do not match their hash."""

    kind = "model-store"
    title = "A model could not be made ready"


class LLMError(RondoError):
    """A call of the language model failed."""

    kind = "llm"
    title = "The language model failed"
    retryable = False
    retry_after: float | None = None
    """Seconds that the endpoint asked us to wait, if it said so."""


class LLMConnectionError(LLMError):
    """The endpoint cannot be reached, or the connection broke."""

    kind = "llm-connection"
    title = "The language model cannot be reached"
    retryable = True


class LLMTimeoutError(LLMError):
    """The endpoint took too long."""

    kind = "llm-timeout"
    title = "The language model took too long"
    retryable = True


class LLMStatusError(LLMError):
    """The endpoint answered with an HTTP error status."""

    kind = "llm-status"
    title = "The language model's endpoint refused the call"

    def __init__(
        self, status: int, detail: str = "", *, advice: str = "", retry_after: float | None = None
    ) -> None:
        title = "The language model's endpoint failed" if status >= 500 else None
        super().__init__(detail, advice=advice, title=title)
        self.status = status
        self.retry_after = retry_after
        self.retryable = status in (408, 409, 429) or status >= 500


class LLMStreamError(LLMError):
    """The stream was cut, empty, or not in the expected form."""

    kind = "llm-stream"
    title = "The language model's answer broke off"
    retryable = True


class LLMContextError(LLMError):
    """The conversation does not fit into the model's window."""

    kind = "llm-context"
    title = "The conversation is longer than the model's window"


class LLMNotReadyError(LLMError):
    """The embedded model has not been loaded yet."""

    kind = "llm-not-ready"
    title = "The language model is not ready yet"
    retryable = True


class BudgetError(RondoError):
    """A budget that was set is used up."""

    kind = "budget"
    title = "The budget is used up"


class OwnCodeError(RondoError):
    """A brain or an executor of a person's own failed."""

    kind = "own-code"
    title = "Code of your own failed"


class EmbeddingError(RondoError):
    """Texts could not be embedded."""

    kind = "embedding"
    title = "Texts could not be embedded"


class RerankingError(RondoError):
    """Hits could not be put into a better order."""

    kind = "reranking"
    title = "The hits could not be reranked"


def error_of(problem: Problem) -> RondoError:
    """The error that a problem tells of, to be raised again.

    It is of the class that has its kind; an `LLMStatusError` becomes an `LLMError`, as a problem
    does not know the status.

    >>> error_of(Problem(kind="budget", title="The budget is used up"))
    BudgetError('The budget is used up')
    >>> type(error_of(Problem(kind="llm-status", title="Refused"))).__name__
    'LLMError'
    """
    classes: list[type[RondoError]] = [RondoError]
    for each in classes:  # grows meanwhile: those above come before those below
        classes += each.__subclasses__()
    error_class = next((each for each in classes if each.kind == problem.kind), RondoError)
    if issubclass(error_class, LLMStatusError):  # needs the status
        error_class = LLMError
    error = error_class(problem.detail, advice=problem.advice, title=problem.title)
    error.kind = problem.kind
    return error
