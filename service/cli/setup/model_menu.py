"""Choosing from what was found: the menu, long lists of models a page at a time, numbered rows.

Columns are as wide as the terminal lets them be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.cli.setup.found_models import Found, Own, is_configured
from service.cli.setup.setup_choice import Choice
from service.cli.setup.setup_questions import ask
from service.cli.terminal.output import aside, one_line, plain, wrapped
from service.config import LLMSettings
from service.llm.discovery.providers import KeyFound, LocalServer, OfferedModel

if TYPE_CHECKING:
    from rich.console import Console

_NARROWEST = 16
_BESIDE = 34  # cells for what stands beside a name, where there is not enough for both
PAGE = 15
_MOST_IN_THE_MENU = 8
"""Models of one server; more of them are a list of their own."""
OTHER = "a"
_NOTHING = (
    "No model server answers on this machine, and no provider's key is in the environment. One way"
    " to a good model is Ollama (https://ollama.com); run this again when it is there."
)
_USUAL = "the usual choice"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list."""

    name: str
    note: str = ""
    words: str = ""
    """A sentence under it."""


def size_in_words(size: int) -> str:
    """Bytes, as people know them of downloads.

    >>> size_in_words(491_400_064), size_in_words(5_200_000_000)
    ('491 MB', '5.2 GB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _model_rows(models: Iterable[OfferedModel]) -> list[Row]:
    """A row for each model, with what is told of it."""
    rows = []
    for model in models:
        notes = [model.note, size_in_words(model.size) if model.size else ""]
        notes.append("calls no tools" if model.tools is False else "")
        rows.append(Row(model.name, ", ".join(note for note in notes if note)))
    return rows


def _show_rows(rows: Sequence[Row], *, first: int, to: Console | None = None) -> None:
    """Write a list, numbered from `first` on; to standard error where nothing else is said."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    console = to or aside()
    width = console.width
    longest = max((cell_len(row.name) for row in rows), default=0)
    beside = min(max((cell_len(row.note) for row in rows), default=0), _BESIDE)
    column = min(longest, max(width - 8 - beside, _NARROWEST))
    for number, row in enumerate(rows, first):
        name = one_line(row.name, column)
        head = Text.assemble((f"{number:>4}  ", "bold"), set_cell_size(name, column))
        if row.note:
            head.append(f"  {one_line(row.note, max(width - column - 8, 1))}", style="dim")
        console.print(head)
        for line in wrapped(row.words, max(width - 7, _NARROWEST)) if row.words else ():
            console.print(Text(f"      {line}", style="dim"))


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
        _show_page(page)
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


def _show_page(page: Page) -> None:
    of = f" with “{page.words}”" if page.words else ""
    many = f"{len(page.models)} model{'s' if len(page.models) > 1 else ''}{of}"
    if len(page.models) > PAGE:
        many += f", {page.start + 1} to {page.start + len(page.shown)}"
    aside().print(f"\n{many}:", style="bold")
    _show_rows(_model_rows(page.shown), first=page.start + 1)


def _prompt(page: Page, first: OfferedModel) -> str:
    enter = f"Enter takes {first.name}" if len(page.models) <= PAGE else "Enter shows more"
    every = ", * shows all" if page.words else ""
    words = f"A number, or words to look for; {enter}{every}, b goes back, q leaves."
    aside().print(words, style="dim")
    return "Which one? › "


