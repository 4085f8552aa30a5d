"""Which of the known models runs where no setting names one: the largest that the machine carries.

What is told here to be needed was measured, on Linux (x86-64), with a context of 8192 tokens (the
server has memory for two, and takes it when it starts):

==================  ======  ==========================
model               loaded  read, written in a second,
                            on one core
==================  ======  ==========================
qwen2.5-coder-0.5b  0.9 GB  100, 23
qwen2.5-coder-1.5b  2.4 GB  42, 10
==================  ======  ==========================

(resident memory of the model's process, its mapped weights included; tokens; the smaller one had
0.03 GB more once that memory was full). The daemon itself
had 0.55 GB with the bundled embedder loaded and a small memory; it is given `DAEMON_BYTES`, for one
that has grown. Where the memory is all that the machine has, the system and other programs are left
`SYSTEM_BYTES`. The larger one wants four processors: with two, and other work on them, it read 20
tokens a second and wrote 7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from service.models.catalog import CATALOG, SMALL_MODEL, known
from service.models.fetch import megabytes
from service.models.machine import Machine, gigabytes, read_machine
from service.models.store import ModelStore

DAEMON_BYTES = 1_200_000_000
SYSTEM_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model's process takes, at most."""

    memory_bytes: int
    processors: float
    """With fewer, a person waits too long for its answers while other work goes on."""


NEEDS = {
    "qwen2.5-coder-1.5b": Needs(2_700_000_000, 4),
    "qwen2.5-coder-0.5b": Needs(1_300_000_000, 1),
    "smollm2-135m": Needs(900_000_000, 1),
}
CANDIDATES = ("qwen2.5-coder-1.5b", SMALL_MODEL)
"""From which the machine chooses, the best one first. The last one is taken where none fits."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that runs where no setting names one, and why."""

    name: str
    fitting: str
    """The best one that the machine carries. Another one runs where that one is here already, and
    this one is not: so much is fetched only for somebody who wants it."""
    machine: Machine

    def in_words(self) -> str:
        """Why it is this one, as a sentence.

        >>> Choice("a", "a", Machine(8_000_000_000, 4)).in_words()
        'Chosen for 8.0 GB of memory and 4 processors.'
        """
        if self.name == self.fitting:
            return f"Chosen for {self.machine.in_words()}."
        return f"It is here already. {self.better_in_words()}"

    def better_in_words(self) -> str:
        """That the machine carries a better one, and how to get it; empty where it does not."""
        if self.name == self.fitting:
            return ""
        size = megabytes(known(self.fitting).size)
        return (
            f"This machine carries {self.fitting}, too ({size} to fetch):"
            f" `rondo models use {self.fitting}`."
        )


def choose(machine: Machine, here: Collection[str]) -> Choice:
    """The model for a machine.

    Args:
        machine: what may be used.
        here: names of the models whose weights, or a part of them, are there.
    """
    fitting = [name for name in CANDIDATES if shortage(name, machine) is None] or [SMALL_MODEL]
    name = next((name for name in fitting if name in here), fitting[0])
    return Choice(name, fitting[0], machine)


def shortage(name: str, machine: Machine) -> str | None:
    """Why a machine does not carry a known model, as a clause; None where it does.

    >>> shortage("qwen2.5-coder-1.5b", Machine(4_000_000_000, 2))
    'it takes up to 4.9 GB of memory with all else, and there are 4.0 GB'
    """
    needs = NEEDS[name]
    wanted = memory_needed(name) + (0 if machine.is_bounded else SYSTEM_BYTES)
    if machine.memory_bytes < wanted:
        return (
            f"it takes up to {gigabytes(wanted)} of memory with all else, and there are"
            f" {gigabytes(machine.memory_bytes)}"
        )
    if machine.processors < needs.processors:
        return (
            f"it is slow with fewer than {needs.processors:g} processors, and there are"
            f" {machine.processors:g}"
        )
    return None


def memory_needed(name: str) -> int:
    """Bytes that Rondo takes with a known model, at most."""
    return NEEDS[name].memory_bytes + DAEMON_BYTES


@cache
def chosen(models_dir: Path) -> Choice:
    """The model for this machine.

    Chosen once in a process: weights that come while a daemon works are its next start's.
    """
    store = ModelStore(models_dir)
    here = {model.name for model in CATALOG if store.has_begun(model.name)}
    return choose(read_machine(), here)
