"""Trying the model that was chosen, and telling what came of it."""

from __future__ import annotations

from dataclasses import replace

from service.cli.setup.setup_choice import Choice
from service.cli.terminal.output import aside, one_line, plain
from service.cli.terminal.waiting_line import waiting
from service.config import Settings
from service.domain.errors import RondoError
from service.llm.discovery.local_programs import OLLAMA, window_now
from service.llm.discovery.trial import Trial, try_model

_MOST_WORDS = 70
_LITTLE_WINDOW = 16_384


def tried(settings: Settings, choice: Choice) -> tuple[Trial, Choice]:
    """Call the model, and show what it said.

    Returns:
        What came of it, and the choice with what is known by now.

    Raises:
        RondoError: it does not answer; says why.
        KeyboardInterrupt: Ctrl-C.
    """
    import anyio

    with waiting(f"Trying {choice.model}; Ctrl-C stops"):
        trial = anyio.run(try_model, settings, choice.settings(settings.llm))
        if choice.program == OLLAMA:  # now that it is loaded
            window = anyio.run(window_now, choice.base_url, choice.model)
            choice = replace(choice, context_tokens=window or choice.context_tokens)
    _show(trial, choice)
    return trial, choice


def show_failure(error: RondoError) -> None:
    """Why a model cannot be used, and what to do."""
    aside().print(f"\n{plain(error.problem().in_words())}", style="red")


def _show(trial: Trial, choice: Choice) -> None:
    words = one_line(trial.words, _MOST_WORDS)
    aside().print(f"\nIt answers, in {trial.seconds:.1f} s: “{words}”", style="green")
    if trial.calls_tools:
        aside().print("It calls tools.", style="green")
    elif trial.without_tools:
        aside().print(f"It takes no tools: {plain(trial.without_tools)}", style="yellow")
    else:
        aside().print("It did not call the tool that it was offered.", style="yellow")
    if choice.context_tokens is not None and choice.context_tokens < _LITTLE_WINDOW:
        _show_window(choice, choice.context_tokens)


def _show_window(choice: Choice, window: int) -> None:
    more = ""
    if choice.program == OLLAMA:
        more = " For more, start Ollama with OLLAMA_CONTEXT_LENGTH=32768, and run this again."
    aside().print(
        f"It is served with a window of {window:,} tokens; what is longer is summarised.{more}",
        style="dim",
    )
