"""Choosing one of many models: by number, by words of its name, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.cli.setup.numbered_rows import model_rows, show_rows
from service.cli.setup.setup_questions import ask
from service.cli.terminal.output import aside
from service.llm.discovery.providers import OfferedModel

PAGE = 15


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the models that match some words."""

    models: tuple[OfferedModel, ...]
    """All that match."""
    words: str = ""
    start: int = 0

    @property
    def shown(self) -> tuple[OfferedModel, ...]:
        """Those of this page."""
        return self.models[self.start : self.start + PAGE]

    @property
    def is_last(self) -> bool:
        """Whether none come after it."""
        return self.start + PAGE >= len(self.models)

    def next(self) -> Page:
        """The page after it; after the last one, the first."""
        return Page(self.models, self.words, 0 if self.is_last else self.start + PAGE)


def matching(models: Sequence[OfferedModel], words: str) -> tuple[OfferedModel, ...]:
    """The models whose names have all of these words in them, in any order.

    >>> models = [OfferedModel("qwen/qwen3-8b"), OfferedModel("qwen/qwen3-32b")]
    >>> [model.name for model in matching(models, "8B qwen")]
    ['qwen/qwen3-8b']
    """
    terms = words.casefold().split()
    return tuple(m for m in models if all(word in m.name.casefold() for word in terms))


def pick(models: Sequence[OfferedModel], *, default: str = "") -> OfferedModel | None:
    """Let a person pick a model; None to go back.

    Args:
        models: at least one.
        default: the name of the one that Enter takes, where all are shown at once.

    Raises:
        LeftError, KeyboardInterrupt: they leave.
    """
    page = Page(tuple(models))
    while True:
        _show(page)
        first = next((m for m in page.models if m.name == default), page.models[0])
        said = ask(_prompt(page, first))
        if said.lower() == "b":
            return None
        if not said:
            if len(page.models) <= PAGE:
                return first
            page = page.next()
        elif said.isdecimal() and 1 <= int(said) <= len(page.models):
            return page.models[int(said) - 1]
        elif said.startswith("="):
            if name := said[1:].strip():
                return OfferedModel(name)
        elif exact := next((m for m in models if m.name == said), None):
            return exact
        elif said == "*":
            page = Page(tuple(models))
        elif matches := matching(models, said):
            page = Page(matches, said)
        else:
            words = f"No name has “{said}” in it. =NAME takes one that is not listed."
            aside().print(words, style="yellow")


def _show(page: Page) -> None:
    of = f" with “{page.words}”" if page.words else ""
    many = f"{len(page.models)} model{'s' if len(page.models) > 1 else ''}{of}"
    if len(page.models) > PAGE:
        many += f", {page.start + 1} to {page.start + len(page.shown)}"
    aside().print(f"\n{many}:", style="bold")
    show_rows(model_rows(page.shown), first=page.start + 1)


def _prompt(page: Page, first: OfferedModel) -> str:
    enter = f"Enter takes {first.name}" if len(page.models) <= PAGE else "Enter shows more"
    every = ", * shows all" if page.words else ""
    words = f"A number, or words to look for; {enter}{every}, b goes back, q leaves."
    aside().print(words, style="dim")
    return "Which one? › "
