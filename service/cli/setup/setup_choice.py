"""A model that is chosen: what it would have in ``rondo.toml``, and how it is called."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

from pydantic import SecretStr

from service.cli.settings_edit import Changes
from service.config import LLMSettings

_LEAST_WINDOW = 2048  # of the setting
_WHAT_BELONGS_TO_A_MODEL = ("provider", "model", "base_url", "api_key", "api_key_env")


@dataclass(frozen=True, slots=True)
class Choice:
    """A model at a place."""

    place: str
    """Where, in words."""
    model: str
    base_url: str = ""
    """Empty for the provider's own."""
    provider: Literal["openai", "anthropic", "embedded"] = "openai"
    api_key: str = field(default="", repr=False)
    api_key_env: str = ""
    """The variable that the key comes from, or will; empty: the key itself is written, if any."""
    context_tokens: int | None = None
    """The window that it is served with; None where nothing is told."""
    program: str = ""
    """Of a server on this machine."""

    def is_what(self, now: LLMSettings) -> bool:
        """Whether it is what is in effect."""
        if self.provider != now.effective_provider:
            return False
        return self.model == now.model and _alike(self.base_url) == _alike(now.base_url)

    def changes(self, now: LLMSettings) -> Changes:
        """What changes in the section ``llm``.

        Args:
            now: what is in effect: a window that is set there is of the model that goes.
        """
        changes: dict[str, str | int | None] = dict.fromkeys(_WHAT_BELONGS_TO_A_MODEL)
        changes["model"] = self.model
        if self.provider != "openai":
            changes["provider"] = self.provider
        if self.provider != "embedded":
            changes["base_url"] = self.base_url or None
            changes |= self._key()
        changes["context_tokens"] = self._window(now)
        return changes

    def _key(self) -> dict[str, str | None]:
        if self.api_key_env:
            return {"api_key_env": self.api_key_env}
        if self.api_key:
            return {"api_key": self.api_key}
        # Else OpenAI's key would be sent to a server that wants none.
        return {"api_key_env": "" if os.environ.get("OPENAI_API_KEY") else None}

    def _window(self, now: LLMSettings) -> int | None:
        default = LLMSettings.model_fields["context_tokens"].default
        if self.context_tokens is not None and self.context_tokens < default:
            return max(self.context_tokens, _LEAST_WINDOW)
        return now.context_tokens if self.is_what(now) and now.context_tokens != default else None

    def settings(self, now: LLMSettings) -> LLMSettings:
        """What will be in effect, so that it can be tried."""
        default = LLMSettings.model_fields["context_tokens"].default
        return now.model_copy(
            update={
                "provider": self.provider,
                "model": self.model,
                "base_url": self.base_url,
                "api_key": SecretStr(self.api_key),
                "api_key_env": self.api_key_env,
                "context_tokens": self._window(now) or default,
            }
        )


def _alike(address: str) -> str:
    """An address without what makes no difference.

    >>> _alike("http://127.0.0.1:11434/v1/")
    'http://localhost:11434/v1'
    """
    return address.rstrip("/").replace("://127.0.0.1", "://localhost", 1)
