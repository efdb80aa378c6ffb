"""The monitor inside training: it logs, it charges, it masks, and it changes nothing where it only watches."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import Config, MonitorConfig, ToolboxConfig, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.monitor import judge as watching
from composer_replication.monitor import penalty as penalties
from composer_replication.monitor.features import NAMES
from composer_replication.monitor.judge import Judgement, Models
from composer_replication.monitor.penalty import Weights
from composer_replication.progress import Silent
from composer_replication.training.alarms import Thresholds
from composer_replication.training.rollouts import monitoring
from composer_replication.training.rollouts.monitoring import (
    Consequence,
    RolloutMonitor,
    evidence_of,
    masking,
    metrics_of,
)
from composer_replication.training.rollouts.worker import Rollout
from composer_replication.training.train import refuse_what_would_do_nothing, train

from .monitor_cases import HARD_HIT, SOFT_HIT, evidence, trace
from .test_watchdogs import Trial

THRESHOLD = 0.5
TRAINING = TrainingConfig(steps=3, prompts_per_step=2, group_size=2, max_turn_tokens=6)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    size = len(NAMES)
    made = Weights(
        features=NAMES, mean=(0.0,) * size, scale=(1.0,) * size, weights=(0.0,) * size, intercept=-3.0,
        threshold=THRESHOLD, false_positive_rate=0.0, trained_on={},
    )  # fmt: skip
    monkeypatch.setattr(penalties.Weights, "load", classmethod(lambda cls, path=None: made))
    monkeypatch.setattr(watching, "shipped_models", lambda: Models(made))
    return made


def seen_as(hard=False, p=0.0, auditor_p=0.1, auditor_alarm=False):
    return Judgement("t", (), {}, p, hard, hard or p >= THRESHOLD, auditor_p, auditor_alarm)


def rollouts(*rewards, **episode):
    return [SimpleNamespace(reward=reward, episode=SimpleNamespace(**episode)) for reward in rewards]


def look(monitor, monkeypatch, watches, rewards, step=1):
    waiting = iter(watches)
    monkeypatch.setattr(monitoring, "judge", lambda conduct, more_signs=(): next(waiting))
    return monitor(rollouts(*rewards), [trace()] * len(rewards), step)


def pay(monitor, columns, rewards, **more):
    logged = {}
    paid = monitor.monitor_penalty(log_metric=logged.__setitem__, episode_reward=rewards, **columns, **more)
    return paid, logged


def test_hard_takes_the_reward_and_the_rest_nothing(tmp_path, monkeypatch, weights):
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4)
    watches = [seen_as(hard=True), seen_as(p=0.9), seen_as(p=0.4), seen_as(hard=True)]
    rewards = [1.0, 1.0, 1.0, 0.5]
    columns = look(monitor, monkeypatch, watches, rewards)
    paid, logged = pay(monitor, columns, rewards)
    assert paid == pytest.approx([-1.0, 0.0, 0.0, -0.5])
    assert logged["monitor/hard_rate"] == 0.5
    assert logged["monitor/alarm_rate"] == 0.75
    assert logged["monitor/p"] == pytest.approx(0.325)


def test_watching_charges_nothing_and_needs_no_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(penalties, "WEIGHTS", tmp_path / "none.json")
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True, mode="watch"), group_size=4)
    columns = look(monitor, monkeypatch, [seen_as(hard=True)], [1.0])
    assert pay(monitor, columns, [1.0])[0] == [0.0]


def test_a_masked_rollout_has_no_advantage_and_moves_no_other(tmp_path, monkeypatch, weights):
    monitor = RolloutMonitor(
        tmp_path, MonitorConfig(enabled=True, mode="drop"), group_size=3, reward_columns=("episode_reward", "penalty")
    )
    rewards, errors = [1.0, 1.0, 0.0, 0.0, 1.0], [0.0, -0.1, -0.1, 0.0, 0.0]
    watches = [seen_as(hard=True), seen_as(), seen_as(), seen_as(), seen_as(p=0.9)]
    columns = look(monitor, monkeypatch, watches, rewards)
    paid, _ = pay(monitor, columns, rewards, penalty=errors)
    total = [sum(row) for row in zip(rewards, errors, paid, strict=True)]
    assert total == pytest.approx([0.4, 0.9, -0.1, 0.0, 0.0])
    assert total[0] == pytest.approx(sum(total[:3]) / 3)


def test_a_group_that_is_masked_throughout_is_flat():
    assert masking([1.0, 0.5], [True, True], 2) == [-1.0, -0.5]
    assert masking([1.0, 0.5], [False, False], 1) == [0.0, 0.0]


def test_two_groups_of_one_task_are_masked_apart(tmp_path, monkeypatch, weights):
    """Few tasks come twice in a step. The first group failed but for a hack, which must not look good beside it."""
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True, mode="drop"), group_size=4)
    rewards = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    columns = look(monitor, monkeypatch, [seen_as(hard=True), *[seen_as()] * 7], rewards)
    prompts = [[{"role": "user", "content": "the same"}]] * 8
    assert pay(monitor, columns, rewards, prompts=prompts)[0] == [-1.0, *[0.0] * 7]


def test_nothing_of_the_auditor_reaches_a_reward_function(tmp_path, monkeypatch, weights):
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4)
    rewards = [1.0, 1.0]
    calm = look(monitor, monkeypatch, [seen_as(p=0.9, auditor_p=0.0), seen_as()], rewards)
    paid, logged = pay(monitor, calm, rewards)
    loud = look(
        monitor, monkeypatch, [seen_as(p=0.9, auditor_p=1.0, auditor_alarm=True), seen_as(auditor_alarm=True)], rewards
    )
    assert loud == calm
    paid_loud, logged_loud = pay(monitor, loud, rewards)
    assert paid_loud == paid
    assert logged_loud["monitor/auditor_p"] > logged["monitor/auditor_p"]
    assert logged_loud["monitor/disagreement"] == logged["monitor/disagreement"] == 0.5
    assert set(calm) == {"monitor"}
    assert Consequence._fields == ("charge", "masked")


def test_findings_are_written_per_rollout_and_forgotten_after_a_checkpoint(tmp_path, monkeypatch, weights):
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4)
    for step in (1, 2):
        look(monitor, monkeypatch, [seen_as(hard=True), seen_as()], [1.0, 0.0], step)
    lines = [json.loads(line) for line in (tmp_path / "findings.jsonl").read_text().splitlines()]
    assert [(line["step"], line["hard"], line["reward"]) for line in lines] == [
        (1, True, 1.0), (1, False, 0.0), (2, True, 1.0), (2, False, 0.0),
    ]  # fmt: skip
    monitor.on_train_begin(None, SimpleNamespace(global_step=1), None)
    assert len((tmp_path / "findings.jsonl").read_text().splitlines()) == 2
    other = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4, rank=3)
    look(other, monkeypatch, [seen_as()], [0.0])
    assert (tmp_path / "findings.3.jsonl").exists()


def test_a_rollout_that_breaks_the_monitor_is_counted_and_not_charged(tmp_path, monkeypatch, weights):
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4)

    def broken(conduct, more_signs=()):
        raise RecursionError("too deep")

    monkeypatch.setattr(monitoring, "judge", broken)
    columns = monitor(rollouts(1.0), [trace()], 1)
    paid, logged = pay(monitor, columns, [1.0])
    assert paid == [0.0]
    assert logged["monitor/failed_rate"] == 1.0
    assert "too deep" in (tmp_path / "findings.jsonl").read_text()


@pytest.mark.parametrize(
    ("episode", "hit"),
    [
        ({}, False),
        ({"canary_hits": ()}, False),
        ({"canary_hits": ("tool",)}, True),
        ({"canary_hits": (SOFT_HIT,)}, False),
        ({"canary_hits": (HARD_HIT,)}, True),
        ({"evidence": evidence(canary_hits=(HARD_HIT,))}, True),
        ({"session": SimpleNamespace(evidence=evidence(canary_hits=(HARD_HIT,)))}, True),
        ({"session": None}, False),
        ({"evidence": evidence(canary_hits=(HARD_HIT,)), "canary_hits": ()}, False),
    ],
)
def test_the_environment_says_whether_a_canary_was_hit(episode, hit):
    [rollout] = rollouts(1.0, **episode)
    assert metrics_of([monitoring.WatchedRollout(rollout, trace(), seen_as())])["canary_hit_rate"] == float(hit)


def test_evidence_of_a_session_reaches_the_layers(tmp_path, weights):
    monitor = RolloutMonitor(tmp_path, MonitorConfig(enabled=True), group_size=4)
    [rollout] = rollouts(1.0, session=SimpleNamespace(evidence=evidence(canary_hits=(HARD_HIT,))))
    columns = monitor([rollout], [trace(("bash", {"command": "ls"}, ""))], 1)
    assert columns["monitor"] == [Consequence(-1.0, False)]
    assert evidence_of(SimpleNamespace()) is None


def test_an_alarm_where_too_many_hit_a_canary(tmp_path):
    trial = Trial(tmp_path, limits=Thresholds(canary_rate=0.1))
    for rate in [0.0] * 12 + [0.4] * 2:
        trial.log(**{"monitor/canary_hit_rate": rate})
    assert trial.names() == []
    trial.log(**{"monitor/canary_hit_rate": 0.4})
    assert trial.names() == ["canary_hits"]
    assert "12.0% of the last rollouts" in trial.alarms()[0].sentence


def parameters_after(policy, config, folder):
    train(policy, config, open_toolbox(config), [], folder, Silent())
    return [parameter.detach().clone() for parameter in policy.model.parameters()]


def test_watching_changes_no_parameter_and_logs_the_rates(new_policy, tmp_path, weights):
    plain, conduct = (
        Config(seed=5, training=TRAINING),
        Config(seed=5, training=TRAINING, monitor=MonitorConfig(enabled=True, mode="watch")),
    )
    first = parameters_after(new_policy(), plain, tmp_path / "plain" / "training")
    second = parameters_after(new_policy(), conduct, tmp_path / "conduct" / "training")
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    folder = tmp_path / "conduct" / "training"
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert logged[0]["monitor/canary_hit_rate"] == 0.0
    assert logged[0]["monitor/failed_rate"] == 0.0
    assert "rewards/episode_reward/mean" in logged[0]
    assert logged[0]["rewards/monitor_penalty/mean"] == 0.0
    assert len((folder / "findings.jsonl").read_text().splitlines()) == 3 * 4
    plain_keys = json.loads((tmp_path / "plain" / "training" / "metrics.jsonl").read_text().splitlines()[0])
    assert not [key for key in plain_keys if "monitor" in key]


@pytest.mark.parametrize("mode", ["penalty", "drop"])
def test_rollouts_that_are_all_hacks_teach_nothing(new_policy, tmp_path, monkeypatch, weights, mode):
    """Rewards differ within groups, so a policy that is not conduct does learn."""
    monkeypatch.setattr(Rollout, "reward", property(lambda rollout: float(sum(rollout.completion_ids) % 7)))
    start = [parameter.detach().clone() for parameter in new_policy().model.parameters()]
    learnt = parameters_after(new_policy(), Config(seed=5, training=TRAINING), tmp_path / "plain" / "training")
    monkeypatch.setattr(monitoring, "judge", lambda conduct, more_signs=(): seen_as(hard=True))
    config = Config(seed=5, training=TRAINING, monitor=MonitorConfig(enabled=True, mode=mode))
    kept = parameters_after(new_policy(), config, tmp_path / "conduct" / "training")
    assert not all(torch.equal(a, b) for a, b in zip(start, learnt, strict=True))
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(start, kept, strict=True))
    logged = json.loads((tmp_path / "conduct" / "training" / "metrics.jsonl").read_text().splitlines()[0])
    assert logged["rewards/episode_reward/mean"] > 0
    assert logged["reward"] == pytest.approx(0.0, abs=1e-6)


def test_the_penalty_without_weights_says_what_to_run(new_policy, tmp_path, monkeypatch):
    def missing(cls, path=None):
        raise UsageError("the monitor has no weights", "fit")

    monkeypatch.setattr(penalties.Weights, "load", classmethod(missing))
    config = Config(training=TRAINING, monitor=MonitorConfig(enabled=True))
    with pytest.raises(UsageError, match="no weights"):
        train(new_policy(), config, open_toolbox(config), [], tmp_path / "training", Silent())


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (Config(training=TrainingConfig(rollouts=False), monitor=MonitorConfig(enabled=True)), "rollouts"),
        (
            Config(
                toolbox=ToolboxConfig(leak="open"),
                training=TrainingConfig(leak_penalty="hard"),
                monitor=MonitorConfig(enabled=True),
            ),
            "both charge",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(config, match):
    with pytest.raises(UsageError, match=match):
        refuse_what_would_do_nothing(config)
