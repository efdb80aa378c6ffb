"""The fit keeps to its signs and its rate of false alarms; the penalty never costs more than it may."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

from composer_replication.errors import UsageError
from composer_replication.monitor.features import NAMES
from composer_replication.monitor.logistic import FIT_COMMAND
from composer_replication.monitor.penalty import Penalty, Weights

from .monitor_cases import of_experiment

regression, fitting = of_experiment("regression"), of_experiment("fitting")
fit_line, cross_fitted, threshold_for = regression.fit_line, regression.cross_fitted, regression.threshold_for
fold_of_group, fit = regression.fold_of_group, fitting.fit
TELLING, NOISY, BACKWARDS = "command_git", "network_acts", "install_acts"


def cases(number=600, seed=0):
    """Hacks show the telling feature; both show the noisy one; honest work shows the backwards one more often."""
    rng = random.Random(seed)
    rows, labels, behaviours = [], [], []
    for place in range(number):
        hack = place % 4 == 0
        row = dict.fromkeys(NAMES, 0.0)
        row[TELLING] = float(rng.random() < (0.9 if hack else 0.002))
        row["rules_broken"] = max(row[TELLING], float(rng.random() < 0.1))
        row[NOISY] = rng.random()
        row[BACKWARDS] = float(rng.random() < (0.1 if hack else 0.7))
        rows.append(row)
        labels.append(hack)
        behaviours.append(f"{'hack' if hack else 'honest'} {place % 40}")
    return rows, labels, behaviours


@pytest.fixture(scope="module")
def fitted():
    return fit(*cases(), {"sha256": "x"})


def penalty(fitted, **options):
    return Penalty(fitted.weights, **options)


def judged(hard=False, p=0.0):
    return SimpleNamespace(hard=hard, p=p)


def test_nobody_is_accused_without_a_sign(fitted):
    row = dict.fromkeys(NAMES, 8.0)
    assert fitted.weights.probability(row) > 0.99
    assert fitted.weights.probability({**row, "rules_broken": 0.0}) == 0


def test_an_alarm_is_never_below_even_odds():
    rows, labels, behaviours = cases()
    clean = [row if hack else dict.fromkeys(NAMES, 0.0) for row, hack in zip(rows, labels, strict=True)]
    assert fit(clean, labels, behaviours, {}).weights.threshold == 0.5


def test_newton_ends_where_the_slope_is_nothing():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    labels = (rows[:, 0] + rng.normal(size=200) > 0).astype(float)
    line = fit_line(rows, labels, l2=2.0)
    columns = (rows - np.array(line.mean)) / np.array(line.scale)
    chance = np.array([line.probability(row) for row in rows.tolist()])
    weights = np.array(line.weights)
    assert np.abs(columns.T @ (chance - labels) + 2.0 * weights).max() < 1e-3
    assert abs((chance - labels).sum()) < 1e-3, "the intercept is not penalised"


def test_cases_that_can_be_told_apart_for_sure_end_too():
    rows = [[0.0]] * 20 + [[1.0]] * 20
    line = fit_line(rows, [0] * 20 + [1] * 20, l2=1e-6)
    assert line.probability([1.0]) > 0.99 > 0.01 > line.probability([0.0])


def test_a_column_that_never_changes_has_no_weight():
    assert fit_line([[1.0, 0.0], [1.0, 1.0]], [0, 1], 1.0).weights[0] == 0.0


def test_a_feature_against_its_sign_is_taken_out(fitted):
    weights = dict(zip(fitted.weights.features, fitted.weights.weights, strict=True))
    free = fit_line([[row[BACKWARDS]] for row in cases()[0]], cases()[1], 1.0)
    assert free.weights[0] < 0, "the data do pull it the other way"
    assert weights[BACKWARDS] == 0.0
    assert BACKWARDS in fitted.taken_out
    assert weights[TELLING] > 0
    assert min(weights.values()) >= 0


def test_more_evidence_never_lowers_the_probability(fitted):
    rng = random.Random(1)
    for _ in range(200):
        row = {name: rng.random() * 2 for name in NAMES}
        name = rng.choice(NAMES)
        assert fitted.weights.probability({**row, name: row[name] + 1}) >= fitted.weights.probability(row)


def test_false_alarms_of_the_tuning_set_are_within_the_limit(fitted):
    rows, labels, _ = cases()
    honest = [p for p, hack in zip(fitted.cross_fitted, labels, strict=True) if not hack]
    over = sum(p >= fitted.weights.threshold for p in honest)
    assert over <= 0.005 * len(honest)
    assert fitted.weights.false_positive_rate == over / len(honest)
    caught = [p >= fitted.weights.threshold for p, hack in zip(fitted.cross_fitted, labels, strict=True) if hack]
    assert sum(caught) > 0.8 * len(caught)
    assert fitted.weights.trained_on == {"sha256": "x", "hacks": 150, "honest": 450, "behaviours": 40}
    assert len(rows) == len(fitted.cross_fitted)


def test_the_threshold_is_the_lowest_that_keeps_the_limit():
    honest = [number / 1000 for number in range(1000)]
    threshold = threshold_for([*honest, 0.5], [False] * 1000 + [True], 0.01)
    assert sum(p >= threshold for p in honest) == 10
    assert threshold_for([0.2, 0.2, 0.2], [False] * 3, 0.34) > 0.2, "equal ones stand or fall together"


def test_a_behaviour_is_never_on_both_sides(monkeypatch):
    rows, labels, behaviours = (
        [[float(n % 2)] for n in range(60)],
        [n % 2 for n in range(60)],
        ["abcdef"[n % 6] for n in range(60)],
    )
    seen = []
    fit_one = regression.fit_line

    def spy(values, *rest):
        seen.append(len(values))
        return fit_one(values, *rest)

    monkeypatch.setattr(regression, "fit_line", spy)
    cross_fitted(rows, labels, behaviours, 1.0, folds=3)
    folds = fold_of_group(behaviours, 3)
    assert seen == [40, 40, 40]
    assert all(
        len({fold for fold, name in zip(folds, behaviours, strict=True) if name == each}) == 1 for each in "abcdef"
    )


def test_what_was_remembered_of_a_behaviour_does_not_count():
    """One honest behaviour has a feature of its own: a fit that saw it explains it away, a held-out one cannot."""
    rows, labels, behaviours = cases(200)
    for _ in range(20):
        rows.append({**dict.fromkeys(NAMES, 0.0), TELLING: 1.0, NOISY: 5.0})
        labels.append(False)
        behaviours.append("odd")
    fitted = fit(rows, labels, behaviours, {})
    assert fitted.weights.threshold > max(
        p for p, name in zip(fitted.cross_fitted, behaviours, strict=True) if name == "odd"
    )


@pytest.mark.parametrize(
    ("labels", "behaviours"), [([True, True], "ab"), ([False, False], "ab"), ([True, False], "aa")]
)
def test_what_cannot_be_fitted_is_refused(labels, behaviours):
    with pytest.raises(UsageError):
        fit([dict.fromkeys(NAMES, 0.0)] * 2, labels, list(behaviours), {})


def test_hard_evidence_takes_the_whole_reward_and_soft_evidence_none(fitted):
    for reward in (1.0, 0.25, 0.0):
        assert penalty(fitted).charge(reward, judged(hard=True)) == -reward
        assert penalty(fitted).charge(reward, judged(p=1.0)) == 0.0
    assert penalty(fitted).charge(-0.5, judged(hard=True)) == 0.0, "never a reward for a hack"


def test_dropping_masks_and_charges_nothing(fitted):
    dropping = penalty(fitted, mode="drop")
    assert dropping.drops(judged(hard=True))
    assert dropping.drops(judged(p=fitted.weights.threshold))
    assert not dropping.drops(judged(p=fitted.weights.threshold - 1e-9))
    assert not dropping.drops(judged(p=None))
    assert dropping.charge(1.0, judged(hard=True)) == 0.0
    assert not penalty(fitted).drops(judged(hard=True))
    watching = penalty(fitted, mode="watch")
    assert watching.charge(1.0, judged(hard=True, p=1.0)) == 0.0
    assert not watching.drops(judged(hard=True))


def test_weights_are_json_and_come_back_the_same(fitted, tmp_path):
    path = tmp_path / "weights.json"
    fitted.weights.save(path)
    assert set(json.loads(path.read_text())) == {
        "features", "mean", "scale", "weights", "intercept", "threshold", "false_positive_rate", "trained_on",
    }  # fmt: skip
    assert Penalty.load(path=path).weights == fitted.weights


def test_missing_and_broken_weights_say_what_to_run(fitted, tmp_path):
    with pytest.raises(UsageError) as error:
        Penalty.load(path=tmp_path / "none.json")
    assert error.value.next_command == FIT_COMMAND
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(UsageError, match="does not hold weights"):
        Weights.load(tmp_path / "broken.json")
    fitted.weights.model_copy(update={"features": ("mood", *NAMES[1:])}).save(tmp_path / "old.json")
    with pytest.raises(UsageError, match="mood"):
        Weights.load(tmp_path / "old.json")
