"""Examples that lie on disk are the examples that were put there."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from composer_replication.training.stored.batches import LikeLengths, row_places
from composer_replication.training.stored.example_file import StoredExamples
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample
from composer_replication.windows import Cut

EXAMPLES = [
    TraceExample([1, 2, 70_000], [0, 1, 1], 0.5, [SiteTokens(1, 3, [9, 9])], trace_id="b", logprobs=[0.0, -1.5, -2.25]),
    TraceExample([4], [1], 1.0, [], [PairTokens([1, 2], [3] * 40, [4, 5], label_smoothing=0.25)], 0.75, trace_id="a"),
    TraceExample([5, 6], [0, 1], 0.0, trace_id="b", cut=Cut(turns=2, tokens=11)),
]


@pytest.fixture
def stored(tmp_path):
    found = StoredExamples.in_folder(tmp_path)
    found.add(EXAMPLES[:2])
    found.add(EXAMPLES[2:])
    return found


def test_they_come_back_by_trace_and_in_their_order(stored):
    assert list(stored) == EXAMPLES
    assert list(stored.by_trace()) == [EXAMPLES[1], EXAMPLES[0], EXAMPLES[2]]
    assert (stored[1], stored[-1], stored[:2], len(stored)) == (EXAMPLES[1], EXAMPLES[2], EXAMPLES[:2], 3)


def test_a_change_is_made_when_one_is_taken(stored):
    doubled = stored.changed(lambda example: replace(example, reward=2 * example.reward))
    assert [example.reward for example in doubled] == [1.0, 2.0, 0.0]
    assert [example.reward for example in stored] == [0.5, 1.0, 0.0]


def test_batches_do_not_depend_on_where_examples_lie(stored):
    assert row_places(stored) == row_places(EXAMPLES)
    assert list(LikeLengths(stored, 2, seed=3)) == list(LikeLengths(EXAMPLES, 2, seed=3))
    assert random.Random(1).sample(row_places(stored), 3) == random.Random(1).sample(row_places(EXAMPLES), 3)
