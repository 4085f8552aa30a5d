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
`SYSTEM_BYTES`. Two processors are enough for the larger one, as reading takes both: with two, and
other work on them, the first word of its answers came after 1.8 s, and all of them after 2.7 s
(medians of the 76 messages of ``rondo bench answers``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from service.models.catalog import SMALL_MODEL
from service.models.machine import Machine, gigabytes, read_machine

DAEMON_BYTES = 1_200_000_000
SYSTEM_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Needs:
    """What a model's process takes, at most."""

    memory_bytes: int
    processors: float
    """With fewer, a person waits too long for its answers while other work goes on."""


NEEDS = {
    "qwen2.5-coder-1.5b": Needs(2_700_000_000, 2),
    "qwen2.5-coder-0.5b": Needs(1_300_000_000, 1),
    "smollm2-135m": Needs(900_000_000, 1),
}
CANDIDATES = ("qwen2.5-coder-1.5b", SMALL_MODEL)
"""From which the machine chooses, the best one first. The last one is taken where none fits."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The model that runs where no setting names one, and for what machine."""

    name: str
    machine: Machine

    def in_words(self) -> str:
        """Why it is this one, as a sentence.

        >>> Choice("a", Machine(8_000_000_000, 4)).in_words()
        'Chosen for 8.0 GB of memory and 4 processors.'
        """
        return f"Chosen for {self.machine.in_words()}."


def choose(machine: Machine) -> Choice:
    """The model for a machine, whatever is on its disk."""
    fitting = (name for name in CANDIDATES if shortage(name, machine) is None)
    return Choice(next(fitting, SMALL_MODEL), machine)


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
def chosen() -> Choice:
    """The model for this machine. Chosen once in a process."""
    return choose(read_machine())
