"""Metrics in wandb and trackio, both on this machine alone. Skipped where the extra is not installed."""

from __future__ import annotations

import importlib.util
import json
import sqlite3

import pytest

from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.progress import Silent
from composer_replication.training.train import train

from .test_offline import CONFIG


def needs(package: str):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def train_reporting_to(where: str, policy, examples, run) -> None:
    short = CONFIG.training.model_copy(update={"report_to": where, "steps": 2, "checkpoint_every": 0})
    config = CONFIG.model_copy(update={"training": short})
    train(policy, config, open_toolbox(config), examples, run / "training", Silent())


@needs("wandb")
def test_wandb_gets_every_step_under_the_name_of_the_run(new_policy, examples, tmp_path, monkeypatch):
    import wandb

    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    train_reporting_to("wandb", new_policy(), examples, tmp_path / "my-run")
    assert (wandb.run.project, wandb.run.name) == ("composer-replication", "my-run")
    wandb.teardown()  # waits until the file is whole
    [kept] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert kept.read_bytes().count(b"train/channel/sdpo") >= 2, "one for each step"


@needs("trackio")
def test_trackio_gets_every_step_under_the_name_of_the_run(new_policy, examples, tmp_path, monkeypatch):
    from trackio import sqlite_storage, utils

    for module in (sqlite_storage, utils):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio", raising=False)
    train_reporting_to("trackio", new_policy(), examples, tmp_path / "my-run")
    [kept] = (tmp_path / "trackio").glob("composer-replication*.db")
    with sqlite3.connect(kept) as database:
        rows = database.execute("select run_name, step, metrics from metrics order by step").fetchall()
    assert {name for name, _, _ in rows} == {"my-run"}
    logged = [json.loads(metrics) for _, _, metrics in rows]
    assert sum("train/channel/sdpo" in metrics for metrics in logged) == 2
