"""A training that was interrupted goes on to the same weights, to the last bit."""

from __future__ import annotations

import json
import os
import random
import signal

import pytest
import torch

from composer_replication.config import Config
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.progress import Silent
from composer_replication.training.backends.trl import checkpoints
from composer_replication.training.train import train
from tests.notes import Lines, Notes


def config_of(**training):
    settings = {
        "steps": 6, "prompts_per_step": 2, "group_size": 2, "max_turn_tokens": 6, "traces_per_step": 2,
        "learning_rate": 1e-2, "checkpoint_every": 2, "sdpo_require_disfavour": False, **training,
    }  # fmt: skip
    return Config.model_validate({"seed": 5, "training": settings})


class Interrupted(Exception):
    pass


class StopsAt(Silent):
    def __init__(self, step) -> None:
        self._step = step

    def step(self, done, total, text="") -> None:
        if done == self._step:
            raise Interrupted


@pytest.mark.parametrize(
    "training",
    [
        {"sdpo_from": "rollouts", "sdpo_teacher": "ema", "sdpo_ema_rate": 0.3, "sdpo_require_acceptance": True},
        {"sdpo_from": "rollouts", "sdpo_teacher": "frozen", "dynamic_sampling_rounds": 1},
        {"sdpo_from": "stored", "channel_warmup_share": 0.5, "channel_decay_share": 0.5, "optimizer": "muon"},
    ],
    ids=["averaged teacher", "frozen teacher, dynamic sampling", "stored traces, Muon"],
)
def test_going_on_gives_the_same_weights_and_steps(new_policy, examples, tmp_path, training):
    config = config_of(**training)
    straight = new_policy()
    steps = train(straight, config, open_toolbox(config), examples, tmp_path / "straight", Silent())
    with pytest.raises(Interrupted):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", StopsAt(3))
    random.seed(99)
    torch.manual_seed(99)
    resumed = new_policy()
    steps_again = train(resumed, config, open_toolbox(config), examples, tmp_path / "stopped", Silent())
    assert all(map(torch.equal, straight.model.parameters(), resumed.model.parameters()))
    assert [step.step for step in steps_again] == [1, 2, 3, 4, 5, 6]
    assert steps_again == steps


class Interrupts(Notes):
    def step(self, done, total, detail=""):
        if done == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("every", "told"),
    [
        (1, "3 steps finished, 3 kept"),
        (2, "3 steps finished, 2 kept"),
        (0, "3 steps finished, 0 kept. training.checkpoint_every = 1 keeps each"),
    ],
)
def test_an_interrupted_training_says_which_steps_are_kept(new_policy, examples, tmp_path, every, told):
    config, said = config_of(checkpoint_every=every), Interrupts()
    with pytest.raises(KeyboardInterrupt):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path, said)
    assert said.said[-1] == told


class Told(Lines):
    def __init__(self, scratch):
        super().__init__()
        self.scratch, self.held = scratch, {}

    def step(self, done, total, detail=""):
        if "reward" in detail or "loss" in detail:
            self.held[done] = checkpoints.steps_held(self.scratch)


def test_a_step_is_told_when_its_checkpoint_is_whole(new_policy, examples, tmp_path):
    config, said = config_of(steps=3, sdpo_from="stored"), Told(tmp_path / "scratch")
    train(new_policy(), config, open_toolbox(config), examples, tmp_path, said)
    assert said.held == {1: 0, 2: 2, 3: 3}


def test_an_interrupt_waits_until_a_checkpoint_is_whole(new_policy, examples, tmp_path, monkeypatch):
    """It comes when the checkpoint before is gone and the last file of this one is not there."""
    config, saved = config_of(checkpoint_every=1, sdpo_from="stored"), checkpoints.save

    def interrupted(folder, *rest):
        if folder.name == "checkpoint-2":
            os.kill(os.getpid(), signal.SIGINT)
        saved(folder, *rest)

    monkeypatch.setattr(checkpoints, "save", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(new_policy(), config, open_toolbox(config), examples, tmp_path, Silent())
    finally:
        signal.signal(signal.SIGINT, before)
    assert checkpoints.steps_held(tmp_path / "scratch") == 2


def test_a_checkpoint_holds_no_pickle_of_ours(new_policy, examples, tmp_path):
    train(
        new_policy(),
        config_of(steps=2, sdpo_from="rollouts"),
        open_toolbox(config_of(steps=2, sdpo_from="rollouts")),
        examples,
        tmp_path,
        Silent(),
    )
    folder = checkpoints.latest(tmp_path / "scratch")
    assert folder.name == "checkpoint-2"
    assert json.loads((folder / "composer-0.json").read_text())["batches"] == {"next": 2}
    assert (folder / "composer-0.safetensors").exists()


def test_a_half_written_checkpoint_is_not_the_latest(tmp_path):
    assert checkpoints.latest(tmp_path) is None
    for step in (2, 10, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
    for step in (2, 10):
        (tmp_path / f"checkpoint-{step}" / "composer-0.safetensors").write_bytes(b"")
    assert checkpoints.latest(tmp_path).name == "checkpoint-10"


class Counter:
    def __init__(self) -> None:
        self.value = {"n": 1, "t": torch.tensor([1.5])}

    def state(self):
        return self.value

    def load(self, state) -> None:
        self.value = state


def test_shared_parts_are_written_once_and_read_by_all(tmp_path):
    shared = frozenset({"teacher"})
    for rank in range(2):
        checkpoints.save(tmp_path, {"teacher": Counter(), "own": Counter()}, rank, shared)
    assert "teacher" not in json.loads((tmp_path / "composer-1.json").read_text())
    teacher, own = Counter(), Counter()
    teacher.value = own.value = None
    checkpoints.load(tmp_path, {"teacher": teacher, "own": own}, 1, shared)
    assert teacher.value["n"] == 1
    assert own.value["t"].tolist() == [1.5]


def test_another_number_of_processes_or_other_parts_are_refused(tmp_path):
    checkpoints.save(tmp_path, {"own": Counter()}, 0, frozenset())
    with pytest.raises(UsageError, match="composer-1"):
        checkpoints.load(tmp_path, {"own": Counter()}, 1, frozenset())
    with pytest.raises(UsageError, match="has no teacher"):
        checkpoints.load(tmp_path, {"teacher": Counter()}, 0, frozenset())
