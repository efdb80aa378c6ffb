"""A training tells that its first step begins, and how far it is within a long one."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from transformers import TrainerControl

from composer_replication.cli import progress
from composer_replication.config import Config, TrainingConfig
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run
from composer_replication.training import running
from composer_replication.training.running import ProgressCallback, telling_of
from tests.notes import Lines


def test_a_step_of_several_parts_tells_each():
    said, args = Lines(), SimpleNamespace(gradient_accumulation_steps=3)
    state = SimpleNamespace(global_step=4, is_world_process_zero=True)
    callback = ProgressCallback(TrainingConfig(steps=8), said)
    callback.on_train_begin(args, state, None)
    for _ in range(2):
        callback.on_substep_end(args, state, None)
        callback.on_substep_end(args, state, None)
        state.global_step += 1
        callback.on_step_end(args, state, None)
    assert said.said[0].startswith("step 5 of 8 begins")
    assert said.said[1:] == [
        "4/8 ", "4/8 step 5, part 1 of 3", "4/8 step 5, part 2 of 3",
        "5/8 step 6, part 1 of 3", "5/8 step 6, part 2 of 3",
    ]  # fmt: skip


def test_the_first_step_tells_the_time_that_is_left_also_of_a_run_that_goes_on(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    lines = progress.PlainLines()
    lines.stage("training", "take steps")
    state = SimpleNamespace(global_step=4, is_world_process_zero=True)
    callback = ProgressCallback(TrainingConfig(steps=8), lines)
    clock[0] = 500.0
    callback.on_train_begin(None, state, None)
    clock[0], state.global_step = 620.0, 5
    callback.on_log(None, state, TrainerControl(), {"grad_norm": 1.0, "reward": 0.25, "loss": 0.0})
    assert capsys.readouterr().err.splitlines()[-1].endswith("training: 5/8 reward 0.25, 0:06:00 left")


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ((1.0, 1.0), ", each rollout had a turn cut off at max_turn_tokens, 96, no answer could be parsed"),
        ((0.75, 1.0), ", no answer could be parsed"),
        ((0.75, 0.5), ""),
    ],
)
def test_a_step_tells_that_all_its_rollouts_were_cut_off_or_none_could_be_parsed(rates, told):
    said, state = Lines(), SimpleNamespace(global_step=1)
    logs = dict(zip(("rollout/truncation_rate", "rollout/unparsable_share"), rates, strict=True))
    callback = ProgressCallback(TrainingConfig(steps=3, max_turn_tokens=96), said)
    callback.on_log(None, state, TrainerControl(), {"grad_norm": 1.0, "reward": 0.0, "loss": 0.0, **logs})
    assert said.said == [f"1/3 reward 0.00{told}"]


def test_a_word_about_a_step_does_not_silence_the_line_of_its_loss(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    lines = progress.PlainLines()
    lines.stage("training", "take steps")
    for at, done, what in ((60, 0, "step 1, learning"), (62, 1, "loss 0.5"), (63, 1, "step 2, learning")):
        clock[0] = at
        lines.step(done, 4, what)
    assert [line.partition("training: ")[2] for line in capsys.readouterr().err.splitlines()[1:]] == [
        "0/4 step 1, learning", "1/4 loss 0.5, 0:00:06 left",
    ]  # fmt: skip


def test_a_step_that_says_nothing_for_long_tells_its_phase_until_it_fails(monkeypatch):
    monkeypatch.setattr(running, "SECONDS_OF_SILENCE", 0.01)
    said, phases = Lines(), iter(["sampling turn 1 of 3 of 8 rollouts", "learning"])
    telling = telling_of(said, 3, lambda: 1, lambda: next(phases, "learning"))
    with pytest.raises(KeyboardInterrupt), telling:
        while len(said.said) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    told = len(said.said)
    assert said.said[-1] == "1 step finished, 0 kept: this backend makes no checkpoints"
    assert said.said[:2] == ["1/3 step 2, sampling turn 1 of 3 of 8 rollouts", "1/3 step 2, learning"]
    time.sleep(0.05)
    assert len(said.said) == told


def test_a_training_counts_the_steps_in_which_channel_1_had_nothing_to_learn(tmp_path):
    """A policy that knows nothing gets no reward in any rollout."""
    training = {"steps": 2, "prompts_per_step": 1, "group_size": 2, "max_turn_tokens": 4}
    channels = [{"name": "grpo"}, {"name": "sdpo", "source": "rollouts"}]
    config = Config.model_validate({"warmup": {"steps": 0}, "training": training, "channels": channels})
    run, said = Run.start(tmp_path / "run", config), Lines()
    run_stage(run, "training", said)
    assert said.said[-1] == "In 2 of 2 steps no group had an advantage: channel 1 taught nothing there."
    counts = run.stage("training").counts
    assert counts["untaught"] == {"steps without an advantage": 2}
    assert counts["hinted_sites"] == 0 and counts["rollout_sites"] == 4, "one of each rollout"
