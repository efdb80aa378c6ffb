"""Who forgets to choose a model for sessions hears of it, and gets no report about nothing."""

from __future__ import annotations

import json
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
    planned, as_json = recompose("train", run, "--dry-run"), recompose("train", run, "--dry-run", "--json")
    ended = recompose("train", run)
    assert ended.returncode == 2 and not (run / "training" / "manifest.json").exists()
    assert f"with tiny none of the sites and pairs of {run} can be trained on: " in ended.stderr
    assert f"next: recompose fork {run} NEW --set model.name=MODEL" in ended.stderr
    why = ended.stderr[ended.stderr.index("with tiny none of") :].strip()
    assert planned.stdout.startswith(f"Nothing can be trained on: {why}\n")
    for one in (planned, as_json):
        assert one.returncode == ended.returncode and why in one.stderr
    plan = json.loads(as_json.stdout)
    funnel, own = plan["funnel"], plan["at_max_tokens"]["sites"]
    assert funnel["traces"] > funnel["held_out"] > 0 and funnel["traces"] - funnel["held_out"] >= funnel["with_sites"]
    assert funnel["sites"] == own["n"] >= funnel["hinted"] == own["n"] - own["why_not"].get("no_hint", 0) > 0
    told = " ".join(planned.stdout.split())
    assert f"{funnel['traces']} traces = {funnel['held_out']} held out for `evaluate --on sessions`" in told
    assert f"{funnel['sites']} sites → {funnel['hinted']} hinted → 0 usable at " in told
    assert ("Below 5 held-out sessions that measurement cannot tell" in told) == (funnel["held_out"] < 5)


def test_sessions_without_an_error_are_no_training(tmp_path):
    line = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "say hello"}}
    answer = {"type": "text", "text": "hello"}
    reply = {"type": "assistant", "sessionId": "s", "uuid": "v", "parentUuid": "u"}
    reply["message"] = {"id": "m", "role": "assistant", "model": "m", "content": [answer]}
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (line, reply)))
    run, settings = tmp_path / "run", tmp_path / "sessions.toml"
    settings.write_text(
        'training.rollouts = false\nwarmup = {steps = 1, batch_size = 2}\nchannels = [{name = "sdpo", weight = 1.0}]\n'
    )
    for words in (
        ("ingest", tmp_path / "one.jsonl", "--run", run, "--config", settings),
        ("sites", run),
        ("hint", run),
    ):
        assert recompose(*words).returncode == 0
    told = {recompose("train", run, *options).stderr.splitlines()[-1] for options in ((), ("--dry-run",))}
    assert told == {
        f"error: with tiny none of the sites and pairs of {run} can be trained on: no site has a hint, and there are "
        f"no pairs; next: recompose show {run}"
    }


def test_what_training_will_miss_is_told_when_the_settings_are_fixed(tmp_path):
    read = recompose("ingest", SESSIONS, "--run", tmp_path / "run", "--set", f"model.name={tmp_path / 'nowhere'}")
    assert read.returncode == 0
    assert f"before training: there is no model folder {tmp_path / 'nowhere'}; next: give a folder" in read.stdout


def test_a_model_that_only_a_hub_could_give_is_told_when_the_settings_are_fixed(tmp_path, monkeypatch):
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    run = tmp_path / "run"
    read = recompose("ingest", SESSIONS, "--run", run, "--set", "model.name=nobody/has-this-model")
    assert read.returncode == 0
    told = f"nobody/has-this-model is not on this machine; next: recompose doctor {run} asks the hub"
    assert f"before training: {told}" in read.stdout
