"""Batches of examples of like length: nothing lost, little padding, and the order of before where lengths are alike."""

import random
from dataclasses import replace

import pytest
import torch

from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.progress import Silent
from composer_replication.training.models.loading import Policy
from composer_replication.training.stored.batches import LikeLengths, StoredBatches, batches_of_like_length
from composer_replication.training.stored.collator import ComposerDataCollator
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample
from composer_replication.training.train import train
from tests.unit.test_checkpoints import Interrupted, StopsAt
from tests.unit.test_offline import CONFIG


def of_length(tokens):
    return TraceExample([1] * tokens, [1] * tokens, 0.0)


def padding(batches):
    real = sum(example.longest_row for batch in batches for example in batch)
    return 1 - real / sum(len(batch) * max(example.longest_row for example in batch) for batch in batches)


def test_the_longest_row_of_any_channel_counts():
    site, pair = SiteTokens(2, 4, [1] * 9), PairTokens([1] * 5, [1], [1] * 8)
    assert of_length(4).longest_row == 4
    assert replace(of_length(4), sites=[site]).longest_row == 11
    assert replace(of_length(4), sites=[site], pairs=[pair]).longest_row == 13


def test_like_lengths_come_together_and_nothing_is_lost():
    rng = random.Random(1)
    order = [of_length(int(10 * 2 ** rng.uniform(0, 8))) for _ in range(203)]
    grouped = batches_of_like_length(order, 8, random.Random(2))
    assert sorted(map(id, (one for batch in grouped for one in batch))) == sorted(map(id, order))
    assert [len(batch) for batch in grouped] == [8] * 25 + [3]
    plain = [order[start : start + 8] for start in range(0, 203, 8)]
    assert padding(grouped) < 0.15 < 0.4 < padding(plain)
    lengths = [batch[0].longest_row for batch in grouped]
    assert lengths != sorted(lengths)


def test_batches_are_as_before_where_lengths_are_alike():
    order = [of_length(tokens) for tokens in (10, 40, 25, 13, 11)]
    assert batches_of_like_length(order, 2, random.Random(3)) == [order[:2], order[2:4], order[4:]]


def test_a_place_in_grouped_batches_can_be_saved():
    examples = [of_length(tokens) for tokens in (3, 90, 4, 80, 5, 70, 6)]
    collator = ComposerDataCollator(0)
    straight = StoredBatches(examples, collator, 2, seed=1)
    found = [next(straight)["input_ids"].shape for _ in range(9)]
    resumed = StoredBatches(examples, collator, 2, seed=1)
    resumed.load({"next": 5})
    assert [next(resumed)["input_ids"].shape for _ in range(4)] == found[5:]


def test_epochs_have_orders_of_their_own_and_each_can_be_had_again():
    examples = [of_length(3 + 5 * place) for place in range(40)]
    sampler = LikeLengths(examples, 4, seed=1)
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    assert sorted(first) == sorted(second) == list(range(len(sampler)))
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_offline_training_on_grouped_examples_can_go_on(make_model, tiny_tokens, examples, tmp_path):
    long = replace(examples[0], ids=examples[0].ids * 5, response_mask=examples[0].response_mask * 5, pairs=[])
    some = [long, *examples, replace(long, reward=0.5)]

    def policy():
        return Policy("small", make_model(len(tiny_tokens.tokenizer), seed=2), tiny_tokens)

    straight, resumed = policy(), policy()
    steps = train(straight, CONFIG, open_toolbox(CONFIG), some, tmp_path / "straight", Silent())
    with pytest.raises(Interrupted):
        train(policy(), CONFIG, open_toolbox(CONFIG), some, tmp_path / "stopped", StopsAt(3))
    assert train(resumed, CONFIG, open_toolbox(CONFIG), some, tmp_path / "stopped", Silent()) == steps
    assert all(map(torch.equal, straight.model.parameters(), resumed.model.parameters()))
