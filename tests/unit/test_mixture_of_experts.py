"""A mixture of experts learns through every channel; Muon leaves its experts and routers to AdamW."""

from __future__ import annotations

import pytest
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from composer_replication.training.models.muon import hidden_matrices
from composer_replication.training.models.shape import shape_of
from tests.distributed.scenes import Scene, build, chat_tokens, run


def new_model():
    torch.manual_seed(2)
    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=len(chat_tokens().tokenizer), hidden_size=32, intermediate_size=64, moe_intermediate_size=16,
            num_experts=4, num_experts_per_tok=2, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, max_position_embeddings=1024, initializer_range=0.3, pad_token_id=0, bos_token_id=None,
            eos_token_id=None,
        )
    )  # fmt: skip


def test_experts_and_routers_are_left_to_adamw():
    model = new_model()
    taken = {id(matrix) for matrix in hidden_matrices(model)}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in taken}
    assert names and all(".self_attn." in name for name in names)
    assert shape_of(model.config).hidden_matrices == sum(matrix.numel() for matrix in hidden_matrices(model))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_every_channel_and_the_balance_of_experts_are_learnt(tmp_path, optimizer):
    scene = Scene(alpha=0.7, beta=0.5, online=True, optimizer=optimizer)
    tensors, [logged] = run(build(scene, str(tmp_path), model=new_model()))
    assert logged["aux_loss"] > 0
    assert all(logged[f"channel/{name}"] for name in ("policy", "sdpo", "replay"))
    before = dict(new_model().named_parameters())
    moved = {name for name, start in before.items() if not torch.equal(tensors[f"weight/{name}"], start)}
    assert moved == before.keys()
