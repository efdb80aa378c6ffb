"""The cap on a channel's gradient: what it measures does not depend on how a step is cut into micro-steps."""

from __future__ import annotations

import pytest
import torch
from trl import GRPOTrainer

from tests.distributed import scenes
from tests.distributed.scenes import Scene, build, run

PROMPTS, ALPHA, LIMIT = 8, 30.0, 0.5
WITH_ERRORS = {2, 5, 7}
"""Of the prompts; one of the two rollouts of each, so about one rollout in six."""
MEASURED = ("gradient/policy", "gradient/sdpo", "gradient/sdpo_factor", "gradient/cosine_policy_sdpo")
SUMMED = ("channel/policy", "channel/sdpo")


@pytest.fixture(autouse=True)
def errors_are_rare(monkeypatch):
    turns_of = scenes._turns

    def turns(task, sample, has_errors):
        place = scenes.tasks(PROMPTS * 2).index(task) % PROMPTS
        return turns_of(task, sample, sample == 1 and place in WITH_ERRORS)

    monkeypatch.setattr(scenes, "PROMPTS_PER_STEP", PROMPTS)
    monkeypatch.setattr(scenes, "_turns", turns)


def scene(accumulation, **changes):
    common = {"alpha": ALPHA, "online": True, "accumulation": accumulation, "steps": 2}
    return Scene(**{**common, "cap": LIMIT, **changes})


def test_what_is_measured_is_that_of_the_whole_step(tmp_path):
    logs = {number: run(build(scene(number), str(tmp_path / str(number))))[1] for number in (1, 8, 16)}
    for number, own in logs.items():
        for entry, whole in zip(own, logs[1], strict=True):
            for name in (*MEASURED, *SUMMED):
                assert entry[name] == pytest.approx(whole[name], rel=2e-3), (name, number)
            assert 0 < entry["gradient/sdpo_factor"] < 0.5


@pytest.mark.parametrize("accumulation", [1, 8])
def test_a_channel_waits_for_its_first_measurement_and_is_held_to_the_last(tmp_path, accumulation):
    trainer = build(scene(accumulation), str(tmp_path / "ours"))
    weights, compute = [], trainer._compute_loss

    def compute_and_watch(model, inputs):
        weights.append((trainer.state.global_step, trainer._balance.weight("sdpo")))
        return compute(model, inputs)

    trainer._compute_loss = compute_and_watch
    ours, logs = run(trainer)
    plain, _ = run(build(scene(accumulation, trainer=GRPOTrainer), str(tmp_path / "plain")))
    first = {name for name in plain if name.startswith("grad/")}
    assert all(torch.equal(ours[name], plain[name]) for name in first)
    assert not all(torch.equal(ours[name], plain[name]) for name in plain.keys() - first)
    factor = logs[0]["gradient/sdpo_factor"]
    assert weights == [(0, 0.0)] * accumulation + [(1, pytest.approx(ALPHA * factor))] * accumulation
    assert factor * logs[0]["gradient/sdpo"] == pytest.approx(LIMIT * logs[0]["gradient/policy"], rel=1e-4)


def test_what_a_channel_was_held_to_goes_on_after_a_checkpoint(tmp_path):
    trainer = build(scene(8), str(tmp_path))
    trainer.train()
    state = trainer._balance.state()
    again = build(scene(8), str(tmp_path / "again"))
    again._balance.load(state)
    assert again._balance.factors == trainer._balance.factors != {}
