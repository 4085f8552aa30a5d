"""The list of all that was found, and what its numbers stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.cli.setup.found_models import Found, Own, is_configured
from service.cli.setup.numbered_rows import Row, model_rows, show_rows, size_in_words
from service.cli.setup.setup_choice import Choice
from service.cli.setup.setup_questions import ask
from service.cli.terminal.output import aside, plain
from service.config import LLMSettings
from service.llm.discovery.providers import KeyFound, LocalServer, OfferedModel

if TYPE_CHECKING:
    from rich.console import Console

_MOST_IN_THE_MENU = 8
"""Models of one server; more of them are a list of their own."""
OTHER = "a"
_NOTHING = (
    "No model server answers on this machine, and no provider's key is in the environment. One way"
    " to a good model is Ollama (https://ollama.com); run this again when it is there."
)
_USUAL = "the usual choice"


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
        show_rows([entry.row for entry in section.entries], first=first, to=console)
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
    rows = model_rows(models)
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
