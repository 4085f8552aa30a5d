"""The effective settings: defaults, then ``rondo.toml``, then ``RONDO_*``, then flags.

A nested setting's variable joins the names with two underscores: ``RONDO_LLM__MODEL``.
``OPENAI_API_KEY``, ``OPENAI_BASE_URL``, ``ANTHROPIC_API_KEY``, ``ANTHROPIC_BASE_URL`` and
``TAVILY_API_KEY`` are honoured where the setting of our own is not given. A key goes to its own
vendor only.
"""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from service.config_words import in_words, is_section, named
from service.domain.errors import ConfigurationError
from service.domain.instructions import InstructionKind

_CHECKOUT = Path(__file__).resolve().parent.parent
_HIDDEN = "**********"
_FOUND = "_found"
"""How `_CommonVariables` tells `LLMSettings` what ``auto`` comes to."""
LEAST_THINKING_TOKENS = 1024
"""Anthropic's API takes no smaller budget."""


def default_data_dir() -> Path:
    """``data/home`` in a checkout; else the user's own data folder (XDG)."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "data" / "home"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rondo"


def default_models_dir() -> Path:
    """The user's cache folder (XDG): weights are large, and shared by all data folders."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rondo" / "models"


def _folder(written: object) -> object:
    # `Path("")` would be the current folder: not what an empty text is meant to say.
    if written == "":
        raise ValueError("it is empty")
    if not isinstance(written, str | Path):
        return written
    try:
        return Path(written).expanduser().absolute()
    except RuntimeError as error:  # ~somebody
        raise ValueError("there is no such person's home") from error


Folder = Annotated[Path, BeforeValidator(_folder)]
"""A folder as a person writes it: ``~`` is their home, and a relative one starts here."""


