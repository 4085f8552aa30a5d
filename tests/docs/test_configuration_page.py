"""The page about the configuration tells every setting, and its example is one that loads."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from service.config import Settings, load_settings

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def names(model: type[BaseModel], prefix: str = "") -> set[str]:
    setting_names: set[str] = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            setting_names |= names(kind, f"{prefix}{name}.")
        else:
            setting_names.add(prefix + name)
    return setting_names


def test_every_setting_is_on_the_page_and_nothing_else_is() -> None:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    documented = {name for cell in cells for name in re.findall(r"`([a-z_.]+)`", cell)}
    assert documented == names(Settings)


def test_the_example_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    file = tmp_path / "rondo.toml"
    file.write_text(example)
    monkeypatch.setenv("RONDO_CONFIG", str(file))
    settings = load_settings()
    assert settings.llm.model == tomllib.loads(example)["llm"]["model"]
    assert settings.llm.effective_provider == "openai"
