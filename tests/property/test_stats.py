import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_replication.evaluation.stats import mean_interval, paired_difference

OUTCOME = st.sampled_from([0.0, 1.0])
REWARD = st.floats(-100, 100, allow_nan=False).map(lambda value: round(value, 3))
PAIRS = st.one_of(
    st.lists(st.tuples(OUTCOME, OUTCOME), min_size=1, max_size=60),
    st.lists(st.tuples(REWARD, REWARD), min_size=1, max_size=30),
)


def split(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [before for before, _ in pairs], [after for _, after in pairs]


@given(st.one_of(st.lists(OUTCOME, min_size=1), st.lists(REWARD, min_size=1, max_size=30)))
def test_interval_surrounds_the_mean(values: list[float]) -> None:
    estimate = mean_interval(values)
    assert estimate.lo <= estimate.mean <= estimate.hi
    assert estimate.n == len(values)
    assert estimate.mean == pytest.approx(np.mean(values))


@given(st.lists(OUTCOME, min_size=1))
def test_wilson_stays_in_range_and_keeps_doubt(outcomes: list[float]) -> None:
    estimate = mean_interval(outcomes)
    assert 0 <= estimate.lo < estimate.hi <= 1


def test_wilson_known_value() -> None:
    estimate = mean_interval([1.0] * 8 + [0.0] * 2)
    assert (estimate.lo, estimate.hi) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_more_tasks_narrow_the_interval() -> None:
    few, many = mean_interval([0.0, 1.0] * 10), mean_interval([0.0, 1.0] * 1000)
    assert many.hi - many.lo < (few.hi - few.lo) / 5


@given(PAIRS)
def test_difference_surrounds_its_mean(pairs: list[tuple[float, float]]) -> None:
    before, after = split(pairs)
    estimate = paired_difference(before, after, resamples=200)
    assert estimate.lo <= estimate.mean <= estimate.hi
    assert estimate == paired_difference(before, after, resamples=200)


@given(st.lists(REWARD, min_size=1, max_size=30))
def test_equal_vectors_differ_by_exactly_zero(values: list[float]) -> None:
    estimate = paired_difference(values, values, resamples=200)
    assert (estimate.mean, estimate.lo, estimate.hi) == (0, 0, 0)


@given(PAIRS)
def test_swapping_the_sides_negates_the_difference(pairs: list[tuple[float, float]]) -> None:
    before, after = split(pairs)
    forth = paired_difference(before, after, resamples=200)
    back = paired_difference(after, before, resamples=200)
    assert (back.mean, back.lo, back.hi) == pytest.approx((-forth.mean, -forth.hi, -forth.lo))


def test_bootstrap_covers_the_truth_about_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(7)
    trials, tasks, gain, loss = 500, 120, 0.25, 0.10
    draw = rng.random((trials, tasks))
    before = ((draw >= gain) & (draw < 0.5)).astype(float)
    after = ((draw < 0.5) & ~((draw >= gain) & (draw < gain + loss))).astype(float)
    estimates = [paired_difference(b, a, resamples=800) for b, a in zip(before.tolist(), after.tolist(), strict=True)]
    covered = np.mean([e.lo <= gain - loss <= e.hi for e in estimates])
    assert 0.92 <= covered <= 0.98


def test_the_interval_of_few_tasks_is_wide_enough() -> None:
    """Five tasks with four tries at each, before and after."""
    rng = np.random.default_rng(7)
    draws = (rng.binomial(4, 0.5, size=(400, 2, 5)) / 4).tolist()
    estimates = [paired_difference(before, after, resamples=2000) for before, after in draws]
    assert np.mean([e.lo <= 0 <= e.hi for e in estimates]) >= 0.93  # with plain percentiles 0.86


def test_unusable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one task"):
        mean_interval([])
    with pytest.raises(ValueError, match="at least one task"):
        paired_difference([], [])
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0], [1.0, 0.0])
