"""Which model a machine runs where no setting names one."""

from __future__ import annotations

import pytest

from service.models.catalog import CATALOG, SMALL_MODEL
from service.models.machine import NEEDS, Machine, choose, shortage

LARGE = "qwen2.5-coder-1.5b"
GB = 10**9


@pytest.mark.parametrize(
    ("memory", "processors", "is_bounded", "name"),
    [
        (25 * GB, 8, False, LARGE),
        (8.2 * GB, 4, False, LARGE),
        (6 * GB, 4, False, LARGE),
        (4.1 * GB, 4, False, SMALL_MODEL),  # the system wants its part of it
        (4.1 * GB, 4, True, LARGE),  # all of it is ours
        (3.8 * GB, 4, True, SMALL_MODEL),
        (25 * GB, 2, False, LARGE),
        (25 * GB, 1.5, True, SMALL_MODEL),
        (25 * GB, 1, False, SMALL_MODEL),
        (1 * GB, 1, False, SMALL_MODEL),  # too little for any: the smallest may still do
    ],
)
def test_the_larger_model_runs_where_memory_and_processors_carry_it(
    memory: float, processors: float, is_bounded: bool, name: str
) -> None:
    machine = Machine(int(memory), processors, is_bounded)
    chosen = choose(machine)
    assert chosen.name == name
    assert chosen.in_words() == f"Chosen for {machine.in_words()}."


def test_of_every_known_model_it_is_told_what_it_takes() -> None:
    assert set(NEEDS) == {model.name for model in CATALOG}
    for model in CATALOG:
        assert NEEDS[model.name].memory_bytes > model.size
        assert shortage(model.name, Machine(64 * GB, 16)) is None
        assert shortage(model.name, Machine(GB // 2, 1)) is not None
