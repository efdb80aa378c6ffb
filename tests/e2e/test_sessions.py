"""`recompose evaluate RUN --on sessions`: held out of training, then measured before and after, stopped, gone on."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from composer_replication.cli.evaluate import evaluate
from composer_replication.cli.fork import fork
from composer_replication.cli.main import main
from composer_replication.cli.progress import PlainLines
from composer_replication.cli.train import train as train_verb
from composer_replication.config import Config, EvaluationConfig, ToolboxConfig, TrainingConfig, WarmupConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.errors import UsageError
from composer_replication.evaluation import compare
from composer_replication.evaluation.sessions import TurnMeasure, changes
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import ErrorSite, Trace
from composer_replication.runs import Run
from composer_replication.stages import evaluation as evaluation_stage
from composer_replication.stages import session_turns
from composer_replication.stages import sessions as sessions_stage
from composer_replication.stages.held_out import held_out_of
from composer_replication.store import kept_shards
from composer_replication.training import running
from composer_replication.training.models import states
from composer_replication.training.rollouts import sampling, state_samples
from tests.notes import Lines, Notes

SESSIONS = 12
KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
from tests.e2e.test_sessions import evaluate, watch
watch(pytest.MonkeyPatch(), int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
evaluate(Path(sys.argv[1]), on="sessions")
"""


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


def watch(patch, at=None, stop=None):
    """Of each time that a policy reads or writes a turn; the one at number `at` is stopped."""
    asked = []

    def watched(real):
        def ask(*given):
            asked.append(real)
            if len(asked) == at:
                stop()
            return real(*given)

        return ask

    for module, name in ((states, "turn_logprob"), (state_samples, "sample_greedily")):
        patch.setattr(module, name, watched(getattr(module, name)))
    return asked


def measured(path, noun="sessions"):
    """Whatever does not tell of time."""
    manifest = json.loads((path / noun / "manifest.json").read_text())
    return {**manifest, "seconds": None}, *(file.read_bytes() for file in sorted((path / noun).glob("*jsonl*")))


def interrupt():
    raise KeyboardInterrupt


def stopped(trained, path, at):
    """A copy of the run whose measurement meets Ctrl-C."""
    shutil.copytree(trained.path, path, ignore=shutil.ignore_patterns("sessions"))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watch(patch, at, interrupt)
        evaluate(path, on="sessions")
    assert not (path / "sessions" / "manifest.json").exists()
    return path


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    """A measurement in one go, and how often it asked a policy."""
    path = shutil.copytree(
        trained.path, tmp_path_factory.mktemp("whole") / "run", ignore=shutil.ignore_patterns("sessions")
    )
    with pytest.MonkeyPatch.context() as patch:
        asked = watch(patch)
        evaluate(path, on="sessions")
    return path, len(asked)


def test_training_leaves_the_held_out_sessions_alone(trained):
    counts = trained.stage("training").counts
    assert 2 <= counts["held_out_sessions"] <= SESSIONS - 2
    assert counts["stored_traces"] == sum(counts["sources"].values()) == SESSIONS - counts["held_out_sessions"]
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
        if row["difference"]["lo"] is None:
            assert row["difference"]["mean"] == 0 and row["verdict"] == "all alike", "five sessions are enough"
        else:
            assert row["difference"]["lo"] <= row["difference"]["mean"] <= row["difference"]["hi"]
        assert row["difference"]["mean"] == pytest.approx(row["after"]["mean"] - row["before"]["mean"])
    found = trained.stage("sessions").read(TurnMeasure)
    assert all((one.reason is None) == (one.value == 0) for one in found if one.measure == "rewritten")
    evaluate(trained.path, on="sessions")
    shown = capsys.readouterr().out
    known = held_out_of(trained)
    turns = sum(len(one.turns) for one in trained.stage("ingestion").read(Trace) if one.trace_id in known and one.tools)
    assert told["tools_not_shown"] == turns > 0, "the template of tiny writes no tools"
    assert f"{held_out} sessions held out; each row counts" in shown and "Not measured: preferred" in shown
    last = " ".join(shown.split("Conclusion: ")[1].split())
    assert last.startswith(f"{told['conclusion']} on sessions that training did not see (good turns ")
    assert last.endswith(f"every turn lies in {trained.path / 'sessions.html'}. next: {told['next']}")
    page = (trained.path / "sessions.html").read_text()
    assert all(f"recompose show {trained.path} {one.trace_id}:{one.turn}" in page for one in found)
    assert told["conclusion"] in page


