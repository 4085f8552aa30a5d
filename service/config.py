"""The effective settings: defaults, then ``rondo.toml``, then ``RONDO_*``, then flags.

A nested setting's variable joins the names with two underscores: ``RONDO_LLM__MODEL``.
``OPENAI_API_KEY``, ``OPENAI_BASE_URL``, ``ANTHROPIC_API_KEY``, ``ANTHROPIC_BASE_URL`` and
``TAVILY_API_KEY`` are honoured where the setting of our own is not given. A key goes to its own
vendor only. ``llm.api_key_env`` names another variable to take the key from.
"""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from service.config_sections import FOUND, Folder
from service.config_sections import AgentSettings as AgentSettings
from service.config_sections import ApprovalMode as ApprovalMode
from service.config_sections import ConsolidationSettings as ConsolidationSettings
from service.config_sections import EmbedderSettings as EmbedderSettings
from service.config_sections import LLMSettings as LLMSettings
from service.config_sections import MemorySettings as MemorySettings
from service.config_sections import ModelName as ModelName
from service.config_sections import PriceSettings as PriceSettings
from service.config_sections import RerankerSettings as RerankerSettings
from service.config_sections import RouterSettings as RouterSettings
from service.config_sections import ServerSettings as ServerSettings
from service.config_sections import ToolsSettings as ToolsSettings
from service.config_words import has_members, in_words, named
from service.domain.errors import ConfigurationError
from service.spend_settings import SpendSettings as SpendSettings

_CHECKOUT = Path(__file__).resolve().parent.parent
_HIDDEN = "**********"


_SHARED_BY_MODELS = frozenset(
    (
        "timeout_seconds",
        "max_call_seconds",
        "max_retries",
        "retry_base_seconds",
        "retry_max_seconds",
        "retry_longest_wait_seconds",
    )
)
_SHARED_AT_ONE_ENDPOINT = frozenset(
    (
        "provider",
        "base_url",
        "api_key",
        "api_key_env",
        "temperature",
        "max_tokens",
        "context_tokens",
        "images",
    )
)


def default_data_dir() -> Path:
    """``data/home`` in a checkout; else the user's own data folder (XDG)."""
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "data" / "home"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rondo"


def default_models_dir() -> Path:
    """The user's cache folder (XDG): weights are large, and shared by all data folders."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rondo" / "models"


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
    models: dict[ModelName, LLMSettings] = Field(default_factory=dict)
    """Other models, which a message can name. What is not set for one is as for `llm`, but for
    prices and fallbacks; and one with a provider or an address of its own shares no key, limit or
    temperature with it."""
    embedder: EmbedderSettings = EmbedderSettings()
    memory: MemorySettings = MemorySettings()
    agent: AgentSettings = AgentSettings()
    router: RouterSettings = RouterSettings()
    spend: SpendSettings = SpendSettings()
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

    def of_model(self, name: str) -> LLMSettings:
        """The settings of one of `models`, whole."""
        own = self.models[name]
        shared = _SHARED_BY_MODELS
        if not own.model_fields_set & {"provider", "base_url"}:
            shared |= _SHARED_AT_ONE_ENDPOINT
            if "api_key" in own.model_fields_set:
                shared -= {"api_key_env"}
        given = {each: getattr(self.llm, each) for each in shared - own.model_fields_set}
        return own.model_copy(update=given)

    @property
    def scripts_dir(self) -> Path:
        """The script repository."""
        return self.tools.scripts_dir or self.data_dir / "scripts"

    @property
    def skills_dir(self) -> Path:
        """The folder of skills: in the place where a project has its own."""
        return self.data_dir / ".agents" / "skills"

    def shown(self) -> dict[str, Any]:
        """The settings as JSON values, with secrets hidden: in addresses too."""
        shown: dict[str, Any] = _without_users(self.model_dump(mode="json"))
        return shown


def _without_users(shown: Any) -> Any:
    if not isinstance(shown, dict):
        return shown
    return {
        name: _without_user(value) if name.endswith("url") else _without_users(value)
        for name, value in shown.items()
    }


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
        sections: dict[str, Any] = {"llm": self._llm(), "models": self._models()}
        if tavily := os.environ.get("TAVILY_API_KEY"):
            sections["tools"] = {"tavily_api_key": tavily}
        return {name: section for name, section in sections.items() if section}

    def _llm(self) -> dict[str, str]:
        given = self.current_state.get("llm", {})
        if not isinstance(given, dict):
            return {}
        openai, anthropic = _with_named_key(given, "OPENAI"), _with_named_key(given, "ANTHROPIC")
        match given.get("provider", "auto"):
            case "anthropic":
                return anthropic
            case "auto" if "api_key" in anthropic and find_spec("anthropic") is not None:
                if openai or any(map(given.get, ("api_key", "api_key_env", "base_url"))):
                    return openai
                return {**anthropic, FOUND: "anthropic"}
            case _:
                return openai

    def _models(self) -> dict[str, Any]:
        """The keys of models with a provider of their own, at its own address."""
        given = self.current_state.get("models", {})
        if not isinstance(given, dict):
            return {}
        completed = {}
        for name, model in given.items():
            settings = model if isinstance(model, dict) else {}
            vendor = settings.get("provider")
            if vendor in ("openai", "anthropic") and "base_url" not in settings:
                completed[name] = _with_named_key(settings, vendor.upper())
            elif "api_key_env" in settings:
                completed[name] = _named_key(settings)
        return completed


def _with_named_key(given: dict[str, Any], vendor: str) -> dict[str, str]:
    """What the variables of a vendor say, but the key of the variable that a setting names."""
    common = _common(vendor)
    if "api_key_env" not in given:
        return common
    common.pop("api_key", None)
    return {**common, **_named_key(given)}


def _named_key(given: dict[str, Any]) -> dict[str, str]:
    """The key in the variable that ``api_key_env`` names; empty where that is not set."""
    name = given["api_key_env"]
    return {"api_key": os.environ.get(name, "") if isinstance(name, str) else ""}


def _common(vendor: str) -> dict[str, str]:
    """What the variables of a vendor say."""
    values = {name: os.environ.get(f"{vendor}_{name.upper()}") for name in ("api_key", "base_url")}
    return {name: value for name, value in values.items() if value}


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
    if loc[-1] == "[key]":  # what is wrong is the entry's name, not something within it
        loc = loc[:-1]
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


def backup_of(file: Path) -> Path:
    """Where a settings file is kept as it was before its last change, with the same keys in it."""
    return file.with_name(f"{file.name}.bak")


def load_settings(**flags: Any) -> Settings:
    """Read the effective settings.

    Args:
        **flags: settings given on the command line, nested as dicts.

    Raises:
        ConfigurationError: a file cannot be read, or a value is not allowed; says which.
    """
    file = config_file()
    if file is not None and not file.is_file():
        fault = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(
            f"{file.absolute()} {fault}",
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
            "\n".join(dict.fromkeys(problems)),
            advice="Correct it there; `rondo doctor` checks all the rest.",
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
        if section not in fields or (nested and not has_members(fields[section])):
            unknown.append(variable)
    return unknown


def variable_like(unknown: str) -> str | None:
    """The variable that may be meant by one that nothing reads."""
    variables = [f"RONDO_{name.replace('.', '__').upper()}" for name in named(Settings)]
    like = get_close_matches(unknown.upper(), ["RONDO_CONFIG", *variables], n=1, cutoff=0.7)
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
