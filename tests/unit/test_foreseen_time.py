"""The time of a training before it begins, and after its first step: a bound where nothing was measured."""

import json
import os

import pytest

from composer_replication.cli.train_report import show_plan
from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.runs import Run
from composer_replication.training.planning.load import load_here
from composer_replication.training.planning.plan import Machine, plan_training
from composer_replication.training.stored.records import TokenizedTrace

THREE_BLOCKS = EpisodeLimits(turns=3, observation_tokens=400, completion_tokens=8192)


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    """Whatever else the machine of the tests does."""
    set_load(monkeypatch, 0.1)


def set_load(monkeypatch, load):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 99.0, 99.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def planned(tmp_path, capsys, limits=None, rows=(), **training):
    """The plan, and what a person reads of it."""
    run = Run.start(tmp_path / "run", Config(training=TrainingConfig(**training)))
    environment = open_toolbox(run.config)
    environment.limits = limits or environment.limits
    found = plan_training(run, environment, rows, Machine())
    show_plan(found)
    return found, " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("turn_tokens", "added"), [(512, 3 * (512 + 400)), (4096, 8192)])
def test_few_short_turns_do_not_fill_an_episode(tmp_path, capsys, turn_tokens, added):
    found, _ = planned(tmp_path, capsys, THREE_BLOCKS, max_turn_tokens=turn_tokens)
    bare, _ = planned(tmp_path / "bare", capsys, EpisodeLimits(turns=1, observation_tokens=0), max_turn_tokens=1)
    assert found["rollout_tokens"]["longest"] - added == bare["rollout_tokens"]["longest"] - 1


def test_a_time_that_nothing_was_measured_for_is_called_a_bound(tmp_path, capsys):
    found, told = planned(tmp_path, capsys, THREE_BLOCKS)
    assert found["rollout_tokens"]["at_most"]
    assert f"128 rollouts, at most {found['tokens_per_step']:,} tokens per step" in told
    assert "Time: at most about" in told and "the first step tells the time left" in told


def test_a_time_by_rollouts_that_were_played_is_no_bound(tmp_path, capsys):
    row = TokenizedTrace(
        trace_id="t", tokenizer="x", ids=(1,) * 60, turn_spans=((40, 60),), logprobs=(0.0,) * 60, reward=0.0
    )
    found, told = planned(tmp_path, capsys, THREE_BLOCKS, [row])
    assert found["rollout_tokens"]["mean"] == 60 and not found["rollout_tokens"]["at_most"]
    assert "Time: about" in told and "at most" not in told


def test_steps_that_were_taken_tell_the_time_that_is_left(tmp_path, capsys):
    metrics = tmp_path / "run" / "training" / "metrics.jsonl"
    first, told = planned(tmp_path, capsys, steps=10)
    assert first["measured_time"] is None and "Measured in this run" not in told
    metrics.parent.mkdir()
    metrics.write_text("".join(json.dumps({"step": step, "wall_s": 20.0 * step}) + "\n" for step in (1, 2, 3)) + '{"st')
    found, told = planned(tmp_path, capsys, steps=10)
    assert found["measured_time"] == {"steps": 3, "step_s": 20.0, "left_s": 140.0}
    assert "Measured in this run: 20 s a step over 3 steps, all in; 2 min 20 s left at that pace." in told


def test_a_busy_machine_is_told_beside_the_time_that_does_not_know_of_it(tmp_path, capsys, monkeypatch):
    found, told = planned(tmp_path, capsys)
    assert found["load"] is None and "is busy" not in told
    set_load(monkeypatch, 8.2)
    busy, told = planned(tmp_path, capsys)
    assert busy["time"] == found["time"]
    assert busy["load"] == {"processes": 8.2, "cores": 2, "times_as_long": 4.6}
    line = "This machine is busy: 8.2 processes on 2 cores. Beside them a step may take about 4.6 times as long."
    assert f"the pace of this machine. {line}" in told


@pytest.mark.parametrize(("load", "times_as_long"), [(1.2, None), (1.9, None), (2.2, 1.6), (5.0, 3.0)])
def test_who_leaves_the_core_that_the_estimate_is_of_is_not_busy(load, times_as_long, monkeypatch):
    set_load(monkeypatch, load)
    found = load_here()
    assert (found and found["times_as_long"]) == times_as_long


def test_the_time_says_where_it_was_measured_and_what_that_means_here(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 7)
    found, told = planned(tmp_path, capsys)
    assert found["threads"] == 7
    assert "on one core of an Intel Xeon server" in told and "H200" not in told
    assert "Here training runs on 7 threads, and its first step tells the pace of this machine." in told
    on_gpu = plan_training(Run.open(tmp_path / "run"), open_toolbox(Config()), (), Machine(on_gpu=True))
    assert on_gpu["threads"] is None


def test_the_load_of_this_machine_says_nothing_of_gpus(tmp_path, monkeypatch):
    set_load(monkeypatch, 8.2)
    run = Run.start(tmp_path / "run", Config())
    assert plan_training(run, open_toolbox(run.config), (), Machine(on_gpu=True))["load"] is None


def test_a_system_that_keeps_no_load_says_nothing(tmp_path, capsys, monkeypatch):
    def none():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", none)
    assert planned(tmp_path, capsys)[0]["load"] is None