@dataclass(frozen=True, slots=True)
class Entry:
    """What a number of the menu stands for."""

    row: Row
    means: Choice | LocalServer | KeyFound
    is_in_use: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Entries under a heading."""

    heading: str
    entries: tuple[Entry, ...]


def chosen_model(server: LocalServer, model: OfferedModel) -> Choice:
    """A model of a server on this machine."""
    return Choice(
        f"{server.program} at {server.base_url}",
        model.name,
        server.base_url,
        context_tokens=model.context_tokens,
        program=server.program,
    )


def sections(choices: Found, now: LLMSettings) -> list[Section]:
    """The menu, with what is likeliest wanted first.

    Args:
        choices: what there is.
        now: what is in effect, which is marked.
    """
    menu = [
        *(_of_server(server) for server in choices.servers),
        *_of_keys(choices.keys),
        *(() if choices.servers or choices.keys else (Section(_NOTHING, ()),)),
        Section("Run by Rondo itself, without any other program:", _of_own(choices.own)),
    ]
    return [replace(s, entries=tuple(_marked(e, now) for e in s.entries)) for s in menu]


def _marked(entry: Entry, now: LLMSettings) -> Entry:
    means = entry.means
    if not (isinstance(means, Choice) and is_configured(now) and means.is_what(now)):
        return entry
    row = replace(entry.row, note=f"{entry.row.note}, in use".removeprefix(", "))
    return replace(entry, row=row, is_in_use=True)


def show(menu: Sequence[Section], *, to: Console | None = None) -> None:
    """Write the menu; to standard error where nothing else is said."""
    console = to or aside()
    first = 1
    for section in menu:
        console.print(f"\n{plain(section.heading)}", style="bold")
        _show_rows([entry.row for entry in section.entries], first=first, to=console)
        first += len(section.entries)


def ask_for_entry(menu: Sequence[Section]) -> Entry | None:
    """What a person chooses; None for an address that is not in the menu.

    Raises:
        LeftError, KeyboardInterrupt: they leave.
    """
    entries = [entry for section in menu for entry in section.entries]
    default = default_entry(entries)
    aside().print()
    aside().print(f"   {OTHER}  another address, or another key")
    aside().print("   q  leave everything as it is")
    number = entries.index(default) + 1
    aside().print(f"\nEnter takes {number} ({default.row.name}).", style="dim")
    while True:
        said = ask("Which one? › ")
        if not said:
            return default
        if said.lower() == OTHER:
            return None
        if said.isdecimal() and 1 <= int(said) <= len(entries):
            return entries[int(said) - 1]
        named = [entry for entry in entries if entry.row.name.casefold() == said.casefold()]
        if named:
            return named[0]
        aside().print(f"Type a number from 1 to {len(entries)}, {OTHER} or q.", style="dim")


def default_entry(entries: Sequence[Entry]) -> Entry:
    """The one that Enter takes: what is in use, else a model that runs here and calls tools, else
    one by a key, else one that runs here at all, else our own."""

    def rank(entry: Entry) -> int:
        if entry.is_in_use:
            return -1
        match entry.means:
            case LocalServer(wants_key=False):
                return 0
            case Choice(provider="openai") if "calls no tools" not in entry.row.note:
                return 0
            case KeyFound():
                return 1
            case Choice(provider="openai"):
                return 2
            case Choice() if _USUAL in entry.row.note:
                return 3
        return 4

    return min(entries, key=rank)


def _of_server(server: LocalServer) -> Section:
    name = server.program + (f" {server.version}" if server.version else "")
    heading = f"{name}, at {server.base_url}:"
    models = server.offers.models
    if server.wants_key:
        row = Row("Its models", "it wants a key")
        return Section(heading, (Entry(row, server),))
    if not models:
        how = " `ollama pull qwen3` fetches one." if server.program == "Ollama" else ""
        return Section(f"{heading[:-1]}: it has no model to chat with.{how}", ())
    if len(models) > _MOST_IN_THE_MENU:
        row = Row(f"{len(models)} models", "listed when you choose it")
        return Section(heading, (Entry(row, server),))
    rows = _model_rows(models)
    choices = [chosen_model(server, model) for model in models]
    return Section(heading, tuple(map(Entry, rows, choices)))


def _of_keys(keys: Sequence[KeyFound]) -> Iterator[Section]:
    if keys:
        entries = (Entry(Row(key.provider.name, f"{key.variable} is set"), key) for key in keys)
        heading = "By a key in your environment; its models are asked for when you choose it:"
        yield Section(heading, tuple(entries))


def _of_own(own: Sequence[Own]) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            Row(
                each.model.name,
                ", ".join(
                    (
                        size_in_words(each.model.size),
                        "here" if each.is_here else "not here",
                        *((_USUAL,) if each.is_default else ()),
                    )
                ),
                each.model.description
                + (f" Not for this machine: {each.shortage}." if each.shortage else ""),
            ),
            each.choice,
        )
        for each in own
    )
