"""Two processes under DDP do what one does: bit-identical to TRL without weights, the same gradient with them."""

from __future__ import annotations

import pytest
import torch

from .comparison import alone, assert_ranks_agree, assert_same_training
from .matrix import EVEN, PARITY, SCENES, UNEVEN


@pytest.fixture
def seen(seen_by_kind):
    return seen_by_kind["2ddp"]


@pytest.mark.parametrize("name", PARITY)
def test_without_weights_training_is_bit_identical_to_trl(seen, name):
    for plain, off in zip(seen[f"plain{name}"], seen[f"off{name}"], strict=True):
        assert len(plain.logs) == len(off.logs) == SCENES[f"off{name}"].steps
        for key in ("loss", "grad_norm", "reward", "entropy"):
            assert [entry.get(key) for entry in off.logs] == [entry.get(key) for entry in plain.logs], key
        assert sum(entry["grad_norm"] for entry in plain.logs) > 0
        assert off.tensors.keys() == plain.tensors.keys()
        assert all(torch.equal(off.tensors[key], plain.tensors[key]) for key in plain.tensors)
    assert_ranks_agree(*seen[f"off{name}"])


@pytest.mark.parametrize("name", EVEN)
def test_two_processes_train_as_one(seen, name):
    assert_ranks_agree(*seen[name])
    assert_same_training(seen[name][0], alone(name))


@pytest.mark.parametrize("name", UNEVEN)
def test_also_when_one_process_alone_has_stored_sites_and_pairs(seen, name):
    assert_ranks_agree(*seen[name])
    assert_same_training(seen[name][0], alone(name))


def test_processes_agree_on_the_cap(seen):
    first, second = seen["online_capped"]
    assert_ranks_agree(first, second)
    for entry in first.logs:
        capped = entry["gradient/sdpo"] * entry["gradient/sdpo_factor"]
        assert capped == pytest.approx(0.5 * entry["gradient/policy"], rel=1e-3)