def _names(written: object) -> object:
    if not isinstance(written, str):
        return written
    return tuple(name.strip() for name in written.split(",") if name.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""A list of names; as a variable also one text, with commas between them."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Section):
    """Where the daemon listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    max_body_bytes: int = Field(default=4_000_000, gt=0)


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
    """Which language model answers."""

    provider: Literal["auto", "openai", "anthropic", "embedded", "scripted"] = "auto"
    """``auto``: an OpenAI-compatible endpoint where a key or an address is given, else Anthropic
    where ``ANTHROPIC_API_KEY`` is set and its SDK is installed, else the embedded model.
    ``scripted`` answers from a script (tests and demonstrations)."""
    model: str = ""
    """Name of the model at the endpoint; for ``embedded`` a name from `rondo models list`; for
    ``scripted`` the path of the script."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Not for ``anthropic``, whose API takes none."""
    max_tokens: int = Field(default=2048, gt=0)
    thinking_tokens: int = Field(default=0, ge=0)
    """For ``anthropic``: how much the model may think, beside ``max_tokens``; 0 = not at all, where
    it can do without."""
    context_tokens: int = Field(default=32_768, ge=2048)
    timeout_seconds: float = Field(default=120, gt=0)
    """Longest silence of the endpoint."""
    max_retries: int = Field(default=3, ge=0)
    prices: PriceSettings = PriceSettings()

    @field_validator("thinking_tokens")
    @classmethod
    def _is_none_or_enough(cls, tokens: int) -> int:
        if 0 < tokens < LEAST_THINKING_TOKENS:
            raise ValueError(f"it is 0, or at least {LEAST_THINKING_TOKENS}")
        return tokens

    @model_validator(mode="before")
    @classmethod
    def _settle_auto(cls, read: Any) -> Any:
        # The common variables come last: they cannot replace an "auto" that was given.
        if not isinstance(read, dict) or _FOUND not in read:
            return read
        given = {name: value for name, value in read.items() if name != _FOUND}
        return {**given, "provider": read[_FOUND]}

    @property
    def effective_provider(self) -> Literal["openai", "anthropic", "embedded", "scripted"]:
        """What ``auto`` comes to."""
        if self.provider != "auto":
            return self.provider
        return "openai" if self.api_key.get_secret_value() or self.base_url else "embedded"


class EmbedderSettings(_Section):
    """How texts become vectors."""

    kind: Literal["sentence-transformers", "openai", "none"] = "sentence-transformers"
    model: str = "bundled:multilingual-e5-small"
    """``bundled:NAME``, a folder, or a Hub id; for ``openai`` the model's name there."""
    query_prompt: str | None = None
    passage_prompt: str | None = None
    base_url: str = ""
    api_key: SecretStr = SecretStr("")


class AgentSettings(_Section):
    """How run loops behave."""

    system_prompt: str = ""
    """Added to the built-in one."""
    max_iterations: int = Field(default=10, gt=0)
    max_consecutive_tool_failures: int = Field(default=3, gt=0)
    """Steps in a row in which every tool call failed; then the assistant answers without tools."""
    max_repeated_calls: int = Field(default=3, gt=1)
    """The same for the same calls with the same results."""
    auto_enhance: bool = False
    """Whether the model looks over its first answer of a run loop once more."""
    linger_seconds: float = Field(default=900, ge=0)
    """How long an answered loop waits for a follow-up before it completes; 0 = not at all."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    recall_tokens: int = Field(default=800, ge=0)
    """How much of long-term memory is put before the model at a time, when a loop begins or comes
    to another matter; three times as much in all; 0 = none."""
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
    """How long a hook may take; then it counts as failed."""
    executors: dict[InstructionKind, str] = Field(default_factory=dict)
    """Instead of the built-in ones: ``package.module:name`` of an async function."""


class RouterSettings(_Section):
    """When similarity alone decides where a message belongs."""

    use_llm: bool = True
    llm_timeout_seconds: float = Field(default=15, gt=0)


ApprovalMode = Literal["tool-declared", "always", "never"]
"""When a tool's calls wait for a yes: as the tool itself says, always, or never."""


class ToolsSettings(_Section):
    """What the assistant may use."""

    tavily_api_key: SecretStr = SecretStr("")
    scripts: bool = False
    """Whether `run_script` is offered. Each run still asks a person."""
    scripts_dir: Folder | None = None
    """The script repository; ``scripts`` in the data folder when not given."""
    ask_user: bool = True
    """Whether the model may put questions to a person. The embedded one never may."""
    approval: ApprovalMode = "tool-declared"
    """Which tool calls wait for a person's yes."""
    approval_for: dict[str, ApprovalMode] = Field(default_factory=dict)
    """The same for single tools, by their names."""


class Settings(BaseSettings):
    """All settings, as they are in effect."""

    model_config = SettingsConfigDict(
        env_prefix="RONDO_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    data_dir: Folder = Field(default_factory=default_data_dir)
    models_dir: Folder = Field(default_factory=default_models_dir)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    server: ServerSettings = ServerSettings()
    llm: LLMSettings = LLMSettings()
    embedder: EmbedderSettings = EmbedderSettings()
    agent: AgentSettings = AgentSettings()
    router: RouterSettings = RouterSettings()
    tools: ToolsSettings = ToolsSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over variables over the file; the common variables come last."""
        return (
            init_settings,
            _Variables(settings_cls),
            TomlConfigSettingsSource(settings_cls, config_file()),
            _CommonVariables(settings_cls),
        )

    @property
    def scripts_dir(self) -> Path:
        """The script repository."""
        return self.tools.scripts_dir or self.data_dir / "scripts"

    def shown(self) -> dict[str, Any]:
        """The settings as JSON values, with secrets hidden: in addresses too."""
        shown = self.model_dump(mode="json")
        for section in shown.values():
            if isinstance(section, dict):
                section.update(
                    {
                        name: _without_user(value)
                        for name, value in section.items()
                        if name.endswith("url")
                    }
                )
        return shown


def _without_user(url: str) -> str:
    # Up to the last @, whatever stands there: a password that is not quoted well is one too.
    before, at, after = url.rpartition("@")
    scheme = before[: before.find("://") + 3] if "://" in before else ""
    return f"{scheme}{_HIDDEN}@{after}" if at else url


class _Variables(EnvSettingsSource):
    """``RONDO_*``. A section that is no JSON is passed on as it is, and so refused by its name."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


class _CommonVariables(PydanticBaseSettingsSource):
    """``OPENAI_API_KEY`` and its kin, by which other programs are configured too."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        sections = {"llm": self._llm()}
        if tavily := os.environ.get("TAVILY_API_KEY"):
            sections["tools"] = {"tavily_api_key": tavily}
        return {name: section for name, section in sections.items() if section}

    def _llm(self) -> dict[str, str]:
        given = self.current_state.get("llm", {})
        if not isinstance(given, dict):
            return {}
        openai, anthropic = _common("OPENAI"), _common("ANTHROPIC")
        match given.get("provider", "auto"):
            case "anthropic":
                return anthropic
            case "auto" if "api_key" in anthropic and find_spec("anthropic") is not None:
                if openai or given.get("api_key") or given.get("base_url"):
                    return openai
                return {**anthropic, _FOUND: "anthropic"}
            case _:
                return openai


def _common(vendor: str) -> dict[str, str]:
    """What the variables of a vendor say."""
    found = {name: os.environ.get(f"{vendor}_{name.upper()}") for name in ("api_key", "base_url")}
    return {name: value for name, value in found.items() if value}


class _UsableSettings(Settings):
    """The settings without those that are wrong, which are at their defaults."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *given: PydanticBaseSettingsSource, **named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """All that can be read."""
        try:
            return super().settings_customise_sources(settings_cls, *given, **named)
        except (OSError, ValueError):
            return (_Variables(settings_cls), _CommonVariables(settings_cls))

    @model_validator(mode="wrap")
    @classmethod
    def _leave_out_what_is_wrong(cls, read: Any, build: ModelWrapValidatorHandler[Any]) -> Any:
        while True:
            try:
                return build(read)
            except ValidationError as error:
                # Without what is wrong, something else may be wrong that goes with it.
                if not any(_take_out(read, item["loc"]) for item in error.errors()):
                    raise


def _take_out(read: dict[str, Any], loc: tuple[int | str, ...]) -> bool:
    """Leave out the setting, or the entry of a table, that a place is in; whether it was there."""
    place, name = read, str(loc[0])
    for each in loc[1:]:
        if not isinstance(place.get(name), dict):
            break
        place, name = place[name], str(each)
    return place.pop(name, None) is not None


def config_file() -> Path | None:
    """The file in effect: ``$RONDO_CONFIG``, else ``rondo.toml`` here, else in the data folder."""
    if named := os.environ.get("RONDO_CONFIG"):
        return Path(named)
    data_dir = Path(os.environ.get("RONDO_DATA_DIR") or default_data_dir())
    for candidate in (Path("rondo.toml"), data_dir / "rondo.toml"):
        if candidate.is_file():
            return candidate
    return None


def load_settings(**flags: Any) -> Settings:
    """Read the effective settings.

    Args:
        **flags: settings given on the command line, nested as dicts.

    Raises:
        ConfigurationError: a file cannot be read, or a value is not allowed; says which.
    """
    file = config_file()
    if file is not None and not file.is_file():
        found = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(
            f"{file.absolute()} {found}",
            advice="Let RONDO_CONFIG name a file such as rondo.toml, or unset it.",
        )
    try:
        return Settings(**flags)
    except ValidationError as error:
        problems = [
            f"{_place(item['loc'], flags, file)}: {in_words(item, Settings)}"
            for item in error.errors()
        ]
        raise ConfigurationError(
            "\n".join(problems), advice="Correct it there; `rondo doctor` checks all the rest."
        ) from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{file.absolute() if file else 'rondo.toml'} cannot be read: {error}",
            advice="Correct the file (it is TOML, in UTF-8).",
        ) from error


def usable_settings() -> Settings:
    """The settings without those that are wrong: for looking into what is wrong."""
    return _UsableSettings()


def unknown_variables() -> list[str]:
    """Variables ``RONDO_*`` that nothing reads: spelt wrongly, most likely."""
    fields = Settings.model_fields
    unknown = []
    for variable in sorted(os.environ):
        if not variable.upper().startswith("RONDO_") or variable == "RONDO_CONFIG":
            continue
        section, nested, _ = variable[len("RONDO_") :].lower().partition("__")
        if section not in fields or (nested and not is_section(fields[section])):
            unknown.append(variable)
    return unknown


def variable_like(unknown: str) -> str | None:
    """The variable that may be meant by one that nothing reads."""
    known = [f"RONDO_{name.replace('.', '__').upper()}" for name in named(Settings)]
    like = get_close_matches(unknown.upper(), ["RONDO_CONFIG", *known], n=1, cutoff=0.7)
    return like[0] if like else None


def _place(loc: tuple[int | str, ...], flags: dict[str, Any], file: Path | None) -> str:
    """Where a setting was given: a flag, a variable, or the file."""
    if loc[0] in flags:
        return "command line"
    variables = {name.upper(): name for name, value in os.environ.items() if value}
    for depth in range(len(loc), 0, -1):
        name = "__".join(map(str, loc[:depth])).upper()
        if f"RONDO_{name}" in variables:
            return variables[f"RONDO_{name}"]
    return str(file.absolute()) if file else "settings"
