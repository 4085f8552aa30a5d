"""What the first chat asks where nobody has said yet which model answers."""

from __future__ import annotations

import sys
from pathlib import Path

from service.cli.chat.argument_editor import ask_line
from service.cli.chat.human_questions import NO, YES
from service.cli.daemon.daemon_settings import daemon_settings, section_of
from service.cli.setup.found_models import is_configured
from service.cli.terminal.output import aside
from service.config import LLMSettings, Settings, load_settings

_MARK = "setup-offered"


def set_up_first() -> bool:
    """Offer the setup, once; whether a model was written, so that the chat cannot begin yet.

    Nothing is asked where no person is at the terminal, where a model is set in the file, by
    variables or in the daemon that runs, or where it was asked before in this data folder.

    Raises:
        ConfigurationError: the settings cannot be read.
        SystemExit: the person leaves altogether, by Ctrl-C or Ctrl-D.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        return False
    settings = load_settings()
    mark = settings.data_dir / _MARK
    if mark.exists() or is_configured(settings.llm) or _daemon_is_configured(settings):
        return False
    aside().print("No model is set up yet: a small one would answer, which invents facts.")
    aside().print("`rondo setup` looks for a better one on this machine; it takes a minute.")
    accepted = _wants_it()
    _remember(mark)
    if not accepted:
        aside().print("`rondo setup` does it at any time. This is not asked again.\n", style="dim")
        return False
    from service.cli.setup.wizard import run_wizard

    return run_wizard(settings)


def _wants_it() -> bool:
    """Enter is a yes.

    Raises:
        SystemExit: Ctrl-C or Ctrl-D, which decide nothing: it is asked again the next time.
    """
    while True:
        try:
            said = ask_line("Set one up now? [Y/n] › ").strip().lower()
        except (EOFError, KeyboardInterrupt) as left:
            aside().print()
            raise SystemExit(130 if isinstance(left, KeyboardInterrupt) else 0) from None
        if not said or said in YES:
            return True
        if said in NO or said == "q":
            return False
        aside().print("Enter or y sets one up, n never asks again.", style="dim")


def _daemon_is_configured(settings: Settings) -> bool:
    """Whether the daemon that runs works with a model that somebody has named."""
    section = section_of(daemon_settings(settings), "llm")
    if not section:
        return False
    plain = LLMSettings()
    names = ("provider", "model", "base_url", "api_key", "api_key_env")
    return any(section.get(name) not in (None, "", getattr(plain, name)) for name in names)


def _remember(mark: Path) -> None:
    try:
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()
    except OSError as error:
        words = f"{mark} cannot be written ({error.strerror}), so this is asked again."
        aside().print(words, style="yellow")