def test_a_run_of_sessions_alone_says_first_that_tasks_are_not_its_sessions(tmp_path, capsys):
    path = run_of(tmp_path / "run", 0.5)
    told = "learns from sessions alone, and this measures tasks of toolbox instead; next: recompose evaluate"
    with pytest.raises(UsageError, match="training"):
        evaluate(path)
    assert told in capsys.readouterr().err
    evaluate(path, probe_hints=True, sites=2)
    assert told in capsys.readouterr().err.partition("make the starting policy")[0]


def test_a_run_that_trained_on_everything_is_refused(tmp_path):
    run = train(run_of(tmp_path / "run", 0.0))
    with pytest.raises(UsageError, match="none is held out"):
        evaluate(run.path, on="sessions")


def test_a_measurement_that_was_stopped_and_killed_goes_on(trained, whole, tmp_path, monkeypatch, capsys):
    path, total = stopped(trained, tmp_path / "run", 4), whole[1]
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED, path, str(total // 2)], cwd=root, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert "sessions: goes on, as 1 of " in killed.stderr.decode()
    kept = len(kept_shards(path / "sessions"))
    evaluate(path, on="sessions", dry_run=True, json=True)
    foreseen = json.loads(capsys.readouterr().out)
    turns, passes = foreseen["turns"], 2 * foreseen["turns"]
    assert foreseen["passes_kept"] == kept > 1
    loaded, load = [], sessions_stage.load_own
    monkeypatch.setattr(sessions_stage, "load_own", lambda run, noun: loaded.append(noun) or load(run, noun))
    asked = watch(monkeypatch)
    steps = []
    monkeypatch.setattr(PlainLines, "step", lambda lines, done, total, *more: steps.append((done, total)))
    evaluate(path, on="sessions")
    assert turns == Run.open(path).stage("sessions").counts["turns"]
    assert f"sessions: goes on, as {kept} of {passes} passes are measured already" in capsys.readouterr().err
    assert steps[0] == (kept + 1, passes) and steps[-1] == (passes, passes)
    # Twice a turn was stopped, and a correction asks twice.
    assert total <= 3 + (total // 2 - 1) + len(asked) <= total + 2
    assert sorted(loaded) == ["policy", "training"], "both are held, and loaded once"
    assert measured(path) == measured(whole[0])
    assert not (path / "sessions" / "unfinished").exists()


def test_what_is_read_is_told_before_anything_is_written(trained, whole, tmp_path, monkeypatch):
    run = Run.open(shutil.copytree(whole[0], tmp_path / "run", ignore=shutil.ignore_patterns("sessions")))
    said = Lines()
    real, rows_first = state_samples.sample_greedily, []

    def sample(*given):
        rows_first.append([line for line in said.said if line.startswith("so far: ")])
        return real(*given)

    monkeypatch.setattr(state_samples, "sample_greedily", sample)
    sessions_stage.measure(run, said)
    good, corrected = rows_first[0]
    final = {row.measure: row.sentence for row in changes(run.stage("sessions").read(TurnMeasure))[0]}
    assert (good, corrected) == (f"so far: {final['good turns']}", f"so far: {final['corrections']}")
    assert len(rows_first) == 2 * final_turns(run, "rewritten")
    assert run.stage("sessions").read(TurnMeasure) == Run.open(whole[0]).stage("sessions").read(TurnMeasure)


def final_turns(run, measure):
    return len({(one.trace_id, one.turn) for one in run.stage("sessions").read(TurnMeasure) if one.measure == measure})


def test_an_interrupt_tells_the_rows_and_how_many_passes_are_kept(trained, whole, tmp_path, monkeypatch, capsys):
    path = shutil.copytree(trained.path, tmp_path / "run", ignore=shutil.ignore_patterns("sessions"))
    passes = len(Run.open(whole[0]).stage("sessions").read(TurnMeasure))
    watch(monkeypatch, whole[1], interrupt)
    monkeypatch.setattr(sys, "argv", ["recompose", "evaluate", str(path), "--on", "sessions"])
    # Run here, they would shut down the sandboxes of all later tests.
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: None)
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 130
    assert f"error: interrupted, {passes - 1} of {passes} passes are kept; next: run the same command again" in told
    # Of the last kind all turns but one were measured under both.
    assert f"so far: rewritten {1.0:.3f} before" in told
    assert f"({final_turns(Run.open(whole[0]), 'rewritten') - 1} turns" in told.split("so far: rewritten")[1]


def test_a_turn_that_takes_long_tells_its_tokens(trained, tmp_path, monkeypatch):
    run = Run.open(shutil.copytree(trained.path, tmp_path / "run", ignore=shutil.ignore_patterns("sessions")))
    said, choose = Lines(), sampling.choose_tokens

    def slowly(*given):
        deadline = time.monotonic() + 5
        while not any(" tokens" in line for line in said.said) and time.monotonic() < deadline:
            time.sleep(0.01)
        return choose(*given)

    monkeypatch.setattr(running, "SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr(sampling, "choose_tokens", slowly)
    watch(monkeypatch, None)
    sessions_stage.measure(run, said)
    found = run.stage("sessions").read(TurnMeasure)
    written, read = final_turns(run, "rewritten"), sum(one.measure != "rewritten" for one in found)
    first = next(line for line in said.said if " tokens" in line)
    assert re.fullmatch(rf"{read}/{len(found)} writing turn 1 of {written}, before training: \d+ of 32 tokens", first)
    assert said.said[-1] == f"{len(found)}/{len(found)} "


def test_the_time_is_told_before_training_and_before_measuring(trained, whole, tmp_path, capsys):
    path, held_out = run_of(tmp_path / "run", 0.5), trained.stage("training").counts["held_out_sessions"]
    for noun in ("sites", "hints"):
        run_stage(Run.open(path), noun, Silent())
    train_verb(path, dry_run=True, json=True)
    before = json.loads(capsys.readouterr().out)["sessions_time"]
    assert (before["turns"], before["written"]) == (3 * held_out, held_out)
    assert before["writing_s"] > before["reading_s"] > 0
    unmeasured = shutil.copytree(trained.path, tmp_path / "unmeasured", ignore=shutil.ignore_patterns("sessions"))
    evaluate(unmeasured, on="sessions", dry_run=True, json=True)
    found = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in before} == before and before["too_few"] is None
    evaluate(unmeasured, on="sessions", dry_run=True)
    told = capsys.readouterr().out
    assert f"until {2 * held_out} turns are read" in told and f"until {held_out} are written." in told
    evaluate(whole[0], on="sessions", dry_run=True)
    told = capsys.readouterr().out
    assert "at most 0 s until" in told
    assert f"{6 * held_out} of {6 * held_out} passes are kept, and not counted in this." in told
    with pytest.raises(UsageError, match="--dry-run is for --on sessions"):
        evaluate(whole[0], dry_run=True)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_fork_that_measures_fewer_turns_measures_none_again(trained, whole, tmp_path, monkeypatch, capsys, is_whole):
    path = whole[0] if is_whole else stopped(trained, tmp_path / "run", whole[1])
    passes = len(Run.open(whole[0]).stage("sessions").read(TurnMeasure)) - (not is_whole)
    fork(path, tmp_path / "fewer", changes=("evaluation.tasks=3",))
    assert f"kept       {passes} passes over turns of sessions\n" in capsys.readouterr().out
    fork(path, tmp_path / "other", changes=("evaluation.samples=3",))
    assert f"dropped    {passes} passes over turns of sessions, which are measured again" in capsys.readouterr().out
    asked = watch(monkeypatch)
    evaluate(tmp_path / "fewer", on="sessions")
    assert not asked
    found = Run.open(tmp_path / "fewer").stage("sessions").read(TurnMeasure)
    assert len(found) == 2 * 3 * 3 and set(found) < set(Run.open(whole[0]).stage("sessions").read(TurnMeasure))


def test_what_was_measured_otherwise_is_not_found(trained, whole, tmp_path, monkeypatch):
    path = stopped(trained, tmp_path / "run", whole[1] // 4)
    asked = watch(monkeypatch, 1, interrupt)
    kept = len(kept_shards(path / "sessions"))
    assert kept % 2 == 0, "before and after"
    for change, found in (("nothing", kept), ("model", kept // 2), ("setting", 0), ("turns", 0)):
        run = Run.open(shutil.copytree(path, tmp_path / change))
        if change == "model":
            shutil.copytree(run.path / "training" / "model", run.path / "policy" / "model", dirs_exist_ok=True)
        if change == "nothing":
            (run.path / "policy" / "model" / "README.md").write_text("another card")
        if change == "setting":
            run.config = run.config.model_copy(update={"seed": run.config.seed + 1})
        if change == "turns":
            sites = run.stage("sites").read(ErrorSite)
            run.stage("sites").finish(sites[:-1], run.stage("sites").counts, [run.stage("ingestion")], time.monotonic())
        notes = Notes()
        asked.clear()
        with pytest.raises(KeyboardInterrupt):
            sessions_stage.measure(run, notes)
        *gone_on, plan = [line for line in notes.said if not line.startswith("so far")]
        assert [line.split(" of ")[0] for line in gone_on] == [f"sessions: goes on, as {found}"] * (found > 0), change
        assert " turns, each before and after training (" in plan


def test_two_large_models_are_in_memory_one_after_the_other(trained, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(session_turns, "BOTH_FIT_BYTES", 0)
    run = Run.open(shutil.copytree(trained.path, tmp_path / "run", ignore=shutil.ignore_patterns("sessions")))
    loaded, load, notes = [], sessions_stage.load_own, Notes()
    monkeypatch.setattr(sessions_stage, "load_own", lambda run, noun: loaded.append(noun) or load(run, noun))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watch(patch, 10, interrupt)
        sessions_stage.measure(run, notes)
    read = 2 * trained.stage("training").counts["held_out_sessions"]
    assert notes.said[-1] == (
        "so far no row: one needs turns of one kind of 2 sessions under both models, and the second model begins at "
        f"pass {read + 1} of {3 * read}"
    )
    sessions_stage.measure(run, notes)
    assert loaded == ["policy", "policy", "training", "policy"], "the first comes again to write"
    found, together = (set(each.stage("sessions").read(TurnMeasure)) for each in (run, Run.open(whole[0])))
    assert found == together


def test_what_is_too_few_is_foretold_before_training_and_before_measuring(tmp_path, capsys):
    path = run_of(tmp_path / "run", 0.3, 10)
    for noun in ("sites", "hints"):
        run_stage(Run.open(path), noun, Silent())
    train_verb(path, dry_run=True)
    told = capsys.readouterr().out
    train(path)
    evaluate(path, on="sessions", dry_run=True)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("This will be too few"))
    assert line in told
    evaluate(path, on="sessions")
    ended = capsys.readouterr()
    assert line in ended.err and "Conclusion: too few to tell" in ended.out
    assert ended.out.splitlines()[-1] == f"next: {line.split(': ')[-1]}"


def test_a_measurement_on_tasks_goes_on_after_its_last_whole_part(trained, tmp_path, monkeypatch):
    fewer = trained.config.model_copy(update={"evaluation": EvaluationConfig(tasks=2, samples=2)})
    played, play = [], compare.evaluate_policy

    def playing(*given):
        played.append(given[3:5])
        if len(played) == stop_at:
            raise KeyboardInterrupt
        return play(*given)

    monkeypatch.setattr(compare, "evaluate_policy", playing)
    stop_at, found = None, {}
    for name in ("whole", "stopped"):
        run = Run.open(shutil.copytree(trained.path, tmp_path / name))
        run.config = fewer
        if name == "stopped":
            whole, stop_at = list(played), len(played) + len(played) // 2 + 2
            with pytest.raises(KeyboardInterrupt):
                evaluation_stage.evaluate(run, Silent())
            stop_at = None
            played.clear()
        notes = Notes()
        evaluation_stage.evaluate(run, notes)
        found[name] = measured(run.path, "evaluation")
    assert played == whole[len(whole) // 2 + 1 :], "one part after training was whole"
    assert f"evaluation: goes on, as {len(whole) // 2 + 1} of {len(whole)} parts are measured already" in notes.said
    assert found["stopped"] == found["whole"]
