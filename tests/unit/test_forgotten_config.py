"""Who forgets to choose a model for sessions hears of it, and gets no report about nothing."""

from __future__ import annotations

from pathlib import Path

from tests.command_line import recompose

SESSIONS = Path(__file__).parents[1] / "samples" / "claude_code_mini"
SMALL = ("warmup.steps=1", "warmup.batch_size=2", "training.steps=1", "training.prompts_per_step=2")


def test_sessions_that_the_model_cannot_read_are_no_training(tmp_path):
    run = tmp_path / "run"
    changes = [word for change in SMALL for word in ("--set", change)]
    read = recompose("ingest", SESSIONS, "--run", run, *changes)
    assert f"model: tiny, which has few words; another: recompose fork {run} NEW --set model.name=MODEL" in read.stdout
    assert read.stdout.endswith(f"next: recompose sites {run}\n")
    for words in (("sites", run), ("hint", run), ("replay", run, "--no-teachers"), ("pair", run)):
        assert recompose(*words).returncode == 0
    ended = recompose("train", run)
    assert ended.returncode == 2 and not (run / "training" / "manifest.json").exists()
    assert f"with tiny none of the sites and pairs of {run} can be trained on: " in ended.stderr
    assert f"next: recompose fork {run} NEW --set model.name=MODEL" in ended.stderr
