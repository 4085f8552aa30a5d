"""What the figures of a report say of the runs that they are made of."""

from __future__ import annotations

from itertools import accumulate

import pytest

from service.bench.loop import loop_report
from service.bench.loop.bench_worker import CrowdRun, Run, SubjectRun


def starts(steps_ms: list[float]) -> list[float]:
    return list(accumulate((step / 1000 for step in steps_ms), initial=5.0))


def run_of(steps_ms: list[float], *, disk_bytes: int = 0) -> Run:
    return Run(starts=starts(steps_ms), disk_bytes=disk_bytes, gc_ms=[0.25, 0.5])


def test_growth_compares_the_last_steps_with_those_around_the_tenth() -> None:
    steps = [9.0] * 4 + [2.0] * 11 + [50.0] * 965 + [3.0] * 20
    figures = loop_report.of_runs([run_of(steps)])
    assert figures["tenth_ms"] == pytest.approx(2)
    assert figures["end_ms"] == pytest.approx(3)
    assert figures["growth"] == pytest.approx(1.5)


def test_one_slow_run_among_three_changes_no_median() -> None:
    calm = loop_report.of_runs([run_of([1.0] * 20)])
    noisy = loop_report.of_runs([run_of([1.0] * 20), run_of([7.0] * 20), run_of([1.0] * 20)])
    assert noisy["p50_ms"] == calm["p50_ms"] == pytest.approx(1)
    assert noisy["end_ms"] == pytest.approx(1)
    assert noisy["repeats"] == 3


def test_what_is_on_disk_is_told_in_all_and_for_each_step() -> None:
    figures = loop_report.of_runs([run_of([1.0] * 50, disk_bytes=40_000)])
    assert figures["disk_bytes"] == 40_000
    assert figures["disk_bytes_per_step"] == 800


def test_pauses_for_garbage_are_told_in_all_and_the_longest() -> None:
    figures = loop_report.of_runs([run_of([1.0] * 20)])
    assert figures["gc_ms"] == pytest.approx(0.75)
    assert figures["gc_max_ms"] == pytest.approx(0.5)


@pytest.mark.parametrize("count", [2, 3, 16, 40])
def test_loops_of_any_length_have_all_figures(count: int) -> None:
    figures = loop_report.of_runs([run_of([2.0] * count)])
    assert figures["growth"] == pytest.approx(1)
    assert figures["p95_ms"] == pytest.approx(2)


def test_a_loop_is_compared_with_its_baseline() -> None:
    run = run_of([3.0] * 20)
    figures = loop_report.of_subject(
        [SubjectRun(**run, baseline_ms=baseline) for baseline in (0.1, 0.5, 0.9)]
    )
    assert figures["baseline_p50_ms"] == pytest.approx(0.5)
    assert figures["ratio"] == pytest.approx(6)


def test_the_slowest_step_of_all_loops_is_told_against_the_median() -> None:
    crowd = CrowdRun(
        starts=[starts([10.0] * 5), starts([10.0, 10.0, 42.0, 10.0, 10.0])],
        sent=4.5,
        ended=6.0,
        gc_ms=[],
    )
    figures = loop_report.of_crowds([crowd])
    assert (figures["loops"], figures["steps"]) == (2, 5)
    assert figures["max_over_median"] == pytest.approx(4.2)
    assert figures["last_began_ms"] == pytest.approx(500)
    assert figures["wall_ms"] == pytest.approx(1500)
