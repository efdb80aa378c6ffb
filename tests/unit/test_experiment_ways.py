"""What arms of experiments 012 and 013 add to a step: own accepted turns, and teachers that are asked again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

from composer_replication.objective import TrdpoSettings
from composer_replication.training.channels import ReplayPreference
from composer_replication.training.stored.collator import ComposerDataCollator
from composer_replication.training.stored.examples import PairTokens

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module", autouse=True)
def _path():
    own = [str(EXPERIMENTS / name) for name in ("012-competitors", "013-triples")]
    sys.path[:0] = own
    yield
    for path in own:
        sys.path.remove(path)


@pytest.fixture
def asked(new_policy, examples):
    """The loss of a policy, seed 2, that asks teachers of these seeds at the states of the stored pairs."""
    kind = importlib.import_module("replayed_prefix").ReplayedPrefix

    def loss(*seeds):
        policy = new_policy()
        channel = kind(policy, [new_policy(seed).model.requires_grad_(False) for seed in seeds], 8, seed=0)
        batch = ComposerDataCollator(policy.tokenizer.pad_token_id)(examples)
        return policy, channel, channel.loss(policy.model, batch)

    return loss


def test_teachers_that_think_as_the_policy_does_teach_nothing(asked):
    _, channel, loss = asked(2, 2, 2)
    assert loss.item() == pytest.approx(0, abs=1e-5)
    assert channel.metrics["states"] > 0


def test_a_step_brings_the_policy_nearer_to_its_teachers(asked, new_policy, examples):
    policy, channel, loss = asked(5, 6, 7)
    assert loss.item() > 0.1
    loss.backward()
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter -= 0.01 * parameter.grad
    channel._generator.manual_seed(5)
    again = channel.loss(policy.model, ComposerDataCollator(policy.tokenizer.pad_token_id)(examples))
    assert again < loss


def test_nothing_is_asked_where_no_pair_is(asked):
    policy, channel, _ = asked(5)
    nothing = channel.loss(policy.model, ComposerDataCollator(policy.tokenizer.pad_token_id)([]))
    assert nothing.item() == 0 and not nothing.requires_grad


def test_accepted_turns_count_alike_however_a_step_is_cut(new_policy):
    fresh_turns = importlib.import_module("own_turns").FreshTurns
    policy = new_policy()
    imitation = ReplayPreference(TrdpoSettings(weight=1.0, sft_only=True, nll_weight=1.0))
    pairs = [PairTokens([5, 6, 7], [8, 9, 10 + number], [8, 8]) for number in range(5)]

    def step(micro_steps):
        fresh = fresh_turns(ComposerDataCollator(policy.tokenizer.pad_token_id), micro_steps)
        fresh.fill(pairs, sites=20)
        return sum(imitation.loss(policy.model, next(fresh)) / micro_steps for _ in range(micro_steps)).item()

    whole = step(1)
    assert whole > 0 and step(4) == pytest.approx(whole, rel=1e-4)
    assert step(8) == pytest.approx(whole, rel=1e-4), "also where some micro-steps have no turn"
