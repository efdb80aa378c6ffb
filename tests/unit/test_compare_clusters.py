"""Tasks of one repository hang together: where `evaluate --compare` finds that, and what it makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from composer_replication.cli.compare import show_comparison
from composer_replication.errors import UsageError

from .test_compare import compared, outcomes, write_lines, write_run


def of_repositories(rewards, number):
    return [{**row, "repository": f"r{i % number}"} for i, row in enumerate(outcomes(rewards))]


def test_repositories_are_the_unit_where_they_are_named(tmp_path):
    repository = [f"r{i % 12}" for i in range(120)]
    gain = [float(i % 12 < 9) for i in range(120)]
    rows = [
        [{**row, "repository": r} for row, r in zip(outcomes(v), repository, strict=True)] for v in ([0.0] * 120, gain)
    ]
    paths = [write_lines(tmp_path / f"{n}.jsonl", r) for n, r in zip("ab", rows, strict=True)]
    [clustered], [alone] = compared(paths).comparisons, compared(paths, cluster="none").comparisons
    assert (clustered.unit, clustered.difference.n) == ("cluster", 12)
    assert (alone.unit, alone.difference.n) == ("task", 120)
    assert clustered.test.p == pytest.approx(2 * 2**3 / 2**12)
    assert clustered.difference.hi - clustered.difference.lo > 2 * (alone.difference.hi - alone.difference.lo)
    assert clustered.minimum_detectable_effect > 1.5 * alone.minimum_detectable_effect


def test_repositories_of_runs_are_the_unit_too(tmp_path):
    """A run has them among the labels of its tasks."""
    paths = [write_run(tmp_path / n, [0.0] * 24, [gain] * 24, 0, repositories=8) for n, gain in (("a", 0), ("b", 1))]
    [clustered], [alone] = compared(paths).comparisons, compared(paths, cluster="none").comparisons
    assert (clustered.unit, clustered.difference.n, clustered.test.p) == ("cluster", 8, 2 / 2**8)
    assert (alone.unit, alone.difference.n) == ("task", 24)


@pytest.mark.parametrize("named", ["a", "b"])
def test_repositories_that_one_arm_names_count(tmp_path, named):
    paths = [
        write_lines(tmp_path / f"{n}.jsonl", of_repositories([gain] * 24, 8) if n == named else outcomes([gain] * 24))
        for n, gain in (("a", 0.0), ("b", 1.0))
    ]
    [row] = compared(paths).comparisons
    assert (row.unit, row.difference.n) == ("cluster", 8)


def test_a_cluster_that_no_line_has_is_refused(tmp_path):
    paths = [write_lines(tmp_path / f"{n}.jsonl", outcomes([0, 1, 1])) for n in "ab"]
    with pytest.raises(UsageError, match="no line has a repo"):
        compared(paths, cluster="repo")


def test_the_interval_of_few_repositories_is_wide_enough(tmp_path):
    """Three repositories with gains of their own, whose mean is 0."""
    rng, holds_zero = np.random.default_rng(0), 0
    first = write_lines(tmp_path / "a.jsonl", of_repositories([0.0] * 12, 3))
    for _ in range(100):
        second = write_lines(tmp_path / "b.jsonl", of_repositories(rng.normal(size=3).tolist() * 4, 3))
        found = compared([first, second], metric="reward")
        [row] = found.comparisons
        holds_zero += row.difference.lo <= 0 <= row.difference.hi
    assert holds_zero >= 90  # 95 expected; the whole range of a bootstrap over three would hold it in 75
    assert (row.interval, row.difference.n) == ("t over clusters", 3)
    assert found.arms[1].model_dump()["estimate"]["lo"] is None, "too few to tell"


@pytest.mark.parametrize(("number", "told"), [(3, 0), (12, 1)])
def test_an_interval_is_told_once(tmp_path, capsys, number, told):
    rewards = {"a": [0.0] * 24, "b": [float(place % 3) for place in range(24)]}
    paths = [write_lines(tmp_path / f"{n}.jsonl", of_repositories(values, number)) for n, values in rewards.items()]
    show_comparison(compared(paths, metric="reward"), None)
    assert capsys.readouterr().out.count("Errors clustered by") == told
