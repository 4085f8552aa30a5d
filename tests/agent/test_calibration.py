"""Calibration of the router's probabilities: on simulated decisions whose right map is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.routing.calibration.probability_calibration import (
    UNCALIBRATED,
    Calibration,
    Case,
    expected_quality,
    fitted,
    quality,
)


def decisions(true: Calibration, count: int, *, seed: int = 1) -> list[Case]:
    """Decisions with one to five candidates; what is right follows the true probabilities."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        options = int(rng.integers(2, 7))
        probabilities = np.round(rng.dirichlet(np.full(options, 0.5)), 4)
        chances = np.array(true.applied(probabilities.tolist()))
        right = rng.choice(options, p=chances / chances.sum())
        cases.append(Case(probabilities.tolist(), int(right)))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(
    "true",
    [Calibration(1.6, 0.0), Calibration(1.0, 1.2), Calibration(0.75, -0.8), UNCALIBRATED],
    ids=["too sure", "new too rare", "too unsure", "right already"],
)
def test_the_map_that_is_right_is_found(true: Calibration) -> None:
    fitting = fitted(decisions(true, 3000))
    assert fitting.temperature == pytest.approx(true.temperature, rel=0.12)
    assert fitting.new_offset == pytest.approx(true.new_offset, abs=0.15)


def test_with_nothing_to_learn_from_all_stays_as_it_is() -> None:
    assert fitted([]) == UNCALIBRATED


def test_few_decisions_move_it_little() -> None:
    few = fitted(decisions(Calibration(1.0, 3.0), 3))
    many = fitted(decisions(Calibration(1.0, 3.0), 300))
    assert 0 < few.new_offset < many.new_offset


def test_what_counts_half_moves_it_as_much_as_half_as_many() -> None:
    cases = decisions(Calibration(2.0, 1.0), 50)
    half = fitted([case._replace(weight=0.5) for case in (*cases, *cases)])
    assert half.temperature == pytest.approx(fitted(cases).temperature)
    assert half.new_offset == pytest.approx(fitted(cases).new_offset)


def test_a_fitted_map_is_expected_to_be_better_and_is_on_new_decisions() -> None:
    true = Calibration(1.8, 1.0)
    cases, fresh = decisions(true, 200), decisions(true, 500, seed=2)
    assert expected_quality(cases).log_loss < quality(cases, UNCALIBRATED).log_loss - 0.01
    assert quality(fresh, fitted(cases)).log_loss < quality(fresh, UNCALIBRATED).log_loss


def test_where_nothing_is_wrong_no_gain_is_expected() -> None:
    cases = decisions(UNCALIBRATED, 200)
    assert expected_quality(cases).log_loss > quality(cases, UNCALIBRATED).log_loss - 0.01


def test_each_decision_is_judged_by_what_the_others_have_fitted() -> None:
    """One that contradicts all others is not let off because it was learned from."""
    cases = [Case((0.9, 0.1), 0)] * 9 + [Case((0.9, 0.1), 1)]
    assert expected_quality(cases).log_loss > quality(cases, fitted(cases)).log_loss


def test_wholly_wrong_and_certain_decisions_do_not_break_the_fit() -> None:
    fitting = fitted([Case((0.0, 0.0, 1.0), 0), Case((1.0, 0.0), 1)] * 500)
    assert np.isfinite([fitting.temperature, fitting.new_offset]).all()
    assert fitting.temperature > 0


def test_what_is_fitted_is_within_bounds_whatever_was_corrected() -> None:
    for wrong in ([Case((0.999, 0.001), 1)] * 2000, [Case((0.001, 0.999), 0)] * 2000):
        fitting = fitted(wrong)
        assert fitting.is_sane
        assert quality(wrong, fitting).log_loss < quality(wrong, UNCALIBRATED).log_loss


PROBABILITIES = st.lists(st.floats(0.001, 1), min_size=2, max_size=20).map(
    lambda raw: [each / sum(raw) for each in raw]
)
MAPS = st.builds(Calibration, st.floats(0.5, 3), st.floats(-3, 3))


@given(PROBABILITIES, MAPS)
def test_calibrated_probabilities_are_probabilities_still(
    probabilities: list[float], calibration: Calibration
) -> None:
    applied = calibration.applied(probabilities)
    assert len(applied) == len(probabilities)
    assert min(applied) >= 0
    assert sum(applied) == pytest.approx(1)


@given(PROBABILITIES, MAPS)
def test_what_was_calibrated_can_be_told_back(
    probabilities: list[float], calibration: Calibration
) -> None:
    applied = calibration.applied(probabilities)
    if min(applied) > 1e-4:
        assert calibration.undone(applied) == pytest.approx(probabilities, rel=1e-3, abs=1e-6)


@given(PROBABILITIES, MAPS)
def test_the_order_of_the_candidates_stays(
    probabilities: list[float], calibration: Calibration
) -> None:
    before = np.array(probabilities[:-1])
    after = np.array(calibration.applied(probabilities)[:-1])
    assert (np.diff(after[np.argsort(before)]) >= -1e-12).all()
