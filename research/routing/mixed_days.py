"""Days of one person: conversations of several kinds and languages in one stream.

    python -m research.routing.mixed_days SET... --out DIR

Each SET is a folder of streams, as `service.bench.routing.routing_dataset` reads them; its threads
are taken apart and dealt anew, so that a day holds conversations of most sets beside each other, in
bursts on some days and to and fro on others. A conversation is dealt into the group that its file
has when thirds of files are held out, and a day is made of one group: whoever trains on all but
every third file of all sets has seen no conversation of that third.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from research.routing.interleaving import GROUPS, Line, stream
from service.bench.routing.routing_dataset import files, said_in

_STAYS = (0.35, 0.6, 0.85)
"""How often a person goes on with what was last spoken of: to and fro, or in bursts."""
_KINDS_LEFT_OUT = 0.3
"""The chance of each kind not to occur on a day."""
_LONGEST = 24
"""Lines of a conversation: what is longer has its end cut off, or it would fill the day."""

Conversation = tuple[str, list[Line]]
"""A thread's name, and what is said in it."""


def conversations_of(folder: Path) -> list[list[Conversation]]:
    """The conversations of a set by group; one that occurs in several files is taken once.

    Raises:
        BenchmarkError: a file cannot be read, or a line is not of the form.
    """
    groups: list[dict[str, list[Line]]] = [{} for _ in range(GROUPS)]
    taken: set[str] = set()
    for number, path in enumerate(files(folder)):
        here: defaultdict[str, list[Line]] = defaultdict(list)
        for said in said_in(path):
            here[f"{folder.name}-{said.thread}"].append(Line(said.role, said.text))
        for thread, lines in here.items():
            if thread not in taken and lines[0].role == "user":
                groups[number % GROUPS][thread] = lines[:_LONGEST]
        taken |= here.keys()
    return [list(group.items()) for group in groups]


def days(
    kinds: Sequence[list[list[Conversation]]], *, count: int, per_day: int, seed: int
) -> Iterator[list[dict[str, str]]]:
    """Days, each of one group of all kinds in turn.

    Args:
        kinds: of each set, its conversations by group.
        count: how many days.
        per_day: how many conversations a day holds.
        seed: of all choices.
    """
    chance = random.Random(seed)
    decks: dict[tuple[int, int], list[Conversation]] = {}

    def drawn(kind: int, group: int) -> Conversation:
        deck = decks.setdefault((kind, group), [])
        if not deck:
            deck += chance.sample(kinds[kind][group], len(kinds[kind][group]))
        return deck.pop()

    for number in range(count):
        group = number % GROUPS
        there = [kind for kind in range(len(kinds)) if kinds[kind][group]]
        today = [kind for kind in there if chance.random() >= _KINDS_LEFT_OUT] or there
        dealt = dict(drawn(chance.choice(today), group) for _ in range(per_day))
        yield list(stream(list(dealt.items()), chance, stays=chance.choice(_STAYS)))


@click.command()
@click.argument(
    "sets", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--days", "count", default=60, show_default=True, help="Streams to make.")
@click.option("--per-day", default=16, show_default=True, help="Conversations of a day.")
@click.option("--seed", default=0, show_default=True)
def main(sets: tuple[Path, ...], out: Path, count: int, per_day: int, seed: int) -> None:
    """Mix the conversations of SETS into days of one person under OUT."""
    kinds = [conversations_of(folder) for folder in sets]
    out.mkdir(parents=True, exist_ok=True)
    for number, day in enumerate(days(kinds, count=count, per_day=per_day, seed=seed)):
        lines = ({"id": f"{number}-{at}", **said} for at, said in enumerate(day))
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (out / f"{number:04d}.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
