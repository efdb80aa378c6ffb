"""Reference values marked scipy were computed with scipy 1.17.1, which is no dependency."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.evaluation.clusters import clustered_mean, two_way_interval
from composer_replication.evaluation.distributions import student_cdf, student_power, student_quantile
from composer_replication.evaluation.metrics import area_under, pass_at_k
from composer_replication.evaluation.power import (
    detectable_effect,
    mcnemar_power,
    minimum_detectable_effect,
    minimum_detectable_share,
)
from composer_replication.evaluation.resampling import bootstrap, hierarchical_bootstrap
from composer_replication.evaluation.tests_of_difference import holm, mcnemar, permutation, sign_flip, welch

VALUE = st.integers(-40, 40).map(lambda tenths: tenths / 10)
VALUES = st.lists(VALUE, min_size=2, max_size=40)
OUTCOMES = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1])), min_size=1, max_size=40)
SEEDS = st.lists(st.lists(VALUE, min_size=1, max_size=12), min_size=2, max_size=6)
SKEWED = [0.1, 0.4, 0.2, 0.9, 3.0, 0.7, 0.3, 1.4, 0.2, 0.6, 2.2, 0.1]
FIVE, FOUR = [0.61, 0.70, 0.66, 0.58, 0.73], [0.71, 0.69, 0.80, 0.77]


def ends(estimate):
    return estimate.lo, estimate.mean, estimate.hi


def mirrored(estimate):
    return -estimate.hi, -estimate.mean, -estimate.lo


# --- distributions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("t", "degrees", "scipy"),
    [
        (-2.3, 1, 0.13054758708862277),
        (0.4, 2.5, 0.6395903655346387),
        (3.1, 7, 0.9913388552872513),
        (1.96, 1000, 0.9748634075221256),
        (-12, 30, 2.7900927075996303e-13),
    ],
)
def test_student_distribution(t, degrees, scipy):
    assert student_cdf(t, degrees) == pytest.approx(scipy, rel=1e-10)


@pytest.mark.parametrize(
    ("share", "degrees", "scipy"),
    [
        (0.975, 1, 12.706204736174694),
        (0.975, 7, 2.364624251592784),
        (0.9, 2.5, 1.7302509288071766),
        (0.025, 11, -2.2009851600916392),
        (0.975, 1e4, 1.960201239890626),
    ],
)
def test_student_quantile(share, degrees, scipy):
    assert student_quantile(share, degrees) == pytest.approx(scipy, rel=1e-9)


@pytest.mark.parametrize(
    ("shift", "degrees", "alpha", "scipy"),
    [
        (3.2, 7, 0.05, 0.7831902606849551),
        (0, 7, 0.05, 0.05),
        (1, 2, 0.05, 0.09520175549788396),
        (4, 7, 0.05 / 3, 0.7776156487227358),
        (2.8, 200, 0.05, 0.7957597219490012),
        (5, 1, 0.05, 0.3051601027351559),
    ],
)
def test_student_power(shift, degrees, alpha, scipy):
    assert student_power(shift, degrees, alpha) == pytest.approx(scipy, abs=1e-9)


# --- sign-flip -------------------------------------------------------------------------------------------------


@given(st.lists(VALUE, min_size=1, max_size=9))
def test_sign_flip_counts_every_choice_of_signs(differences):
    observed = abs(sum(differences))
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    assert sign_flip(differences).p == pytest.approx(np.mean([abs(total) >= observed - 1e-9 for total in sums]))


def test_sign_flip_known_values():
    assert sign_flip([0.04, 0.01, -0.02, 0.05, 0.03, 0.06, 0.02, -0.01]).p == 0.0859375  # scipy
    for n, floor in ((5, 0.0625), (6, 0.03125), (7, 0.015625), (8, 0.0078125)):
        result = sign_flip([0.1] * n)
        assert (result.p, result.floor, result.n, result.exact) == (floor, floor, n, True)


def test_zeros_are_no_evidence():
    assert sign_flip([0.1] * 5 + [0.0] * 10)[:2] == (0.0625, 0.0625)
    assert sign_flip([0.0, 0.0])[:2] == (1, 1)


@given(st.lists(VALUE, min_size=1, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_sign_flip_depends_neither_on_order_nor_on_side(differences, random):
    shuffled = random.sample(differences, len(differences))
    assert sign_flip(shuffled).p == sign_flip(differences).p == sign_flip([-d for d in differences]).p


def test_sign_flip_by_drawing_agrees_with_the_normal_limit():
    differences = [(0.3 + 0.1 * (i % 7)) * (1 if i % 3 else -1) for i in range(60)]
    result = sign_flip(differences)
    z = abs(sum(differences)) / math.sqrt(sum(d * d for d in differences))
    assert result.p == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.01)
    assert (result.exact, result.floor) == (False, 1 / 20_001)


def test_p_values_are_uniform_where_there_is_no_effect():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(3000, 8))
    flips = np.array([sign_flip(row).p for row in draws.tolist()])
    shuffles = np.array([permutation(row[:4], row[4:]).p for row in draws[:800].tolist()])
    welches = np.array([welch(row[:4], row[4:]).p for row in draws.tolist()])
    for share in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(flips <= share) == pytest.approx(share, abs=0.03)
        assert np.mean(welches <= share) == pytest.approx(share, abs=0.03)
        # 35 different splits: a share between two of them is not reached.
        assert share - 1 / 35 - 0.045 <= np.mean(shuffles <= share) <= share + 0.045


# --- McNemar, Welch, permutation, Holm -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lost", "gained", "scipy"), [(3, 12, 0.03515625), (0, 6, 0.03125), (10, 10, 1), (40, 70, 0.005447429511444476)]
)
def test_mcnemar_known_values(lost, gained, scipy):
    result = mcnemar([1] * lost + [0] * gained + [1, 0], [0] * lost + [1] * gained + [1, 0])
    assert result.p == pytest.approx(scipy)
    assert (result.gained, result.lost, result.n) == (gained, lost, lost + gained + 2)


@given(OUTCOMES)
def test_mcnemar_is_the_sign_flip_of_binary_differences(pairs):
    first, second = zip(*pairs, strict=True)
    result, back = mcnemar(first, second), mcnemar(second, first)
    flips = sign_flip([b - a for a, b in pairs])
    if flips.exact:
        assert (result.p, result.floor) == pytest.approx((flips.p, flips.floor))
    assert (back.p, back.gained, back.lost) == (result.p, result.lost, result.gained)


def test_mcnemar_refuses_other_outcomes():
    with pytest.raises(ValueError, match="0 or 1"):
        mcnemar([0.5, 1], [1, 1])


def test_welch_known_values():
    result = welch(FIVE, FOUR)
    assert result.p == pytest.approx(0.05566851258369202)  # scipy
    assert result.degrees == pytest.approx(6.9692990739031995)
    assert ends(result.difference) == pytest.approx((-0.0027561328016072195, 0.0865, 0.17575613280160726))


def test_permutation_counts_every_split():
    def statistic(chosen):
        inside = [value for i, value in enumerate(FIVE + FOUR) if i in chosen]
        outside = [value for i, value in enumerate(FIVE + FOUR) if i not in chosen]
        error = math.sqrt(np.var(inside, ddof=1) / len(inside) + np.var(outside, ddof=1) / len(outside))
        return abs(np.mean(inside) - np.mean(outside)) / error

    observed = statistic(range(5))
    expected = np.mean([statistic(chosen) >= observed - 1e-9 for chosen in combinations(range(9), 5)])
    result = permutation(FIVE, FOUR)
    assert result.exact
    assert result.p == pytest.approx(expected)
    assert result.floor == pytest.approx(1 / 126)


def test_permutation_by_drawing_agrees_with_welch():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, 60).tolist(), rng.normal(0.3, 2, 90).tolist()
    result = permutation(first, second)
    assert not result.exact
    assert result.p == pytest.approx(welch(first, second).p, abs=0.02)


@given(st.lists(VALUE, min_size=2, max_size=6), st.lists(VALUE, min_size=2, max_size=6))
@settings(max_examples=60)
def test_swapping_unpaired_arms_mirrors_the_difference(first, second):
    forth, back = welch(first, second), welch(second, first)
    assert ends(back.difference) == pytest.approx(mirrored(forth.difference))
    assert back.p == pytest.approx(forth.p)
    assert permutation(first, second).p == permutation(second, first).p
    assert permutation(first, second).floor <= permutation(first, second).p


def test_holm_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_holm_never_lowers_and_keeps_the_order(ps, random):
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert max(adjusted) <= 1
    assert min(adjusted) == pytest.approx(min(1, len(ps) * min(ps)))
    order = random.sample(range(len(ps)), len(ps))
    assert sorted(holm([ps[i] for i in order])) == pytest.approx(sorted(adjusted))
    for i, j in combinations(range(len(ps)), 2):
        assert (ps[i] <= ps[j]) <= (adjusted[i] <= adjusted[j] or ps[i] == ps[j])


# --- intervals -------------------------------------------------------------------------------------------------


def test_bootstrap_known_intervals():
    bca = bootstrap(SKEWED, resamples=50_000)
    assert (bca.lo, bca.hi) == pytest.approx((0.4583, 1.5250), abs=0.02)  # scipy, 200,000 resamples
    wide = bootstrap(SKEWED, expanded=True, resamples=50_000)
    assert wide.lo < bca.lo
    assert wide.hi > bca.hi


@given(VALUES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_bootstrap_depends_neither_on_order_nor_on_side(values, random):
    estimate = bootstrap(values, resamples=300)
    assert estimate.lo <= estimate.mean <= estimate.hi
    assert estimate.mean == pytest.approx(np.mean(values))
    shuffled = random.sample(values, len(values))
    assert ends(bootstrap(shuffled, resamples=300)) == ends(estimate)
    back = bootstrap([-value for value in values], resamples=300)
    assert mirrored(back) == pytest.approx(ends(estimate), abs=1e-9)


def test_copies_within_a_cluster_add_nothing():
    values = [float(value) for value in np.random.default_rng(0).normal(size=30)]
    names = list(range(30))
    alone, copied = bootstrap(values), bootstrap(values * 5, names * 5)
    assert ends(copied) == pytest.approx(ends(alone))
    assert copied.n == 30
    assert ends(clustered_mean(values * 5, names * 5).estimate) == pytest.approx(
        ends(clustered_mean(values, names).estimate)
    )


def test_a_cluster_of_its_own_each_is_the_plain_error():
    result = clustered_mean(SKEWED, range(len(SKEWED)))
    assert result.standard_error == pytest.approx(np.std(SKEWED, ddof=1) / math.sqrt(len(SKEWED)))
    assert result.estimate.hi - result.estimate.mean == pytest.approx(2.2009851600916392 * result.standard_error)


def test_clustered_error_by_hand():
    # Deviations from 0.5 sum to 1, −0.5 and −0.5 in the clusters: sqrt(1.5 · 3/2) / 6.
    result = clustered_mean([1, 1, 1, 0, 0, 0], ["a", "a", "b", "b", "c", "b"])
    assert result.standard_error == pytest.approx(math.sqrt((1 + 0.25 + 0.25) * 1.5) / 6)


@given(SEEDS, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_hierarchical_bootstrap_depends_neither_on_order_nor_on_side(by_seed, random):
    estimate = hierarchical_bootstrap(by_seed, resamples=300)
    assert estimate.n == len(by_seed)
    assert estimate.lo <= estimate.mean <= estimate.hi
    assert estimate.mean == pytest.approx(np.mean([np.mean(tasks) for tasks in by_seed]))
    shuffled = [random.sample(tasks, len(tasks)) for tasks in random.sample(by_seed, len(by_seed))]
    assert ends(hierarchical_bootstrap(shuffled, resamples=300)) == ends(estimate)
    back = hierarchical_bootstrap([[-value for value in tasks] for tasks in by_seed], resamples=300)
    assert mirrored(back) == pytest.approx(ends(estimate), abs=1e-9)


@given(st.lists(st.lists(VALUE, min_size=3, max_size=3), min_size=2, max_size=6))
def test_two_way_interval_is_symmetric_and_at_least_as_wide_as_either_way(table):
    result = two_way_interval(table)
    back = two_way_interval([[-value for value in tasks] for tasks in table])
    assert mirrored(back.estimate) == pytest.approx(ends(result.estimate))
    columns = list(zip(*table, strict=True))
    for means in ([np.mean(row) for row in table], [np.mean(column) for column in columns]):
        assert result.standard_error >= np.std(means, ddof=1) / math.sqrt(len(means)) - 1e-9


def simulated_tables(seeds, tasks, of_seeds, of_tasks, rest, trials):
    rng = np.random.default_rng(11)
    for _ in range(trials):
        yield (
            rng.normal(0, of_seeds, (seeds, 1))
            + rng.normal(0, of_tasks, (1, tasks))
            + rng.normal(0, rest, (seeds, tasks))
        ).tolist()


@pytest.mark.parametrize(("seeds", "of_seeds", "of_tasks"), [(8, 0.05, 0), (8, 0.15, 0), (5, 0.05, 0)])
def test_hierarchical_bootstrap_covers_the_truth(seeds, of_seeds, of_tasks):
    tables = simulated_tables(seeds, 32, of_seeds, of_tasks, 0.4, 250)
    estimates = [hierarchical_bootstrap(table, resamples=500) for table in tables]
    assert 0.915 <= np.mean([e.lo <= 0 <= e.hi for e in estimates]) <= 1


@pytest.mark.parametrize(("seeds", "of_seeds", "of_tasks"), [(8, 0.05, 0.3), (8, 0.15, 0), (3, 0.1, 0.1), (12, 0, 0.3)])
def test_two_way_interval_covers_the_truth_where_plain_seeds_do_not(seeds, of_seeds, of_tasks):
    tables = list(simulated_tables(seeds, 32, of_seeds, of_tasks, 0.4, 1000))
    both = [two_way_interval(table).estimate for table in tables]
    assert 0.93 <= np.mean([e.lo <= 0 <= e.hi for e in both]) <= 0.995
    if of_tasks > of_seeds:
        plain = [clustered_mean([float(np.mean(row)) for row in table], range(seeds)).estimate for table in tables]
        assert np.mean([e.lo <= 0 <= e.hi for e in plain]) < 0.9


def test_bca_covers_the_mean_of_a_skewed_population():
    rng = np.random.default_rng(2)
    samples = rng.exponential(size=(400, 40)).tolist()
    covered = [e.lo <= 1 <= e.hi for e in (bootstrap(sample, resamples=500, expanded=True) for sample in samples)]
    assert 0.915 <= np.mean(covered) <= 0.98


# --- power -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sd", "n", "alpha", "scipy"),
    [
        (4.7, 8, 0.05, 5.433362986575249),
        (4.7, 8, 0.05 / 3, 6.816612214657447),
        (1, 3, 0.05, 3.2640435496995597),
        (0.5, 256, 0.05, 0.08788087400112314),
    ],
)
def test_minimum_detectable_effect(sd, n, alpha, scipy):
    assert minimum_detectable_effect(sd, n, alpha) == pytest.approx(scipy, rel=1e-9)
    assert detectable_effect(sd / math.sqrt(n), n - 1, alpha) == pytest.approx(scipy, rel=1e-9)


def test_sign_flip_finds_the_minimum_detectable_effect_about_four_times_in_five():
    effect = minimum_detectable_effect(1.0, 8)
    draws = np.random.default_rng(5).normal(effect, 1, size=(3000, 8)).tolist()
    assert np.mean([sign_flip(row).p <= 0.05 for row in draws]) == pytest.approx(0.8, abs=0.04)


def test_mcnemar_power_by_hand():
    # 6 discordant tasks for certain: it rejects only where all six go one way.
    assert mcnemar_power(0, 1, 6) == pytest.approx(2 / 64)
    assert mcnemar_power(1, 1, 6) == pytest.approx(1)
    assert mcnemar_power(0.5, 1, 6) == pytest.approx(0.75**6 + 0.25**6)
    assert mcnemar_power(0, 0, 6) == 0


def test_mcnemar_finds_the_minimum_detectable_share_four_times_in_five():
    discordance, n = 0.2, 200
    share = minimum_detectable_share(discordance, n)
    draws = np.random.default_rng(6).random((1500, n))
    gained, lost = (discordance + share) / 2, (discordance - share) / 2
    found = [mcnemar(((row < lost) * 1).tolist(), ((row > 1 - gained) * 1).tolist()).p <= 0.05 for row in draws]
    assert np.mean(found) == pytest.approx(0.8, abs=0.035)
    assert minimum_detectable_share(0.02, 20) == math.inf
    assert minimum_detectable_share(discordance, 4 * n) < share < minimum_detectable_share(2 * discordance, n)


# --- measures --------------------------------------------------------------------------------------------------


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_choices_with_a_success(case):
    successes, tries, k = case
    outcomes = [1] * successes + [0] * (tries - successes)
    assert pass_at_k(successes, tries, k) == pytest.approx(
        np.mean([max(chosen) for chosen in combinations(outcomes, k)])
    )


def test_area_is_the_mean_height():
    assert area_under([0, 10, 30], [0.2, 0.4, 0.4]) == pytest.approx((0.3 * 10 + 0.4 * 20) / 30)
    assert area_under([30, 0, 10], [0.4, 0.2, 0.4]) == area_under([0, 10, 30], [0.2, 0.4, 0.4])


@given(st.lists(VALUE, min_size=2, max_size=10), VALUE)
def test_area_shifts_with_the_curve_and_not_with_the_steps(values, shift):
    steps = [index * index for index in range(len(values))]
    area = area_under(steps, values)
    assert area_under([step + 100 for step in steps], [value + shift for value in values]) == pytest.approx(
        area + shift
    )
    assert min(values) - 1e-9 <= area <= max(values) + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: pass_at_k(3, 2, 1),
        lambda: pass_at_k(1, 4, 5),
        lambda: area_under([1], [1]),
        lambda: area_under([1, 1], [1, 2]),
        lambda: sign_flip([]),
        lambda: bootstrap([]),
        lambda: hierarchical_bootstrap([[1.0]]),
        lambda: hierarchical_bootstrap([[1.0], []]),
        lambda: welch([1], [1, 2]),
        lambda: permutation([1], [1, 2]),
        lambda: clustered_mean([1, 2], ["a", "a"]),
        lambda: two_way_interval([[1.0, 2.0]]),
        lambda: minimum_detectable_effect(1, 1),
        lambda: minimum_detectable_share(1.5, 10),
        lambda: student_quantile(1, 5),
    ],
)
def test_what_cannot_be_computed_is_refused(wrong):
    with pytest.raises(ValueError):
        wrong()
