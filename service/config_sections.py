"""The sections of the settings: what can be set, what is allowed, and what holds where nothing is
given. `service.config` reads them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from service.config_types import Folder as Folder
from service.config_types import Folders, Names
from service.config_types import Section as _Section
from service.domain.conversation.instructions import InstructionKind
from service.network_grants import NetworkGrant
from service.tool_server_settings import McpServerName
from service.tool_server_settings import McpServerSettings as McpServerSettings
from service.tool_server_settings import McpToolSettings as McpToolSettings

FOUND = "_found"
"""How the reader of the common variables tells `LLMSettings` what ``auto`` comes to."""
LEAST_THINKING_TOKENS = 1024
"""Anthropic's API takes no smaller budget."""


ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
"""What a model is called by: variables know no capital letters."""


class ServerSettings(_Section):
    """Where the daemon listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    max_body_bytes: int = Field(default=16_000_000, gt=0)
    max_connections: int = Field(default=4096, ge=1)
    """At once; fewer where the system lets the daemon open fewer files."""
    heartbeat_seconds: float = Field(default=15.0, gt=0, le=60)
    """After how long a silence an event stream sends a comment: clients, and proxies between, take
    longer ones for the end."""


class PriceSettings(_Section):
    """What the model costs, for each million tokens."""

    input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """For input that came from the endpoint's cache; as ``input`` when not given."""
    currency: str = "USD"

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if (self.input is None) != (self.output is None):
            raise ValueError("`input` and `output` go together")
        if self.input is None and self.cached_input is not None:
            raise ValueError("`cached_input` goes with `input` and `output`")
        return self


class LLMSettings(_Section):
    """Which language model answers where a message names none."""

    provider: Literal["auto", "openai", "anthropic", "embedded", "scripted"] = "auto"
    """``auto``: an OpenAI-compatible endpoint where a key or an address is given, else Anthropic
    where ``ANTHROPIC_API_KEY`` is set and its SDK is installed, else the embedded model.
    ``scripted`` answers from a script (tests and demonstrations)."""
    model: str = ""
    """Name of the model at the endpoint; for ``embedded`` a name from `rondo models list`; for
    ``scripted`` the path of the script."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    api_key_env: str = ""
    """The variable that holds the key, where ``api_key`` is not given. Where this is, also as an
    empty text, the key of ``OPENAI_API_KEY`` and its kin does not count."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Not for ``anthropic``, whose API takes none."""
    max_tokens: int | None = Field(default=None, gt=0)
    """The longest answer. None: as long as an OpenAI-compatible endpoint allows; 2,048 for
    ``anthropic``, whose API wants a bound; 512 for the embedded model, which goes no further."""
    thinking_tokens: int = Field(default=0, ge=0)
    """For ``anthropic``: how much the model may think, beside ``max_tokens``; 0 = not at all, where
    it can do without."""
    context_tokens: int = Field(default=32_768, ge=2048)
    timeout_seconds: float = Field(default=120, gt=0)
    """Longest silence of the endpoint: a time without an event, comments apart."""
    max_call_seconds: float = Field(default=3600, gt=0, allow_inf_nan=False)
    """Longest that a call may take as a whole, also while something keeps coming."""
    images: bool = True
    """Whether the model is shown images. False: it is told that there is one. The embedded model is
    never shown any."""
    max_retries: int = Field(default=3, ge=0)
    retry_base_seconds: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    """The longest wait before the first retry; it doubles with each."""
    retry_max_seconds: float = Field(default=20, ge=0, allow_inf_nan=False)
    """The longest wait before any retry."""
    retry_longest_wait_seconds: float = Field(default=60, ge=0, allow_inf_nan=False)
    """The longest wait that an endpoint may ask for; where it asks for more, the call fails at
    once."""
    fallback: Names = ()
    """Names of ``models`` that are asked, in this order, while it is down."""
    prices: PriceSettings = PriceSettings()

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if name and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError("it is the name of a variable, not a key")
        return name

    @field_validator("thinking_tokens")
    @classmethod
    def _is_none_or_enough(cls, tokens: int) -> int:
        if 0 < tokens < LEAST_THINKING_TOKENS:
            raise ValueError(f"it is 0, or at least {LEAST_THINKING_TOKENS}")
        return tokens

    @model_validator(mode="after")
    def _waits_grow(self) -> Self:
        if self.retry_base_seconds > self.retry_max_seconds:
            raise ValueError("`retry_base_seconds` is at most `retry_max_seconds`: set both")
        return self

    @model_validator(mode="before")
    @classmethod
    def _settle_auto(cls, read: Any) -> Any:
        # The common variables come last: they cannot replace an "auto" that was given.
        if not isinstance(read, dict) or FOUND not in read:
            return read
        given = {name: value for name, value in read.items() if name != FOUND}
        return {**given, "provider": read[FOUND]}

    @property
    def effective_provider(self) -> Literal["openai", "anthropic", "embedded", "scripted"]:
        """What ``auto`` comes to."""
        if self.provider != "auto":
            return self.provider
        is_given = self.api_key.get_secret_value() or self.api_key_env or self.base_url
        return "openai" if is_given else "embedded"


