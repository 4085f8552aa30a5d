"""The effective settings: defaults, then ``rondo.toml``, then ``RONDO_*``, then flags.

A nested setting's variable joins the names with two underscores: ``RONDO_LLM__MODEL``.
``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and ``TAVILY_API_KEY`` are honoured where the setting of
our own is not given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from service.domain.errors import ConfigurationError

_CHECKOUT = Path(__file__).resolve().parent.parent


def default_data_dir() -> Path:
    """``data/home`` in a checkout; else the user's own data folder (XDG)."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "data" / "home"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rondo"


def default_models_dir() -> Path:
    """The user's cache folder (XDG): weights are large, and shared by all data folders."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rondo" / "models"


Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
"""A folder as a person writes it: ``~`` is their home, and a relative one starts here."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Section):
    """Where the daemon listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    max_body_bytes: int = Field(default=4_000_000, gt=0)


class LLMSettings(_Section):
    """Which language model answers."""

    provider: Literal["auto", "openai", "embedded", "scripted"] = "auto"
    """``auto``: an OpenAI-compatible endpoint where a key or an address is given, else the
    embedded model. ``scripted`` answers from a script (tests and demonstrations)."""
    model: str = ""
    """Name of the model at the endpoint; for ``embedded`` a name from `rondo models list`; for
    ``scripted`` the path of the script."""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(default=2048, gt=0)
    context_tokens: int = Field(default=32_768, ge=2048)
    timeout_seconds: float = Field(default=120, gt=0)
    """Longest silence of the endpoint."""
    max_retries: int = Field(default=3, ge=0)

    @property
    def effective_provider(self) -> Literal["openai", "embedded", "scripted"]:
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
    linger_seconds: float = Field(default=900, ge=0)
    """How long an answered loop waits for a follow-up before it completes; 0 = not at all."""
    auto_classify: bool = True
    """False: every message without an id opens a new loop."""
    recall_tokens: int = Field(default=800, ge=0)
    """How much of long-term memory a new loop is given; 0 = none."""


class RouterSettings(_Section):
    """When similarity alone decides where a message belongs."""

    use_llm: bool = True
    llm_timeout_seconds: float = Field(default=15, gt=0)


class ToolsSettings(_Section):
    """What the assistant may use."""

    tavily_api_key: SecretStr = SecretStr("")
    scripts: bool = False
    """Whether `run_script` is offered. Each run still asks a person."""
    scripts_dir: Folder | None = None
    """The script repository; ``scripts`` in the data folder when not given."""


class Settings(BaseSettings):
    """All settings, as they are in effect."""

    model_config = SettingsConfigDict(
        env_prefix="RONDO_", env_nested_delimiter="__", extra="forbid", frozen=True
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
            env_settings,
            TomlConfigSettingsSource(settings_cls, config_file()),
            _CommonVariables(settings_cls),
        )

    @property
    def scripts_dir(self) -> Path:
        """The script repository."""
        return self.tools.scripts_dir or self.data_dir / "scripts"

    def shown(self) -> dict[str, Any]:
        """The settings as JSON values, with secrets hidden."""
        return self.model_dump(mode="json")


class _CommonVariables(PydanticBaseSettingsSource):
    """``OPENAI_API_KEY`` and its kin, by which other programs are configured too."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        sections: dict[str, dict[str, str]] = {}
        for variable, section, name in (
            ("OPENAI_API_KEY", "llm", "api_key"),
            ("OPENAI_BASE_URL", "llm", "base_url"),
            ("TAVILY_API_KEY", "tools", "tavily_api_key"),
        ):
            if value := os.environ.get(variable):
                sections.setdefault(section, {})[name] = value
        return sections


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
        raise ConfigurationError(
            f"{file} does not exist", advice="Correct RONDO_CONFIG, or unset it."
        )
    try:
        return Settings(**flags)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
        raise ConfigurationError(
            "; ".join(lines),
            advice=f"Correct it in {file or 'the RONDO_* variables or the flags'}; "
            "`rondo config` prints what is in effect.",
        ) from error
    except ValueError as error:  # malformed TOML
        raise ConfigurationError(f"{file}: {error}", advice="Correct the file.") from error
