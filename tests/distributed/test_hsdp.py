"""Two replicas of two processes that share the weights, as accelerate's parallelism config has it, do what one does."""

from __future__ import annotations

from .comparison import alone, assert_ranks_agree, assert_same_training


def test_four_processes_train_as_one_where_half_of_them_have_no_sites_and_pairs(seen_by_kind):
    seen = seen_by_kind["4hsdp"]["both"]
    assert_ranks_agree(*seen)
    assert_same_training(seen[0], alone("both"))
