"""Muon on shared weights steps as it does on whole ones."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from . import bare
from .comparison import ERROR, alone, assert_ranks_agree, assert_same_training, relative
from .launch import Seen
from .matrix import MUON

ROUNDED = 1e-4
"""Muon rounds each matrix to bfloat16 first. Where two gradients that are 1e-8 apart lie on both sides of a border
between two such numbers, the weights end about 2e-5 apart, whether they are shared or whole."""


@cache
def one_process() -> Seen:
    return Seen(bare.run("muon"), [])


@pytest.mark.parametrize("kind", ["2bare", "4bare"])
def test_shared_by_two_also_in_two_replicas_muon_gives_the_weights_of_one_process(seen_by_kind, kind):
    seen = seen_by_kind[kind]["muon"]
    for other in seen[1:]:
        assert all(torch.equal(tensor, other.tensors[key]) for key, tensor in seen[0].tensors.items())
    assert relative(seen[0].flat("weight/"), one_process().flat("weight/")) < ERROR


@pytest.mark.parametrize("kind", ["2bare", "4bare"])
def test_a_checkpoint_of_shards_goes_on_to_the_same_bits(seen_by_kind, kind):
    for straight, resumed in zip(seen_by_kind[kind]["muon"], seen_by_kind[kind]["resumed_muon"], strict=True):
        assert all(torch.equal(tensor, resumed.tensors[key]) for key, tensor in straight.tensors.items())


def test_in_a_whole_training_shards_make_no_difference(seen_by_kind):
    """Two processes in both, so that the gradients are the same: each has all weights, or half of them."""
    whole, shared = (seen_by_kind[kind][MUON][0].flat("weight/") for kind in ("2ddp", "2fsdp2"))
    assert relative(shared, whole) < ERROR


def test_pytorchs_own_is_not_the_same_on_shards(seen_by_kind):
    """If this fails, PyTorch has learnt it: `SpreadMuon` may be needless."""
    assert relative(seen_by_kind["2bare"]["stock_muon"][0].flat("weight/"), one_process().flat("weight/")) > 1e-4


@pytest.mark.parametrize("kind", ["2ddp", "2fsdp2", "4hsdp"])
def test_a_training_with_every_channel_takes_muon(seen_by_kind, kind):
    seen = seen_by_kind[kind][MUON]
    assert_ranks_agree(*seen)
    assert_same_training(seen[0], alone(MUON), weight_error=ROUNDED)
    assert relative(seen[0].flat("weight/"), alone("both").flat("weight/")) > 1e-2