class EmbedderSettings(_Section):
    """How texts become vectors."""

    kind: Literal["sentence-transformers", "openai", "none"] = "sentence-transformers"
    model: str = "bundled:multilingual-e5-small"
    """``bundled:NAME``, a folder, or a Hub id; for ``openai`` the model's name there."""
    query_prompt: str | None = None
    passage_prompt: str | None = None
    base_url: str = ""
    api_key: SecretStr = SecretStr("")


class ConsolidationSettings(_Section):
    """Notes that the language model writes on persons, projects and topics, in idle time."""

    enabled: bool = False
    """Needs a model at an endpoint: the embedded one invents facts."""
    idle_seconds: float = Field(default=300, gt=0, allow_inf_nan=False)
    """How long no run loop must have been at work."""
    max_tokens_per_day: int = Field(default=50_000, gt=0)
    """Tokens that all of it may use in a day, prompts and answers together."""
    min_new_segments: int = Field(default=10, gt=0)
    """How much must be new: segments that a person or the assistant has said."""


class RerankerSettings(_Section):
    """A second, slower look at the best hits of a search, where a search asks for it."""

    kind: Literal["none", "cross-encoder", "endpoint"] = "none"
    """``endpoint``: any with ``/rerank`` in the form of Jina and Cohere."""
    model: str = ""
    """For ``cross-encoder`` a folder or a Hub id; for ``endpoint`` the model's name there."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    candidates: int = Field(default=40, ge=1, le=1000)
    """How many of the best hits it looks at."""
    timeout_seconds: float = Field(default=10, gt=0, allow_inf_nan=False)
    """Of the endpoint."""


class MemorySettings(_Section):
    """Where the vector index lives (embedded, on a Chroma server, in Chroma Cloud); and notes."""

    chroma: Literal["embedded", "server", "cloud"] = "embedded"
    chroma_host: str = "127.0.0.1"
    """Of the server. So are the next four."""
    chroma_port: int = Field(default=8000, ge=1, le=65535)
    chroma_ssl: bool = False
    chroma_token: SecretStr = SecretStr("")
    """Sent as ``Authorization: Bearer``."""
    chroma_headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with each request, for a server behind a proxy."""
    chroma_tenant: str = ""
    """Of a server or of the cloud; empty for their default."""
    chroma_database: str = ""
    chroma_api_key: SecretStr = SecretStr("")
    """Of Chroma Cloud."""
    consolidation: ConsolidationSettings = ConsolidationSettings()
    reranker: RerankerSettings = RerankerSettings()

    @model_validator(mode="after")
    def _cloud_has_a_key(self) -> Self:
        if self.chroma == "cloud" and not self.chroma_api_key.get_secret_value():
            raise ValueError("`chroma_api_key` is needed where `chroma` is `cloud`")
        return self


