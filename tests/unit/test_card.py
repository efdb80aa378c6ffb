"""The model card says what the run really was: its records are read, not its plan."""

from __future__ import annotations

import json
import time

import pytest

from composer_replication.config import Config, ReplayConfig, TrainingConfig
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.evaluation.model_card import model_card
from composer_replication.evaluation.report import render_report
from composer_replication.evaluation.sessions import TurnMeasure
from composer_replication.evaluation.summary import report_data, summarise
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.origin import made_with
from composer_replication.runs import Run
from composer_replication.training.backends import BACKENDS, lost_by
from composer_replication.training.stored.records import StartingPolicy, TrainingStep, steps_without_advantage

from .test_degenerate import reply
from .test_replay import failed_trace

MACHINE = {"device": "CPU, 2 threads", "system": "Linux x86_64, Python 3.11.7", "torch": "2.13.0", "trl": "1.16.0"}
COUNTS = {"backend": "trl", "stored_traces": 3, "sources": {"codex": 3}, "hinted_sites": 4, "pairs": 0, "steps": 2}


def step(number: int, **changes) -> TrainingStep:
    usual = {"reward": 0.5, "policy": 0.1, "grad_norm": 1.0, "entropy": 1.0, "flat_groups": 0.5}
    return TrainingStep(step=number, **(usual | changes))


@pytest.fixture
def run_of(tmp_path):
    """A run that was trained like this, whatever its config says."""

    def make(config: Config | None = None, steps=None, **counts) -> Run:
        run = Run.start(tmp_path / "run", config or Config())
        start = StartingPolicy(name="tiny", warmup_steps=7, parameters=1234, weights_sha256="f" * 64)
        run.stage("policy").finish([start], start.model_dump(), [], time.monotonic())
        run.stage("training").finish(steps or [step(1), step(2)], {**COUNTS, **counts}, [], time.monotonic())
        return run

    return make


def test_start_steps_data_and_machine_are_those_of_the_run(run_of):
    card = model_card(run_of(Config(seed=3), machine=MACHINE, held_out_sessions=2))
    assert "`tiny`, 1,234 parameters, after 7 steps of warm-up (weights sha256 `ffffffffffffffff…`)" in card
    assert "Trained for 2 of 28 planned steps with GRPO in the toolbox environment, seed 3." in card
    assert "3 stored traces (3 of codex) with 4 hinted turns and 0 pairs; 2 sessions were held out" in card
    assert "Made on CPU, 2 threads" in card and "torch 2.13.0, trl 1.16.0" in card
    assert "The same seed gives other numbers on another kind of machine" in card
    assert "Nothing yet: `recompose evaluate RUN`" in card


def test_a_channel_that_never_had_a_loss_is_not_named(run_of):
    config = Config(channels=(GrpoSettings(), SdpoSettings(source="rollouts")))
    assert "with GRPO in" in model_card(run_of(config))


def test_a_channel_that_had_one_is(run_of):
    config = Config(channels=(GrpoSettings(), SdpoSettings()))
    learnt = (step(1, channels={"sdpo": 0.0}, flat_groups=1.0, policy=0.0), step(2, channels={"sdpo": 0.2}, policy=0.0))
    card = model_card(run_of(config, learnt))
    assert "with GRPO + 0.1 · SDPO in" in card
    assert "In 1 of 2 steps no group had an advantage: channel 1 taught nothing there." in card


def test_flat_groups_taught_nothing(run_of):
    flat = [step(n, channels={"sdpo": 0.2}, flat_groups=1.0, policy=0.0) for n in (1, 2)]
    card = model_card(run_of(Config(), flat))
    assert "with GRPO + 0.1 · SDPO in" in card
    assert "In 2 of 2 steps no group had an advantage: channel 1 taught nothing there." in card


@pytest.mark.parametrize(
    ("grpo", "reward", "number"),
    [
        (GrpoSettings(), 1.0, 2),
        (GrpoSettings(weight=0.0), 1.0, 0),
        (GrpoSettings(advantage="accepted"), 1.0, 0),
        (GrpoSettings(advantage="accepted"), 0.0, 2),
    ],
)
def test_steps_without_an_advantage_are_counted_where_channel_1_could_learn(grpo, reward, number):
    flat = [step(n, flat_groups=1.0, reward=reward) for n in (1, 2)]
    assert steps_without_advantage([*flat, step(3), step(4, flat_groups=None, reward=None)], grpo) == number


def test_without_rollouts_no_environment_is_named(run_of):
    offline = Config(training=TrainingConfig(rollouts=False))
    card = model_card(run_of(offline, [step(1, reward=None)]))
    assert "on stored traces alone" in card and "toolbox" not in card and "environment" not in card


def test_the_environment_is_the_one_that_was_played(run_of):
    assert "in the code environment, seed" in model_card(run_of(environment="code"))


