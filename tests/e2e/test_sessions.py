"""`recompose evaluate RUN --on sessions`: held out of training, then measured before and after."""

from __future__ import annotations

import json
import time

import pytest

from composer_replication.cli.evaluate import evaluate
from composer_replication.config import Config, EvaluationConfig, ToolboxConfig, TrainingConfig, WarmupConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.errors import UsageError
from composer_replication.evaluation.sessions import TurnMeasure
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run

SESSIONS = 12


def config(share: float) -> Config:
    return Config(
        warmup=WarmupConfig(steps=1, batch_size=2),
        training=TrainingConfig(
            rollouts=False, steps=2, max_turn_tokens=32, traces_per_step=2, gradient_ratio_cap=None
        ),
        evaluation=EvaluationConfig(held_out_sessions=share),
        channels=(GrpoSettings(weight=0.0), SdpoSettings(weight=1.0)),
    )


def session(index: int):
    """The right call without what it needs, and then as it should be."""
    episode = ToolboxEpisode(make_task(ToolboxConfig(), "train", index))
    right = next_call(episode)
    for arguments in ({}, right.arguments):
        episode.step(Call(right.name, arguments).render())
    return trace_of(episode, "someone", index)


def run_of(path, share: float, sessions: int = SESSIONS):
    run = Run.start(path, config(share))
    traces = [session(index) for index in range(sessions)]
    run.stage("ingestion").finish(traces, {"traces": sessions, "redactions": {}}, [], time.monotonic())
    return path


def train(path) -> Run:
    run = Run.open(path)
    for noun in ("sites", "hints", "training"):
        run_stage(run, noun, Silent())
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(run_of(tmp_path_factory.mktemp("sessions") / "run", 0.5))


def test_training_leaves_the_held_out_sessions_alone(trained):
    counts = trained.stage("training").counts
    assert 2 <= counts["held_out_sessions"] <= SESSIONS - 2
    errors_per_session = trained.stage("sites").counts["sites"] / SESSIONS
    assert counts["hinted_sites"] == (SESSIONS - counts["held_out_sessions"]) * errors_per_session


def test_both_policies_are_measured_on_the_same_turns(trained, capsys):
    evaluate(trained.path, on="sessions", json=True)
    told = json.loads(capsys.readouterr().out)
    rows = {row["measure"]: row for row in told["changes"]}
    assert rows.keys() == {"good turns", "corrections", "rewritten"}
    assert set(told["missing"]) == {"preferred"}
    held_out = trained.stage("training").counts["held_out_sessions"]
    assert told["sessions"] == rows["good turns"]["difference"]["n"] == held_out
    assert rows["good turns"]["difference"]["mean"] != 0
    for row in rows.values():
        assert row["difference"]["lo"] <= row["difference"]["mean"] <= row["difference"]["hi"]
        assert row["difference"]["mean"] == pytest.approx(row["after"]["mean"] - row["before"]["mean"])
    found = trained.stage("sessions").read(TurnMeasure)
    assert all((one.reason is None) == (one.value == 0) for one in found if one.measure == "rewritten")
    evaluate(trained.path, on="sessions")
    shown = capsys.readouterr().out
    assert f"{held_out} sessions that training did not see" in shown and "Not measured: preferred" in shown
    last = " ".join(shown.split("Conclusion: ")[1].split())
    assert last.startswith(f"{told['conclusion']} on sessions that training did not see (good turns ")
    assert last.endswith(f"every turn lies in {trained.path / 'sessions'}.")


def test_a_run_of_sessions_alone_says_first_that_tasks_are_not_its_sessions(tmp_path, capsys):
    path = run_of(tmp_path / "run", 0.5)
    for options in ({}, {"probe_hints": True}):
        with pytest.raises(UsageError, match=r"training|no starting policy"):
            evaluate(path, **options)
        told = capsys.readouterr().err
        assert "measures tasks of toolbox instead" in told and "--on sessions" in told


def test_a_run_that_trained_on_everything_is_refused(tmp_path):
    run = train(run_of(tmp_path / "run", 0.0))
    with pytest.raises(UsageError, match="none is held out"):
        evaluate(run.path, on="sessions")
