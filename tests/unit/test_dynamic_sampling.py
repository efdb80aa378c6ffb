"""Groups that teach nothing are replaced; rows stay whole, and what is padded stays padded."""

from __future__ import annotations

import pytest
import torch
from trl import GRPOTrainer

from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.backends.trl.dynamic_sampling import PromptStream, flat_groups, replace_rows
from composer_replication.training.lessons.online_sites import TraceHinter
from tests.unit.test_online import every_site, trainer_of


def test_flat_groups_are_those_with_one_reward():
    assert flat_groups([0.0, 0.0, 1.0, 0.0, 0.1, 0.1], 2) == [0, 2]
    assert flat_groups([1.0, 1.0, 1.0, 0.0], 4) == []


def test_streams_of_two_processes_are_disjoint_and_can_go_on():
    rows = [{"prompt": number} for number in range(7)]
    first, second = (PromptStream(rows, 3, rank, 2) for rank in range(2))
    drawn = [row["prompt"] for stream in (first, second) for row in stream.draw(3)]
    assert len(set(drawn)) == 6
    again = PromptStream(rows, 3, 0, 2)
    again.load(first.state())
    assert again.draw(4) == first.draw(4)
    assert PromptStream(rows, 3).draw(7) != rows
    assert PromptStream(rows, 4).draw(7) != PromptStream(rows, 3).draw(7)


def test_rows_are_replaced_with_the_padding_of_their_side():
    batch = {
        "prompt_ids": torch.tensor([[9, 1], [2, 3]]), "prompt_mask": torch.tensor([[0, 1], [1, 1]]),
        "completion_ids": torch.tensor([[4, 5], [6, 9]]), "tool_mask": torch.tensor([[1, 0], [1, 1]]),
        "advantages": torch.tensor([0.0, 0.0]), "num_items_in_batch": torch.tensor(3.0), "sites": ["a", "b"],
    }  # fmt: skip
    fresh = {
        "prompt_ids": torch.tensor([[7, 7, 7]]), "prompt_mask": torch.tensor([[1, 1, 1]]),
        "completion_ids": torch.tensor([[8, 8, 8]]), "tool_mask": torch.tensor([[0, 0, 1]]),
        "advantages": torch.tensor([2.0]), "num_items_in_batch": torch.tensor(1.0), "sites": ["c"],
    }  # fmt: skip
    merged = replace_rows(batch, fresh, [1], [0], pad_id=9)
    assert merged["prompt_ids"].tolist() == [[9, 9, 1], [7, 7, 7]]
    assert merged["prompt_mask"].tolist() == [[0, 0, 1], [1, 1, 1]]
    assert merged["completion_ids"].tolist() == [[4, 5, 9], [8, 8, 8]]
    assert merged["tool_mask"].tolist() == [[1, 0, 1], [0, 0, 1]]
    assert merged["advantages"].tolist() == [0.0, 2.0]
    assert merged["sites"] == ["a", "c"]
    assert batch["sites"] == ["a", "b"]


class OftenFlat:
    """A reward that is the same for a whole group in the first call, and different in later ones."""

    __name__ = "often_flat"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, completion_ids, **columns):
        self.calls += 1
        if self.calls == 1:
            return [1.0] * (len(completion_ids) - 2) + [0.0, 1.0]
        return [float(number % 2) for number in range(len(completion_ids))]


@pytest.mark.parametrize("with_sites", [False, True])
def test_flat_groups_are_filled_from_other_prompts(new_policy, tmp_path, with_sites):
    seen = []
    trainer = trainer_of(
        ComposerReplicationTrainer, new_policy(), tmp_path, dynamic_sampling_rounds=2,
        **every_site(0.1 * with_sites), hinter=TraceHinter() if with_sites else None,
    )  # fmt: skip
    trainer.reward_funcs = [OftenFlat()]
    compute = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: (seen.append(inputs), compute(model, inputs))[1]
    trainer.train()
    (inputs,) = seen
    assert trainer.reward_funcs[0].calls == 2
    assert (inputs["advantages"] != 0).all()
    assert inputs["num_items_in_batch"] == (inputs["completion_mask"] * inputs["tool_mask"]).sum()
    (entry,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert entry["dynamic_sampling/flat_groups_left"] == 0
    if with_sites:
        assert len(inputs["sdpo_sites"]) == len(inputs["prompt_ids"])
        for row, sites in enumerate(inputs["sdpo_sites"]):
            for site in sites:
                assert inputs["completion_ids"][row, site.start : site.end].tolist() == site.turn_ids


def test_a_batch_without_flat_groups_is_left_alone(new_policy, tmp_path):
    parameters = []
    for kind, options in (
        (GRPOTrainer, {}),
        (ComposerReplicationTrainer, {"dynamic_sampling_rounds": 2}),
    ):
        policy = new_policy()
        trainer_of(kind, policy, tmp_path / kind.__name__, steps=3, **options).train()
        parameters.append(list(policy.model.parameters()))
    assert all(map(torch.equal, *parameters))
