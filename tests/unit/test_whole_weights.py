"""Adapters merged into a copy to sample from: the merged model's turns, the policy untouched, no copy in vain."""

from __future__ import annotations

import copy
import weakref
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import HardwareConfig, SamplingConfig
from composer_replication.training import processes
from composer_replication.training.models import whole
from composer_replication.training.models.states import language_model
from composer_replication.training.models.whole import can_be_merged, save_adapters, whole_tensors
from composer_replication.training.rollouts.static_sampling import StaticSampler, can_be_copied
from composer_replication.training.rollouts.weight_folder import WeightFolder

peft = pytest.importorskip("peft", reason="peft is not installed")
TOKENS = SimpleNamespace(end_of_turn_id=2, tokenizer=SimpleNamespace(pad_token_id=0))


@pytest.fixture
def adapted(make_model):
    torch.manual_seed(0)
    model = peft.get_peft_model(make_model(64), HardwareConfig(lora_rank=4).lora_config()).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def assert_same(found, expected):
    """Where memory is aligned in another way, sums differ in their last bits."""
    assert [turn.ids for turn in found] == [turn.ids for turn in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def turns(model, **options):
    sampler = StaticSampler(model, TOKENS, 2, 64, graphs=False, **options)
    return sampler, sampler.sample([0, 1], [[5, 6, 7], [8, 9]], max_new_tokens=12, temperature=0.0)


def test_the_copy_samples_as_the_merged_model_and_the_policy_stays_as_it_is(adapted):
    before = {name: tensor.clone() for name, tensor in adapted.state_dict().items()}
    sampler, found = turns(adapted)
    merged = copy.deepcopy(adapted).merge_and_unload()
    assert_same(found, turns(merged)[1])
    assert found[0].ids != turns(copy.deepcopy(adapted).unload())[1][0].ids
    assert all(torch.equal(before[name], tensor) for name, tensor in adapted.state_dict().items())
    assert not any("lora" in name for name, _ in sampler._model.named_parameters())


def test_merged_weights_are_those_of_peft_by_the_names_of_the_bare_model(adapted):
    whole = {name: tensor.clone() for name, tensor in whole_tensors(adapted)}
    expected = copy.deepcopy(adapted).merge_and_unload().state_dict()
    assert whole.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(whole[name], tensor)


def test_refreshing_takes_what_the_adapters_have_learnt_since(adapted):
    sampler, before = turns(adapted)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data *= -3
    sampler.refresh(adapted)
    after = sampler.sample([0, 1], [[5, 6, 7], [8, 9]], max_new_tokens=12, temperature=0.0)
    assert_same(after, turns(copy.deepcopy(adapted).merge_and_unload())[1])
    assert after[0].ids != before[0].ids


def test_adapters_of_another_kind_are_not_copied(make_model):
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules="all-linear", use_dora=True)
    dora = peft.get_peft_model(make_model(64), lora)
    assert not can_be_merged(dora) and not can_be_copied(dora)


def test_weights_that_will_not_change_are_sampled_without_a_copy(make_model):
    model = make_model(64)
    sampler, shared = turns(model, is_fixed=True)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in sampler._model.parameters()} == own
    assert model.config._attn_implementation != sampler._model.config._attn_implementation
    _, copied = turns(model)
    assert_same(shared, copied)


def test_saved_adapters_come_back_over_the_bare_model(adapted, make_model, tmp_path):
    save_adapters(adapted, "some-model", tmp_path / "adapters")
    bare = copy.deepcopy(adapted).unload()
    again = peft.PeftModel.from_pretrained(bare, tmp_path / "adapters").eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.equal(again(ids).logits, adapted(ids).logits)
    assert again.peft_config["default"].base_model_name_or_path == "some-model"
    assert language_model(again) is not language_model(adapted)


@pytest.mark.parametrize("is_main", [True, False])
def test_the_main_process_alone_keeps_the_gathered_weights_that_it_sends(make_model, tmp_path, monkeypatch, is_main):
    gathered, most = [], []

    def gather(tensor):
        whole_one = tensor.detach().clone()
        gathered.append(weakref.ref(whole_one.untyped_storage()))
        most.append(sum(one() is not None for one in gathered))
        return whole_one

    sent = []
    monkeypatch.setattr(whole, "gathered", gather)
    monkeypatch.setattr(processes, "is_main", lambda: is_main)
    monkeypatch.setattr(WeightFolder, "publish", lambda folder, write, version: sent.append(version))
    WeightFolder(SamplingConfig(server="http://localhost:1"), tmp_path).send(make_model(64), 3)
    assert sent == ([3] if is_main else [])
    assert max(most) == len(gathered) if is_main else max(most) <= 2
