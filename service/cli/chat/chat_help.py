"""What can be typed in a chat: how it is listed, and which command was meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from service.cli.terminal.output import aside

BETWEEN_ANSWERS: Mapping[str, str] = {
    "/new TEXT": "open a new run loop with this; /new alone, with what follows next",
    "/loop ID": "send what follows to this run loop; /loop alone lets the router decide again",
    "/route TEXT": "let it decide this once",
    "/move [ID]": "where else the last message could belong; with an ID, or new, move it there with"
    " its answer; /1 (or Alt-1) to the first place that is listed, /2 …",
    "/undo": "take that back (or Alt-z)",
    "/loops": "the active run loops",
    "/resume [ID]": "take up a run loop that was stopped or has failed; alone: the last one",
    "/fork [SEQ]": "go on in a copy of the last run loop, as it was after event number SEQ",
    "/compact": "summarise what is old in the last run loop",
    "/enhance [on|off]": "have each answer looked over once more, or not",
    "/model [NAME]": "which model answers from now on; alone: which there are",
    "/image FILE …": "send an image, with or without words behind it",
    "/file FILE …": "send a file for the assistant to read, likewise",
    "/quit": "leave (or Ctrl-D)",
}
WHILE_AN_ANSWER_COMES: Mapping[str, str] = {
    "TEXT": "to the run loop that is at work: seen at its next step",
    "/new TEXT": "to a new run loop, which works beside this one; its answer is shown after this",
    "/route TEXT": "to whichever it belongs to, as between answers; shown likewise",
    "/then TEXT": "seen after this answer",
    "/instead TEXT": "taken instead: the work is stopped at once",
    "/stop": "stop the run loop (or Ctrl-C); /resume takes it up again",
}
_MEANWHILE = "While an answer comes, just type; it waits until the line is finished:"


def show_help(*, meanwhile: bool) -> None:
    """List what can be typed; `meanwhile`: only what can be while an answer comes."""
    if not meanwhile:
        _list(BETWEEN_ANSWERS)
        aside().print()
    aside().print(_MEANWHILE, style="dim")
    _list(WHILE_AN_ANSWER_COMES)
    aside().print()


def is_command(line: str) -> bool:
    """Whether a line is one of the commands, and not words that begin with a stroke.

    >>> [is_command(line) for line in ("/new Tea", "/2", "/quit", "/home/ada", "/nwe")]
    [True, True, True, False, False]
    """
    name = line.partition(" ")[0]
    return name in _names() or (name[:1] == "/" and name[1:].isascii() and name[1:].isdecimal())


def unknown(name: str, *, meanwhile: bool) -> str:
    """What to say of a command that there is not.

    >>> unknown("/nwe", meanwhile=False)
    'There is no /nwe; did you mean /new? /help lists what can be typed.'
    >>> unknown("/loops", meanwhile=True)
    '/loops is for between answers. /help lists what can be typed now.'
    """
    if meanwhile and name in {each.split()[0] for each in BETWEEN_ANSWERS}:
        return f"{name} is for between answers. /help lists what can be typed now."
    near = get_close_matches(name, sorted(_names()), n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"There is no {name}{meant} /help lists what can be typed."


def _names() -> set[str]:
    listed = {each.split()[0] for each in (*BETWEEN_ANSWERS, *WHILE_AN_ANSWER_COMES)}
    return (listed - {"TEXT"}) | {"/help", "/exit", "/q"}


def _list(commands: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for command, words in commands.items():
        table.add_row(Text(command), Text(words, style="dim"))
    aside().print(table)
