"""Policies from disk: a GGUF file becomes a trainable folder, a saved policy comes back, a missing one is one line."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
import transformers

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.errors import UsageError
from composer_replication.training import machine, processes
from composer_replication.training.models import loading
from composer_replication.training.models.embedded import folder_of
from composer_replication.training.models.gguf_files import convert_gguf
from composer_replication.training.models.loading import Policy, load_policy, load_saved_policy
from composer_replication.training.models.tokens import ChatTokens

MESSAGES = [{"role": "user", "content": "read app.py"}]


def rope_order(weight, heads):
    """llama.cpp interleaves the two halves of each rotary head; transformers undoes it on reading."""
    size = weight.shape[0] // heads
    return weight.reshape(heads, 2, size // 2, -1).transpose(0, 2, 1, 3).reshape(weight.shape)


def write_gguf(path, model, tokenizer, quantised):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("small")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    add_tokenizer(writer, tokenizer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in model.state_dict().items():
        weight = parameter.numpy()
        if "q_proj" in name:
            weight = rope_order(weight, config.num_attention_heads)
        if "k_proj" in name:
            weight = rope_order(weight, config.num_key_value_heads)
        kind = gguf.GGMLQuantizationType.Q8_0 if quantised and weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quantize(np.ascontiguousarray(weight), kind)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer, tokenizer):
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    special = set(tokenizer.all_special_tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary)
    writer.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in vocabulary])
    writer.add_token_merges(
        [" ".join(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
    )
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)


@pytest.fixture(scope="module", params=["float", "quantised"])
def converted(request, make_model, chatml_tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gguf")
    tokenizer = chatml_tokenizer("<|im_end|>")
    model = make_model(len(tokenizer), layers=1, hidden=64)
    write_gguf(folder / "small.gguf", model, tokenizer, request.param == "quantised")
    convert_gguf(folder / "small.gguf", folder / "new" / "converted")
    return model, tokenizer, folder / "new" / "converted", request.param == "quantised"


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits


def test_a_converted_gguf_keeps_weights_and_tokens(converted):
    model, tokenizer, folder, quantised = converted
    policy = load_saved_policy(folder, "small")
    tokens = ChatTokens(tokenizer)
    ids = tokens.prompt(MESSAGES)
    assert policy.tokens.prompt(MESSAGES) == ids
    assert policy.tokens.end_of_turn_id == tokens.end_of_turn_id
    text = 'naïve ✓ {"name":"read_file"} . '
    assert policy.tokens.turn(text) == tokens.turn(text)
    assert policy.tokens.text(policy.tokens.turn(text)) == text
    got, expected = logits_of(policy.model, ids), logits_of(model, ids)
    assert ((got - expected).norm() / expected.norm()).item() < (0.1 if quantised else 1e-5)


def test_a_converted_gguf_can_be_trained_and_saved(converted, tmp_path):
    policy = load_saved_policy(converted[2], "small")
    assert {parameter.dtype for parameter in policy.model.parameters()} == {torch.float32}
    assert not getattr(policy.model.config, "quantization_config", None)
    ids = torch.tensor([policy.tokens.prompt(MESSAGES)])
    before = policy.model(ids, labels=ids).loss
    before.backward()
    torch.optim.SGD(policy.model.parameters(), lr=0.01).step()
    assert policy.model(ids, labels=ids).loss < before
    policy.save(tmp_path / "saved")
    again = load_saved_policy(tmp_path / "saved", "small")
    assert torch.equal(logits_of(again.model, ids[0].tolist()), logits_of(policy.model, ids[0].tolist()))


def test_a_saved_policy_comes_back_equal(make_model, tiny_tokens, tmp_path):
    policy = Policy("small", make_model(len(tiny_tokens.tokenizer)), tiny_tokens)
    policy.save(tmp_path / "policy")
    again = load_saved_policy(tmp_path / "policy", "small")
    ids = tiny_tokens.prompt(MESSAGES)
    assert again.tokens.prompt(MESSAGES) == ids
    assert torch.equal(logits_of(again.model, ids), logits_of(policy.model, ids))
    assert again.tokenizer_fingerprint == policy.tokenizer_fingerprint
    assert again.tokenizer.pad_token_id == policy.tokenizer.pad_token_id
    assert not again.model.training


def test_the_fingerprint_follows_ids_and_template(chatml_tokenizer):
    first, second = chatml_tokenizer("<|pad|>"), chatml_tokenizer("<|pad|>")
    prints = [Policy("p", None, ChatTokens(tokenizer)).tokenizer_fingerprint for tokenizer in (first, second)]
    assert prints[0] == prints[1]
    second.chat_template = "Answer in JSON. " + second.chat_template
    assert Policy("p", None, ChatTokens(second)).tokenizer_fingerprint != prints[0]


def test_the_tiny_policy_depends_on_its_seed_only():
    first, same, other = (load_policy("tiny", ToolboxEnvironment(ToolboxConfig()), seed) for seed in (1, 1, 2))
    weights = [policy.model.get_input_embeddings().weight for policy in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.tokenizer_fingerprint == other.tokenizer_fingerprint


@pytest.mark.parametrize("content", [None, "", "{", '{"model_type": "nosuch"}', '{"model_type": "llama"}'])
def test_a_folder_that_is_no_model_is_one_line(tmp_path, content):
    folder = tmp_path / "model"
    if content is not None:
        folder.mkdir()
        if content:
            (folder / "config.json").write_text(content)
    with pytest.raises(UsageError) as caught:
        load_policy(str(folder), ToolboxEnvironment(ToolboxConfig()), 0)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_smollm2_that_was_never_fetched_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder_of("smollm2").is_relative_to(tmp_path)
    with pytest.raises(UsageError, match="recompose model fetch smollm2"):
        load_policy("smollm2", ToolboxEnvironment(ToolboxConfig()), 0)


@pytest.mark.parametrize(("is_sharded", "place"), [(True, []), (False, ["cuda"])])
def test_weights_that_will_be_shared_wait_on_the_cpu(converted, monkeypatch, is_sharded, place):
    placed = []

    def load(where, **options):
        placed.extend(options.get("device_map", {}).values())
        return torch.nn.Linear(1, 1)

    monkeypatch.setattr(loading, "device_type", lambda: "cuda")
    monkeypatch.setattr(processes, "is_sharded", lambda: is_sharded)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", load)
    monkeypatch.setattr(torch.nn.Module, "to", lambda model, device: placed.append(device) or model)
    load_saved_policy(converted[2], "small")
    assert placed == 2 * place


@pytest.mark.parametrize(("free", "moves"), [(10**9, ["cuda", "cpu"]), (0, [])])
def test_they_work_on_the_gpu_where_they_fit(make_model, monkeypatch, free, moves):
    model, moved = make_model(16), []
    monkeypatch.setattr(loading, "device_type", lambda: "cuda")
    monkeypatch.setattr(processes, "is_sharded", lambda: True)
    monkeypatch.setattr(machine, "free_bytes", lambda: free)
    monkeypatch.setattr(model, "to", moved.append)
    with loading.at_work(model) as device:
        assert device == (moves or ["cpu"])[0]
    assert moved == moves
