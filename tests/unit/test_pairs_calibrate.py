"""Calibration: intervals that hold, cells that are dropped, and a report of what the pairs are worth."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from composer_replication.pairs import calibrate, extract_dpo_pairs, vote
from composer_replication.pairs.calibrate import Calibration, Cell, CellKey, calibrate_cells, clopper_pearson
from composer_replication.pairs.signal import distance_from_random, fleiss_kappa, signal_report

from .test_pairs import X, Y, Z, actor_trace, ballot, reply

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("vote_calibration", ROOT / "benchmarks" / "vote_calibration.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def binomial_tail(n: int, p: float, at_least: int) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(at_least, n + 1))


@pytest.mark.parametrize(("successes", "n"), [(1, 5), (9, 10), (38, 40), (80, 100), (499, 500), (3, 400)])
def test_the_interval_ends_where_the_binomial_tails_say(successes, n):
    lo, hi = clopper_pearson(successes, n)
    assert binomial_tail(n, lo, successes) == pytest.approx(0.025, abs=1e-6)
    assert 1 - binomial_tail(n, hi, successes + 1) == pytest.approx(0.025, abs=1e-6)


def test_the_interval_at_the_ends():
    assert clopper_pearson(0, 7)[0] == 0
    assert clopper_pearson(7, 7)[1] == 1
    assert clopper_pearson(30, 30)[0] == pytest.approx(0.025 ** (1 / 30))
    lo, hi = clopper_pearson(180_000, 200_000)
    assert lo < 0.9 < hi and hi - lo < 0.003


def test_simulated_votes_follow_the_rule_of_the_package(benchmark):
    _, said = benchmark.answers(np.random.default_rng(3), 400, 0.3)
    votes, n, right = benchmark.elections(said)
    for row, count, voters, is_right in zip(said, votes, n, right, strict=True):
        actions = [
            None if answer < 0 else (X, Y, Z, *(f'{{"arguments":{{}},"name":"w{i}"}}' for i in range(6)))[answer]
            for answer in row
        ]
        verdict = vote(ballot(*actions))
        if count:
            assert (verdict.agreement.votes, verdict.agreement.n) == (count, voters)
            assert (verdict.action == X) == is_right
        else:
            assert verdict.agreement is None


def test_errors_are_correlated_as_much_as_is_said(benchmark):
    for correlation in benchmark.CORRELATIONS:
        assert benchmark.error_correlation(correlation, 200_000) == pytest.approx(correlation, abs=0.02)


def test_intervals_cover_and_cells_under_the_bar_are_dropped(benchmark):
    """A fast part of the benchmark: 60 replications at the highest correlation."""
    result = benchmark.measure(0.6, 60, 600, 300_000)
    assert result["mean_coverage"]["clopper_pearson"] >= 0.9
    assert result["cells_under_the_bar"] >= 5
    assert result["kept_under_the_bar"]["lower_bound"] <= 0.025
    assert result["kept_under_the_bar"]["point_estimate"] > 0.05
    assert result["kept_above_the_bar"]["lower_bound"] > 0.2


def test_the_kept_figures_show_what_is_claimed():
    import json

    kept = json.loads((ROOT / "benchmarks" / "results" / "vote_calibration.json").read_text())
    assert kept["simulated"] is True
    assert [result["correlation"] for result in kept["results"]] == [0.0, 0.3, 0.6]
    for result in kept["results"]:
        assert result["replications"] == 200
        assert min(cell["coverage"]["clopper_pearson"] for cell in result["cells"]) >= 0.9
        under = [cell for cell in result["cells"] if cell["true_precision"] < 0.8]
        assert under and max(cell["kept"]["lower_bound"] for cell in under) <= 0.05


def traces_of(count: int):
    return [actor_trace().model_copy(update={"trace_id": f"t{i}"}) for i in range(count)]


def paired(wrong: int = 0, right: int = 0, kind: str | None = None):
    traces = traces_of(wrong + right)
    replies = [
        reply(family, Y if i < wrong else X, key=f"{family}{i}", trace_id=f"t{i}")
        for i in range(wrong + right)
        for family in "ab"
    ]
    return extract_dpo_pairs(traces, replies, kinds={t.state_id(0): kind for t in traces} if kind else None)


def oracle(state, action):
    return action == X


def test_a_cell_counts_what_the_oracle_says_about_the_chosen_call():
    found, traces = paired(wrong=3, right=37, kind="type_error"), traces_of(40)
    [cell] = calibrate(found.pairs, traces, oracle).cells
    assert (cell.votes, cell.n, cell.kind, cell.right, cell.total) == (2, 2, "type_error", 37, 40)
    assert cell.precision == pytest.approx(37.5 / 41)
    assert calibrate(found.pairs, traces, lambda state, action: None).cells == ()


def test_kept_pairs_carry_their_precision_and_poor_cells_go():
    good, traces = paired(wrong=1, right=39), traces_of(40)
    kept = calibrate(good.pairs, traces, oracle).apply(good)
    assert {pair.precision for pair in kept.pairs} == {round(39.5 / 41, 4)}
    assert kept.verdicts == good.verdicts
    poor = paired(wrong=6, right=34)  # 0.85, but it could well be less than 0.8
    assert calibrate(poor.pairs, traces, oracle).apply(poor) == ([], {"low_precision": 40})
    assert len(calibrate(poor.pairs, traces, oracle, bar=0.6).apply(poor).pairs) == 40


def test_cells_that_nobody_measured_are_kept_without_a_precision():
    found = paired(right=2)
    other = Calibration(cells=(Cell(votes=3, n=4, kind=None, right=1, total=50),))
    assert other.apply(found) == found
    assert all(pair.precision is None for pair in found.pairs)


def test_cells_are_told_apart_by_votes_n_and_kind():
    keys = [CellKey(2, 2, "a"), CellKey(2, 3, "a"), CellKey(3, 3, "a"), CellKey(2, 2, "b"), CellKey(2, 2, None)]
    assert len(calibrate_cells((key, True) for key in keys).cells) == 5


def test_fleiss_kappa():
    assert fleiss_kappa([["a", "a"], ["b", "b"]]) == pytest.approx(1)
    assert fleiss_kappa([["a", "b"], ["b", "a"]]) == pytest.approx(-1)
    assert fleiss_kappa([["a", "a", "b"], ["b", "b", "b"], ["a"]]) == pytest.approx((2 / 3 - 5 / 9) / (1 - 5 / 9))
    assert fleiss_kappa([["a"], []]) is None
    assert fleiss_kappa([["a", "a"]]) is None


def test_the_report_counts_what_happened():
    traces = [actor_trace(), actor_trace().model_copy(update={"trace_id": "unasked"})]
    replies = [*ballot(X, X, Y), *(reply(family, action, turn=1) for family, action in (("f0", X), ("f1", Y)))]
    found = extract_dpo_pairs(traces, replies)
    report = signal_report(traces, replies, found.pairs, found.verdicts)
    assert (report.traces, report.pairs, report.pairs_per_trace) == (1, 1, 1.0)
    assert report.funnel == {"states": 2, "replies": 5, "parsed": 5, "votes": 5, "agreements": 1, "pairs": 1}
    assert (report.dropped_replies, report.dropped_states) == ({}, {"no_majority": 1})
    wins = {name: (record.votes, record.wins, record.win_rate) for name, record in report.teachers.items()}
    assert wins == {"f0/m": (1, 1, 1.0), "f1/m": (1, 1, 1.0), "f2/m": (1, 0, 0.0)}
    assert report.kappa_tool is None and report.kappa < 1
    assert report.distance is None and not report.meets_threshold
    assert report.length.chosen < report.length.rejected


def test_the_actors_family_is_left_out_of_the_report():
    trace = actor_trace(family="f2")
    report = signal_report([trace], ballot(X, X, Y), [], {})
    assert set(report.teachers) == {"f0/m", "f1/m"}


def many_pairs(count=60):
    """Pairs over two actions, so that exchanged sides are often the wrong ones."""
    found = paired(wrong=count // 2, right=count - count // 2, kind="k")
    return [pair.model_copy(update={"trace_id": f"t{i // 6}"}) for i, pair in enumerate(found.pairs)]


def test_choices_that_fit_their_state_are_far_from_random():
    pairs = many_pairs()

    def knows(pair, message):
        return -1.0 if message == pair.chosen else -3.0

    margin, distance = distance_from_random(pairs, knows)
    assert (margin.mean, distance.mean, distance.n) == (2.0, 2.0, 60)
    assert distance.lo > 0


def test_choices_that_fit_any_state_are_not():
    pairs, around_zero = many_pairs(240), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        _, distance = distance_from_random(pairs, lambda pair, message, rng=rng: float(rng.normal()), seed)
        around_zero += distance.lo < 0 < distance.hi
    assert around_zero >= 34  # 38 expected


def test_the_interval_is_wide_enough_for_five_traces():
    pairs, holds_zero = many_pairs(30), 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        _, distance = distance_from_random(pairs, lambda pair, message, rng=rng: float(rng.normal()), seed)
        holds_zero += distance.lo < 0 < distance.hi
    assert holds_zero >= 180  # 190 expected; with percentiles of resampled traces it was 162


def test_a_kind_with_one_choice_has_no_random_pairs():
    _, distance = distance_from_random(paired(right=5).pairs, lambda pair, message: 0.0)
    assert distance is None


def test_the_origins_threshold_and_that_one_trace_cannot_meet_it():
    trace = actor_trace()
    traces = [trace.model_copy(update={"trace_id": f"t{number}"}) for number in range(5)]
    replies = [reply.model_copy(update={"trace_id": one.trace_id}) for one in traces for reply in ballot(X, X)]

    def knows(pair, message):
        return -1.0 if message == pair.chosen else -3.0

    def met(pairs, logprob, per_trace=6):
        pairs = [pair.model_copy(update={"trace_id": f"t{i // per_trace}"}) for i, pair in enumerate(pairs)]
        margin, distance = distance_from_random(pairs, logprob)
        asked = {pair.trace_id for pair in pairs}
        report = signal_report(traces, [reply for reply in replies if reply.trace_id in asked], pairs, {})
        return report.model_copy(update={"margin": margin, "distance": distance}).meets_threshold

    assert met(many_pairs(30), knows)
    assert not met(many_pairs(30), lambda pair, message: -1.0)
    assert not met(many_pairs(20), knows, per_trace=4)
    assert not met(many_pairs(24), knows)
    assert not met(many_pairs(6), knows)


def test_the_report_needs_no_heavy_library():
    import subprocess
    import sys

    code = "import sys, composer_replication.pairs.signal, composer_replication.pairs.export\n"
    code += "assert not {'torch', 'datasets', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