class AgentSettings(_Section):
    """How run loops behave."""

    system_prompt: str = ""
    """Your own."""
    system_prompt_mode: Literal["append", "replace"] = "append"
    """Whether it is added to the built-in one, or stands in its place."""
    max_iterations: int = Field(default=10, gt=0)
    max_consecutive_tool_failures: int = Field(default=3, gt=0)
    """Steps in a row in which every tool call failed, or every call of one tool; then the
    assistant answers without tools."""
    max_repeated_calls: int = Field(default=3, gt=1)
    """The same for the same calls with the same results."""
    max_continuations: int | None = Field(default=None, ge=0)
    """How often the model goes on by itself with one answer that was cut off at its limit of
    tokens; then it is marked as cut. None: three times; the embedded model, which only repeats
    itself, never."""
    auto_enhance: bool = False
    """Whether the model looks over each of its answers once more. Each owner can switch it."""
    auto_enhance_prompt: str = ""
    """With what it is asked to; empty: with the built-in words."""
    linger_seconds: float = Field(default=900, ge=0)
    """How long an answered loop waits for a follow-up before it completes; 0 = not at all."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    recall_tokens: int = Field(default=800, ge=0)
    """How much of long-term memory is put before the model at a time, when a loop begins or comes
    to another topic; three times as much in all; 0 = none."""
    compaction: Literal["auto", "model", "extract", "off"] = "auto"
    """Who summarises old rounds when the window nears its end. ``auto``: the model, but ``extract``
    (the first sentences, without a model) for the embedded one, which takes long for it. ``off``:
    nobody; what does not fit is left out, with a notice."""
    budget_tokens: int | None = Field(default=None, gt=0)
    """Tokens that a run loop may use, prompts and answers together, before it stops."""
    budget_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """What a run loop may cost before it stops, in the currency of ``llm.prices``."""
    hooks: Names = ()
    """Code around what the agent does: ``package.module:name`` of `Hooks`, class or instance."""
    hook_timeout_seconds: float = Field(default=30, gt=0)
    """How long a hook, or a brain of your own, may take; then it counts as failed."""
    brain: str = ""
    """What decides what is next, instead of the built-in brain: ``package.module:name`` of a class
    or an instance."""
    executors: dict[InstructionKind, str] = Field(default_factory=dict)
    """Instead of the built-in ones: ``package.module:name`` of an async function."""


class RouterSettings(_Section):
    """What happens to a message of which it is not sure where it belongs."""

    use_llm: Literal["auto"] | bool = "auto"
    """Whether the language model is asked then. ``auto``: one at an endpoint, not the embedded one,
    which is slower and no better than the trained model."""
    llm_timeout_seconds: float = Field(default=15, gt=0, allow_inf_nan=False)
    """How long it may take; the messages behind wait."""
    sure_above: float = Field(default=0.6, ge=0, le=1)
    """The confidence from which on the trained model decides by itself. 0: always."""
    ask_below: float = Field(default=0, ge=0, le=1)
    """The confidence below which you are asked where the message belongs. 0: never."""
    unsure_below: float = Field(default=0.6, ge=0, le=1)
    """The confidence below which you are shown where else it could belong. 0: never."""
    split_matters: bool = False
    """Whether a message with several requests is taken apart."""


ApprovalMode = Literal["tool-declared", "always", "never"]
"""When a tool's calls wait for a yes: as the tool itself says, always, or never."""


SandboxSetting = Literal["auto", "bubblewrap+landlock", "bubblewrap", "landlock", "none"]
"""In what programs run; ``none``: just so, and each run asks a person."""


class ToolsSettings(_Section):
    """What the assistant may use."""

    modules: Names = ()
    """Tools of one's own: ``package.module:name``, or ``package.module`` for all that are made with
    `tool` there."""
    entry_points: bool = True
    """Whether installed packages add tools by the entry points of the group ``rondo.tools``."""
    mcp: dict[McpServerName, McpServerSettings] = Field(default_factory=dict)
    """MCP servers, by names of your choice."""
    tavily_api_key: SecretStr = SecretStr("")
    web_fetch: bool = False
    """Whether `web_fetch` is offered. Each host still asks a person."""
    web_fetch_private_hosts: tuple[str, ...] = ()
    """Names of hosts that it may ask wherever they are, such as in your own network."""
    scripts: bool = False
    """Whether scripts can be run and skills changed. Each time still asks a person."""
    scripts_dir: Folder | None = None
    """The script repository; ``scripts`` in the data folder when not given."""
    skills: bool = True
    """Whether the model is told of the skills that there are, and may read them."""
    files_read: Folders = ()
    """Folders of yours in which the assistant may read, list and search."""
    files_write: Folders = ()
    """Folders of yours in which it may do that, and change files, each time with your yes."""
    sandbox: SandboxSetting = "auto"
    """In what scripts run. ``auto``: the best that this machine has; without any, each run asks."""
    script_read: Folders = ()
    """Folders of yours that scripts may read in their sandbox."""
    script_write: Folders = ()
    """Folders of yours that scripts may change, too."""
    script_network: NetworkGrant = False
    """Whether scripts may use the network, or which hosts of it."""
    ask_user: bool = True
    """Whether the model may put questions to a person. The embedded one never may."""
    approval: ApprovalMode = "tool-declared"
    """Which tool calls wait for a person's yes."""
    approval_for: dict[str, ApprovalMode] = Field(default_factory=dict)
    """The same for single tools, by their names."""