@pytest.mark.parametrize("simulated", [True, False])
def test_teachers_are_those_that_answered(run_of, simulated):
    """The config says simulated ones in both cases: real ones can be named on the command line."""
    run = run_of(Config(replay=ReplayConfig(simulated=True)))
    assert "Teachers: none answered." in model_card(run)
    said = [reply(failed_trace(n), "acme/one", "ls").model_copy(update={"simulated": simulated}) for n in range(3)]
    silent = reply(failed_trace(0), "acme/two", "ls").model_copy(update={"outcome": "failed"})
    run.stage("replay").finish([*said, silent], {"replies": 4}, [], time.monotonic())
    card = model_card(run)
    assert "`acme/one` 3 answers" in card and "acme/two" not in card
    assert ("simulated teachers" in card) == simulated


def test_what_was_measured_stands_there_with_its_environment(run_of):
    run = run_of(hinted_sites=0, machine=MACHINE, degenerate=[{"sentence": "all alike"}])
    outcomes = [
        TaskOutcome(task_id=str(n), split="heldout", phase=phase, reward=float(n < solved), turns=1, errors=())
        for phase, solved in (("before", 2), ("after", 6))
        for n in range(8)
    ]
    counts = {"environment": "code", "labels": {"heldout": "Held-out tasks"}}
    run.stage("evaluation").finish(outcomes, counts, [], time.monotonic())
    measures = [
        TurnMeasure(measure="good turns", trace_id=str(n), turn=0, phase=phase, value=value)
        for phase, value in (("before", -2.0), ("after", -1.5))
        for n in range(3)
    ]
    run.stage("sessions").finish(measures, {"sessions": 3}, [], time.monotonic())
    data = report_data(run)
    assert data.environment == "code" and "Measured in the environment code" in data.notes[0]
    assert "Trained anyway on degenerate data: all alike." in data.notes
    assert any(note.startswith("Seed 0 on CPU, 2 threads, torch 2.13.0. The same seed") for note in data.notes)
    assert not any("simulated" in note for note in data.notes), "the config says so, and nobody was asked"
    card = model_card(run)
    assert "Held-out success in the code environment" in card
    assert "| Held-out tasks | 0.250 | 0.750 | +0.500 [" in card
    assert "On turns of 3 held-out sessions, n of them in a row (too few to tell)" in card
    assert "| good turns | -2.000 | -1.500 | too few to tell | 3 |" in card


def measure_three_tasks(run: Run) -> None:
    outcomes = [
        TaskOutcome(task_id=str(n), split="heldout", phase=phase, reward=reward, turns=1, errors=())
        for phase, reward in (("before", 0.0), ("after", 1.0))
        for n in range(3)
    ]
    run.stage("evaluation").finish(outcomes, {"labels": {"heldout": "Held-out tasks"}}, [], time.monotonic())


def test_steps_without_an_advantage_are_counted_in_the_report_and_its_json(run_of):
    run = run_of(steps=[step(1, flat_groups=1.0), step(2)])
    measure_three_tasks(run)
    assert summarise(run)["steps_without_advantage"] == 1
    assert "In 1 of 2 steps no group had an advantage: channel 1 taught nothing there." in report_data(run).notes


def test_too_few_tasks_have_no_interval_in_the_json_the_card_and_the_page(run_of):
    run = run_of()
    measure_three_tasks(run)
    told = summarise(run)
    assert told["difference"] == {"mean": 1.0, "lo": None, "hi": None, "n": 3}
    assert (told["success_before"]["lo"], told["success_after"]["hi"]) == (None, None)
    assert "| Held-out tasks | 0.000 | 1.000 | too few to tell | 3 |" in model_card(run)
    page = render_report(report_data(run))
    assert page.count('<span class="soft of">too few to tell</span>') == 3
    assert 'class="line' not in page, "nothing is drawn that looks like an interval"


@pytest.mark.parametrize("name", BACKENDS)
def test_what_an_engine_cannot_do_stands_in_the_card(run_of, name):
    card = model_card(run_of(backend=name))
    assert all(f"- {sentence}" in card for sentence in lost_by(name))
    assert ("cannot do" in card) == bool(lost_by(name))


def test_a_replica_of_diloco_says_its_limits(run_of):
    card = model_card(run_of(diloco={"replica": 0, "lost": 1}))
    assert "What `--diloco` cannot do" in card and "never averaged" in card


def test_the_manifest_says_with_what_the_run_began(run_of):
    run = run_of()
    origin = json.loads((run.path / "manifest.json").read_text())
    assert origin.items() >= made_with().items()
    assert {"torch", "trl", "transformers"} <= origin["libraries"].keys()
    assert origin["python"].startswith("3.") and origin["cpus"] >= 1
    assert len(origin["commit"].removesuffix("-dirty")) == 40
    assert f"commit `{origin['commit']}`" in model_card(run_with_machine(run))


def run_with_machine(run: Run) -> Run:
    run.stage("training").finish([step(1)], {**COUNTS, "machine": MACHINE}, [], time.monotonic())
    return run
