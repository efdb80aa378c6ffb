"""verl's own entry point on Ray, on CPU through the test tool: one and two ranks, weights 0, and a killed worker."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("verl")

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.training import train_verl

from .verl_cpu import ENVIRONMENT
from .verl_scene import STEPS, config_of, policy_of, train

PLAIN = ("trainer.v1.trainer_mode=sync", "algorithm.adv_estimator=grpo")
"""verl as it comes, but for who plays the episodes."""


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def entries(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_weights_0_are_plain_verl(tmp_path):
    plain, plain_steps = train(tmp_path / "plain", config_of(), override=PLAIN)
    off, off_steps = train(tmp_path / "off", config_of())
    assert len(plain_steps) == len(off_steps) == STEPS
    assert any(step.policy for step in plain_steps)
    for ours, theirs in zip(off_steps, plain_steps, strict=True):
        assert (ours.policy, ours.grad_norm, ours.reward) == pytest.approx(
            (theirs.policy, theirs.grad_norm, theirs.reward), abs=1e-6
        )
    start = policy_of(config_of()).model.state_dict()
    weights, others = off.model.state_dict(), plain.model.state_dict()
    assert any(not torch.equal(start[name], weights[name]) for name in weights)
    print("apart", max(float((weights[name] - others[name]).abs().max()) for name in weights))
    for name in weights:
        torch.testing.assert_close(weights[name], others[name], rtol=0, atol=1e-6)


@pytest.fixture
def cluster(tmp_path, on_cpu, monkeypatch):
    """Ray as an administrator starts it, before any run and apart from it. In a folder of its own, with a short name:
    in the usual one every later run without an address would find it."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    folder = tempfile.mkdtemp(prefix="ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = ["start", "--head", f"--port={port}", "--num-cpus=16", "--num-gpus=1", "--include-dashboard=false",
               f"--temp-dir={folder}"]  # fmt: skip
    with (tmp_path / "ray.log").open("w") as log:
        ray = Path(sys.executable).with_name("ray")
        head = subprocess.Popen([ray, *started, "--block"], stdout=log, stderr=log, start_new_session=True)
    yield f"127.0.0.1:{port}"
    os.killpg(head.pid, signal.SIGTERM)
    head.wait()
    shutil.rmtree(folder, ignore_errors=True)


def test_one_rank_of_a_cluster_trains_on_error_turns_of_rollouts_alone(tmp_path, cluster):
    _, steps = train(tmp_path, config_of(sdpo=0.5, source="rollouts"), ray_address=cluster)
    assert "Connecting to existing Ray cluster" in (tmp_path / "verl" / "verl.log").read_text()
    assert [step.step for step in steps] == [1, 2, 3]
    for entry in entries(tmp_path):
        assert entry["composer/sdpo_sites"] == 4
        assert entry["actor/composer_sdpo"] > 0


def test_two_ranks_go_on_after_a_killed_rollout_worker_and_the_divergence_falls(tmp_path):
    config = config_of(sdpo=2.0, trdpo=0.5, checkpoint_every=1)
    killer = threading.Thread(target=kill_server_after_a_step, args=(tmp_path / "verl",), daemon=True)
    killer.start()
    with pytest.raises(RecomposeError, match="rollout") as told:
        train(tmp_path, config, ranks=2)
    killer.join()
    print("told", told.value)
    saved = train_verl.steps_done(tmp_path / "verl")
    assert 1 <= saved < STEPS
    assert f"goes on from step {saved}" in str(told.value)
    _, steps = train(tmp_path, config, ranks=2)
    assert [step.step for step in steps] == [1, 2, 3]
    assert all(entry["composer/replay_pairs"] == 2 for entry in entries(tmp_path))
    divergences = [entry["composer/sdpo_divergence"] for entry in entries(tmp_path)]
    assert divergences[-1] < 0.8 * divergences[0]


def kill_server_after_a_step(own: Path) -> None:
    log = own / "verl.log"
    metrics = own / "metrics-0.jsonl"
    while not (
        metrics.exists()
        and metrics.stat().st_size
        and (found := re.search(r"composer_cpu_aid_0 pid (\d+)", log.read_text()))
    ):
        time.sleep(0.2)
    os.kill(int(found[1]), signal.SIGKILL)


def test_a_plugin_that_did_not_load_is_named(monkeypatch):
    from verl.trainer.ppo.v1 import trainer_base

    train_verl.refuse_missing_plugin()
    monkeypatch.delitem(trainer_base.TRAINER_REGISTRY, "composer_sync")
    with pytest.raises(RecomposeError, match="composer_sync not registered"):
        train_verl.refuse_missing_plugin()


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("actor_rollout_ref.actor.ppo_minibatch=3", "actor_rollout_ref.actor.ppo_minibatch"),
        ("+trainer.steps=3", r"\+trainer\.steps"),
    ],
)
def test_an_override_that_verl_does_not_know_is_named_before_ray_starts(tmp_path, override, named):
    with pytest.raises(UsageError, match=named):
        train(tmp_path, config_of(), override=(override,))
    assert not (tmp_path / "verl" / "verl.log").exists()


def test_without_a_gpu_nothing_starts(tmp_path, monkeypatch):
    monkeypatch.delenv("VERL_PLATFORM")
    with pytest.raises(UsageError, match="need a GPU"):
        train(tmp_path, config_of())
