"""`recompose replay --policy` and `recompose pair --signal` on toolbox traces, with a tiny model that knows nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from composer_replication.config import Config, GateConfig, ReplayConfig, TrainingConfig, WarmupConfig
from composer_replication.replay.gate import StateSamples
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from tests.command_line import recompose
from tests.unit.test_replay import failed_trace

CONFIG = Config(
    warmup=WarmupConfig(steps=1, batch_size=2),
    replay=ReplayConfig(gate=GateConfig(samples=6, audit_rate=0.5)),
    training=TrainingConfig(max_turn_tokens=32),
)


def told(*arguments: object) -> dict:
    done = recompose(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Six traces of three turns, two of them errors."""
    path, traces = tmp_path_factory.mktemp("policy") / "run", [failed_trace(index) for index in range(6)]
    started = Run.start(path, CONFIG)
    started.stage("ingestion").finish(traces, {"traces": 6, "redactions": {}}, [], time.monotonic())
    sites = [site for trace in traces for site in find_sites(trace)]
    started.stage("sites").finish(sites, {"sites": len(sites)}, [started.stage("ingestion")], time.monotonic())
    return path


@pytest.fixture(scope="module")
def planned(run) -> dict:
    """A dry run: it samples the policy and asks nobody."""
    return told("replay", run, "--policy", "policy", "--dry-run")


@pytest.fixture(scope="module")
def replayed(run, planned) -> dict:
    return told("replay", run, "--policy", "tiny")


def test_a_dry_run_draws_the_samples_and_asks_nobody(run, planned):
    counts = Run.open(run).stage("samples").counts
    assert (counts["states"], counts["too_long"]) == (18, 0)
    assert counts["samples"] + counts["cut_off"] == 18 * 6
    assert planned["calls"] >= 36 and (planned["own_family"], planned["too_long"]) == (0, 0)


def test_samples_are_drawn_once_and_stored_with_the_run(run, planned, replayed):
    samples = Run.open(run).stage("samples")
    assert all(len(row.messages) <= 6 for row in samples.read(StateSamples))
    assert replayed["calls"] == planned["calls"]
    assert set(replayed["buckets"]) >= {"error", "audit"}
    assert Run.open(run).stage("replay").require()["inputs"]["samples"] == samples.sha256


def test_a_resumed_replay_does_not_sample_again(run, replayed, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "replay")
    before = (copy / "samples" / "manifest.json").read_bytes()
    shutil.rmtree(copy / "policy" / "model")
    again = told("replay", copy, "--policy", "policy")
    assert (copy / "samples" / "manifest.json").read_bytes() == before
    assert (again["buckets"], again["replies"]) == (replayed["buckets"], replayed["replies"])


def test_sampling_in_another_process_gives_the_same_bytes(run, replayed, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "replay")
    shutil.rmtree(copy / "samples")
    words = ["replay", str(copy), "--policy", str(run / "policy" / "model"), "--dry-run"]
    subprocess.run([sys.executable, "-m", "composer_replication", *words], check=True, timeout=300)
    assert Run.open(copy).stage("samples").sha256 == Run.open(run).stage("samples").sha256


def test_another_policy_is_refused(run, replayed, tmp_path):
    copy, other = tmp_path / "run", tmp_path / "model"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "replay")
    shutil.copytree(run / "policy" / "model", other)
    with (other / "model.safetensors").open("ab") as weights:
        weights.write(b" ")
    refused = recompose("replay", copy, "--policy", other)
    assert refused.returncode == 2
    assert "samples" in refused.stderr.splitlines()[-1] and "another policy" in refused.stderr.splitlines()[-1]
    missing = recompose("replay", copy, "--policy", "./nowhere")
    assert missing.returncode == 2


def test_a_finished_replay_takes_no_samples_any_more(run, replayed, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "samples")
    refused = recompose("replay", copy, "--policy", "policy")
    assert refused.returncode == 2
    assert "without samples" in refused.stderr.splitlines()[-1]


def test_pairs_tell_their_funnel_and_their_signal(run, replayed):
    report = told("pair", run, "--signal", "policy")
    assert report["funnel"]["replies"] == replayed["replies"]
    assert sum(row["states"] for row in report["gate"].values()) == replayed["states"]
    signal = report["signal"]
    assert set(signal) == {"reference", "margin", "distance", "meets_threshold", "left_out", "threshold"}
    assert set(signal["distance"]) == {"mean", "lo", "hi", "n", "traces"}
    assert signal["margin"]["n"] == report["pairs"] - signal["left_out"] > 0
    assert signal["distance"]["lo"] <= signal["distance"]["mean"] <= signal["distance"]["hi"]
    assert signal["meets_threshold"] is False and report["pairs_per_trace"] < 5
    again = recompose("pair", run)
    assert again.returncode == 0
    assert again.stdout.splitlines()[0] == f"pairs of {run} (simulated teachers)"
    assert " → " in again.stdout and "distance" not in again.stdout
