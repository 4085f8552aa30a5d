"""Values of a server's settings that stand for a secret, and words without these."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from pydantic import SecretStr

from service.domain.errors import RondoError
from service.storage.secret_store import NAME, SecretStore
from service.tools.protocol import ToolFailure

LEAST_SECRET = 6
"""Characters of a value that is looked for in words; a shorter one is part of too much else."""
_REFERENCE = re.compile(rf"(?:(?P<before>[A-Za-z]+) )?(?P<kind>secret|env):(?P<name>{NAME})")


def resolved(written: Mapping[str, SecretStr], secrets: SecretStore) -> dict[str, str]:
    """The values that are meant: ``secret:NAME`` and ``env:NAME`` stand for others. Blocks.

    Raises:
        ToolFailure: one is not there; says which, and what to do.
    """
    return {name: _meant(value.get_secret_value(), secrets) for name, value in written.items()}


def hidden(words: str, values: Iterable[str]) -> str:
    """Words without any of these values, nor a value's last word, as of ``Bearer …``."""
    secrets = {part for value in values for part in (value, value.rpartition(" ")[2])}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= LEAST_SECRET:
            words = words.replace(secret, "…")
    return words


def _meant(written: str, secrets: SecretStore) -> str:
    reference = _REFERENCE.fullmatch(written)
    if reference is None:
        return written
    name = reference["name"]
    if reference["kind"] == "secret":
        try:
            value = secrets.get(name)
        except RondoError as error:
            raise ToolFailure(f"{error.detail}. {error.advice}") from error
    else:
        value = os.environ.get(name, "")
        if not value:
            raise ToolFailure(f"The variable {name} is not set. Set it where the daemon is started")
    return f"{reference['before']} {value}" if reference["before"] else value
