"""Muon and AdamW as one optimiser: which takes what, the same steps as theirs, and checkpoints."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from composer_replication.errors import UsageError
from composer_replication.training.models.muon import hidden_matrices, muon_with_adamw, rows_of, spread

SIZES = {
    "vocab_size": 24, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
MUON, ADAMW = {"lr": 0.02, "weight_decay": 0.1}, {"lr": 0.01, "betas": (0.9, 0.98)}


def new_model(tied=False, kind=LlamaForCausalLM, settings=LlamaConfig):
    torch.manual_seed(1)
    return kind(settings(**SIZES, tie_word_embeddings=tied))


def step(model, optimizers, seed):
    ids = torch.randint(0, 24, (2, 7), generator=torch.Generator().manual_seed(seed))
    model(input_ids=ids, labels=ids).loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("tied", [False, True])
def test_muon_takes_the_matrices_of_hidden_layers_and_nothing_else(tied):
    model = new_model(tied, Qwen2ForCausalLM, Qwen2Config)
    taken = {id(matrix) for matrix in hidden_matrices(model)}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in taken}
    layers = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
              "mlp.up_proj", "mlp.down_proj")  # fmt: skip
    assert names == {f"model.layers.{layer}.{name}.weight" for layer in range(2) for name in layers}
    kinds = {group["kind"]: len(group["params"]) for group in muon_with_adamw(model, MUON, ADAMW).param_groups}
    assert kinds == {"muon": len(names), "adamw": len(list(model.parameters())) - len(names)}


def test_of_adapters_muon_takes_both_factors_and_adamw_nothing():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear")
    model = peft.get_peft_model(new_model(), lora)
    optimizer = muon_with_adamw(model, MUON, ADAMW)
    [group] = optimizer.param_groups
    assert group["kind"] == "muon"
    assert {id(each) for each in group["params"]} == {id(each) for each in model.parameters() if each.requires_grad}
    step(model, [optimizer], seed=0)


def test_it_steps_as_the_two_of_pytorch_do():
    ours, theirs = new_model(), new_model()
    matrices = hidden_matrices(theirs)
    rest = [each for each in theirs.parameters() if not any(each is matrix for matrix in matrices)]
    apart = [torch.optim.Muon(matrices, **MUON), torch.optim.AdamW(rest, **ADAMW)]
    together = [muon_with_adamw(ours, MUON, ADAMW)]
    for seed in range(3):
        step(ours, together, seed)
        step(theirs, apart, seed)
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
    assert not all(map(torch.equal, ours.parameters(), new_model().parameters()))


def test_a_loaded_state_goes_on_to_the_same_bits():
    model = new_model()
    optimizer = muon_with_adamw(model, MUON, ADAMW)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + number))
    for seed in range(2):
        step(model, [optimizer], seed)
        schedule.step()
    again, kept = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    resumed = muon_with_adamw(again, {"lr": 1.0}, {"lr": 1.0})
    resumed.load_state_dict(kept)
    for seed in range(2, 4):
        step(model, [optimizer], seed)
        step(again, [resumed], seed)
    assert all(map(torch.equal, model.parameters(), again.parameters()))


@pytest.fixture
def one_of_three():
    """This process as the first of three that are not there."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=3)
    yield torch.distributed.init_device_mesh("cpu", (3,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 9])
def test_rows_are_counted_as_pytorch_shards_them(one_of_three, rows):
    local, _ = compute_local_shape_and_global_offset((rows, 5), one_of_three, [Shard(0)])
    assert rows_of(rows, 3)[0] == local[0]
    assert sum(rows_of(rows, 3)) == rows
    chunks = [len(chunk) for chunk in torch.zeros(rows, 5).chunk(3)]
    assert [count for count in rows_of(rows, 3) if count] == chunks


def test_weights_that_are_shared_by_columns_are_refused(one_of_three):
    matrix = distribute_tensor(torch.zeros(4, 6), one_of_three, [Shard(1)])
    with pytest.raises(UsageError, match="shared by rows"):
        list(spread([matrix], [matrix.to_local()], lambda whole: whole))
