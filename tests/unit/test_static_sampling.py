"""The sampler with one cache across turns against the plain one, which reads every context anew."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import make_task
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.errors import UsageError
from composer_replication.training.rollouts import static_sampling
from composer_replication.training.rollouts.playing import roll_out
from composer_replication.training.rollouts.sampling import DynamicSampler, sample_turns
from composer_replication.training.rollouts.static_sampling import (
    StaticSampler,
    attends_plainly,
    can_be_copied,
    turn_sampler,
)

VOCABULARY = 40
STOP = 7
TOKENS = SimpleNamespace(end_of_turn_id=STOP, tokenizer=SimpleNamespace(pad_token_id=0))
TURN = 9


@pytest.fixture(scope="module")
def model(make_model):
    return make_model(VOCABULARY, seed=3)


def static(model, batch=6, max_tokens=200, **options):
    return StaticSampler(model, TOKENS, batch, max_tokens, **options)


def plain(model, contexts, temperature=0.0, seed=0):
    return sample_turns(
        model,
        contexts,
        end_of_turn_id=STOP,
        pad_id=0,
        max_new_tokens=TURN,
        temperature=temperature,
        generator=torch.Generator().manual_seed(seed),
    )


def sample(sampler, slots, contexts, temperature=0.0, seed=0, on_turn=None):
    options = {"temperature": temperature, "generator": torch.Generator().manual_seed(seed), "on_turn": on_turn}
    return sampler.sample(slots, contexts, max_new_tokens=TURN, **options)


def assert_same(turns, expected):
    assert [turn.ids for turn in turns] == [turn.ids for turn in expected]
    for turn, other in zip(turns, expected, strict=True):
        assert turn.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def words(rng, low, high):
    return [rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high))]


@pytest.mark.parametrize("seed", range(4))
def test_greedy_turns_equal_the_plain_sampler_over_turns_that_come_and_go(model, seed):
    rng = random.Random(seed)
    sampler = static(model)
    held = {slot: words(rng, 1, 40) for slot in range(6)}
    lengths = set()
    for turn_number in range(6):
        slots = rng.sample(sorted(held), rng.randint(1, 6))
        contexts = [held[slot] for slot in slots]
        turns = sample(sampler, slots, contexts)
        assert_same(turns, plain(model, contexts))
        lengths |= {len(turn.ids) for turn in turns}
        for slot, turn in zip(slots, turns, strict=True):
            held[slot] = held[slot] + turn.ids + words(rng, 1, 12)
        if turn_number == 3:
            held[slots[0]] = words(rng, 1, 30)
    assert len(lengths) > 1


def test_a_slot_that_held_another_conversation_with_the_same_beginning_is_read_from_there(model):
    sampler = static(model)
    shared = [5, 9, 11, 3]
    sample(sampler, [2], [[*shared, 21, 22, 23, 24, 25]])
    contexts = [[*shared, 30, 31]]
    assert_same(sample(sampler, [2], contexts), plain(model, contexts))
    assert_same(sample(sampler, [2], [shared]), plain(model, [shared]))


def test_only_what_was_appended_is_read_again(model):
    sampler = static(model, batch=2)
    read = []
    sampler._model.register_forward_pre_hook(lambda module, args: read.append(tuple(args[0].shape)))
    first = list(range(1, 31))
    (turn,) = sample(sampler, [1], [first])
    assert read[0] == (1, 30)
    assert set(read[1:]) == {(2, 1)}
    read.clear()
    sample(sampler, [1], [[*first, *turn.ids, 4, 5]])
    assert read[0] == (1, 3)


def test_long_batches_are_read_in_groups(model, monkeypatch):
    monkeypatch.setattr("composer_replication.training.rollouts.static_sampling.PREFILL_TOKENS", 40)
    rng = random.Random(1)
    sampler = static(model)
    read = []
    sampler._model.register_forward_pre_hook(lambda module, args: read.append(args[0].shape))
    contexts = [words(rng, 1, 35) for _ in range(6)]
    assert_same(sample(sampler, [3, 0, 5, 1, 4, 2], contexts), plain(model, contexts))
    prefills = [shape for shape in read if shape[1] > 1 or shape[0] < 6]
    assert len(prefills) > 1
    assert all(shape.numel() <= 40 for shape in prefills)


def test_new_weights_are_sampled_from_and_old_keys_forgotten(make_model):
    old, new = make_model(VOCABULARY, seed=3), make_model(VOCABULARY, seed=4)
    sampler = static(old)
    contexts = [[5, 6, 8, 9], [1, 2]]
    before = sample(sampler, [0, 1], contexts)
    sampler.refresh(new)
    after = sample(sampler, [0, 1], contexts)
    assert_same(before, plain(old, contexts))
    assert_same(after, plain(new, contexts))
    assert [turn.ids for turn in before] != [turn.ids for turn in after]


def test_the_policy_is_left_as_it_was(model):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attention = model.config._attn_implementation
    state = torch.get_rng_state()
    sampler = static(model, dtype=torch.bfloat16)
    sample(sampler, [0], [[3, 4, 5]], temperature=1.0)
    assert model.config._attn_implementation == attention
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert sampler._model.dtype == torch.bfloat16
    assert all(buffer.dtype == torch.float32 for buffer in sampler._model.buffers())


def test_tied_and_ungrouped_heads(make_model):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, tie_word_embeddings=True, initializer_range=0.3, pad_token_id=0,
    )  # fmt: skip
    tied = LlamaForCausalLM(config).eval()
    contexts = [[5, 6, 8], [9, 10, 11, 12, 13]]
    assert_same(sample(static(tied), [4, 1], contexts), plain(tied, contexts))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_of_samples_are_the_model_s_own(model, temperature):
    contexts = [[5, 6, 8], [9, 10, 11, 12, 13]]
    for context, turn in zip(contexts, sample(static(model), [0, 3], contexts, temperature), strict=True):
        for place, (token, logprob) in enumerate(zip(turn.ids, turn.logprobs, strict=True)):
            with torch.no_grad():
                logits = model(torch.tensor([[*context, *turn.ids[:place]]])).logits[0, -1]
            assert logprob == pytest.approx((logits / temperature).log_softmax(-1)[token].item(), abs=1e-4)


def test_a_generator_decides(model):
    contexts = [[5, 6, 8], [9, 10, 11, 12, 13]]
    first = sample(static(model), [0, 3], contexts, 1.0, seed=1)
    assert sample(static(model), [0, 3], contexts, 1.0, seed=1) == first
    assert sample(static(model), [0, 3], contexts, 1.0, seed=2) != first


def test_samples_follow_the_distribution(model):
    copies = 3000
    sampler = static(model, batch=copies, max_tokens=32)
    turns = sampler.sample(
        list(range(copies)),
        [[7, 8, 9]] * copies,
        max_new_tokens=1,
        temperature=2.0,
        generator=torch.Generator().manual_seed(0),
    )
    with torch.no_grad():
        expected = (model(torch.tensor([[7, 8, 9]])).logits[0, -1] / 2.0).softmax(-1)
    counts = torch.bincount(torch.tensor([turn.ids[0] for turn in turns]), minlength=VOCABULARY)
    error = (expected * (1 - expected) / copies).sqrt()
    assert ((counts / copies - expected).abs() < 5 * error + 1e-3).all()


def test_a_slot_can_be_filled_to_its_last_token_and_no_further(model):
    sampler = static(model, max_tokens=130)
    rng = random.Random(2)
    context = words(rng, 130 - TURN, 130 - TURN)
    assert_same(sample(sampler, [5, 0], [context, [3]]), plain(model, [context, [3]]))
    with pytest.raises(ValueError, match="131 tokens do not fit into slots of 130"):
        sample(sampler, [5], [[*context, 1]])


def test_attention_that_it_does_not_compute_is_refused():
    config = MistralConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=8, pad_token_id=0,
    )  # fmt: skip
    with pytest.raises(UsageError, match="DynamicSampler"):
        sample(static(MistralForCausalLM(config).eval()), [0], [[1, 2, 3]])


@pytest.mark.parametrize(
    ("kind", "options", "is_plain"),
    [
        ("llama", {}, True),
        ("qwen2", {}, True),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 1}, False),
        ("mistral", {"sliding_window": None}, True),
        ("mistral", {"sliding_window": 128}, False),
        ("mistral", {"sliding_window": 4096}, True),
        ("gemma2", {"sliding_window": 4096}, False),
        ("gemma3_text", {"sliding_window": 128}, False),
        ("gpt_oss", {"sliding_window": 4096, "num_local_experts": 2, "num_experts_per_tok": 1}, False),
    ],
)
def test_on_a_gpu_models_with_other_attention_get_the_plain_sampler(monkeypatch, kind, options, is_plain):
    config = AutoConfig.for_model(
        kind, vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, pad_token_id=0, **options,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert attends_plainly(model, 200) == is_plain
    monkeypatch.setattr(type(model), "device", torch.device("cuda"))
    monkeypatch.setattr(static_sampling, "StaticSampler", lambda *given, **options: "static")
    sampler = turn_sampler(model, TOKENS, 4, 200)
    assert sampler == "static" if is_plain else isinstance(sampler, DynamicSampler)


def test_on_a_cpu_the_plain_sampler_is_chosen(model):
    assert isinstance(turn_sampler(model, TOKENS, 4, 100), DynamicSampler)


def test_models_whose_weights_cannot_simply_be_copied_are_known(model):
    assert can_be_copied(model)
    assert not can_be_copied(torch.nn.Sequential(model))
    model.is_quantized = True
    try:
        assert not can_be_copied(model)
    finally:
        del model.is_quantized


def test_rollouts_are_the_same_with_either_sampler(make_model, tiny_tokens):
    tasks = [make_task(ToolboxConfig(), "train", index) for index in range(5)]
    policy = make_model(len(tiny_tokens.tokenizer), seed=5)
    options = {"max_turn_tokens": 12, "temperature": 0.0}
    expected = roll_out(policy, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), tasks, **options)
    sampler = StaticSampler(policy, tiny_tokens, 3, 400)
    found = roll_out(policy, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), tasks, **options, sampler=sampler)
    assert [rollout.completion_ids for rollout in found] == [rollout.completion_ids for rollout in expected]


def test_who_ends_early_is_told_early(model):
    rng, told = random.Random(2), {}
    contexts = [words(rng, 1, 30) for _ in range(6)]
    turns = sample(static(model), [4, 0, 5, 1, 3, 2], contexts, temperature=1.0, on_turn=told.__setitem__)
    early = {place: turn for place, turn in enumerate(turns) if turn.ids[-1] == STOP and len(turn.ids) <= 8}
    assert early
    assert told == early
