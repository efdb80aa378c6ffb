"""Two processes that share the weights under FSDP2, as accelerate shards them, do what one does."""

from __future__ import annotations

import pytest

from .comparison import alone, assert_ranks_agree, assert_same_training
from .matrix import EVEN, UNEVEN


@pytest.fixture
def seen(seen_by_kind):
    return seen_by_kind["2fsdp2"]


@pytest.mark.parametrize("name", EVEN)
def test_two_processes_train_as_one(seen, name):
    assert_ranks_agree(*seen[name])
    assert_same_training(seen[name][0], alone(name))


# A stored channel cannot be measured in shards, so its cap does nothing.
WITHOUT_CAP = {"stored_measured": "stored_one_rank"}


@pytest.mark.parametrize("name", UNEVEN)
def test_also_when_one_process_alone_has_stored_sites_and_pairs(seen, name):
    assert_ranks_agree(*seen[name])
    single = alone(WITHOUT_CAP.get(name, name))
    assert_same_training(seen[name][0], single)


def test_the_cap_holds_on_the_gradient_at_the_hidden_states(seen):
    first, second = seen["online_capped"]
    assert_ranks_agree(first, second)
    for entry in first.logs:
        capped = entry["gradient/sdpo"] * entry["gradient/sdpo_factor"]
        assert capped == pytest.approx(0.5 * entry["gradient/policy"], rel=1e-3) and capped > 0
