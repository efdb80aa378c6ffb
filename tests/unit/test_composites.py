"""The golden composites, and that each backend computes the one that it declares."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from composer_replication.training.backends import BACKENDS
from composer_replication.training.models.tokens import ChatTokens
from tests.distributed import scenes
from tests.distributed.scenes import GROUP_SIZE, Scene, build, new_model, run, stored_examples
from tests.golden.composites.reference import COMPOSITES, Case, Pair, Row, Site, divergence
from tests.golden.templates.tokenizers import template_tokenizer

STORED = Path(__file__).parents[1] / "golden" / "composites" / "numbers.json"
ALPHA, BETA = 0.7, 0.5
# Log-probabilities of the trainer are in float32, whatever the weights are in.
ROUNDING = 1e-6


def by_formula() -> LlamaForCausalLM:
    """Weights that no random generator decides."""
    config = LlamaConfig(
        vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, pad_token_id=0, bos_token_id=None, eos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters(), 1):
            places = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((0.4 * torch.sin(1.7 * places + number)).reshape(parameter.shape) + (parameter.dim() == 1))
    return model


CASE = Case(
    rows=[
        Row([1, 2, 3], [4, 5, 6, 7, 8, 9], [1, 1, 0, 0, 1, 1], 0.8),
        Row([3, 1], [11, 12, 13], [1, 1, 1], -1.2),
    ],
    sites=[Site(0, 0, 2, [1, 2, 20, 21, 3]), Site(0, 4, 6, [1, 2, 3, 4, 5, 6, 7, 22]), Site(1, 0, 3, [3, 19, 1])],
    batches=[
        [Pair([1, 2], [5, 6], [7, 8, 9], -6.0, -9.5, 0.1), Pair([4], [10], [11], -3.0, -3.2, 0.0)],
        [Pair([2, 3, 4], [14, 15, 16], [17], -9.0, -3.1, 0.3)],
    ],
)


def gradients(model, terms):
    """By term, flat."""
    parameters = list(model.parameters())
    return {
        name: torch.cat([g.flatten() for g in torch.autograd.grad(term, parameters, retain_graph=True)])
        for name, term in terms.items()
    }


@pytest.mark.parametrize("name", COMPOSITES)
def test_the_composite_has_its_stored_numbers(name):
    model = by_formula()
    terms = COMPOSITES[name](model, CASE)
    found = {
        key: {"loss": terms[key].item(), "gradient_norm": gradient.norm().item(), "gradient_sum": gradient.sum().item()}
        for key, gradient in gradients(model, terms).items()
    }
    stored = json.loads(STORED.read_text())[name]
    assert found.keys() == stored.keys()
    for key, numbers in stored.items():
        assert found[key] == {which: pytest.approx(value, rel=1e-9, abs=1e-12) for which, value in numbers.items()}


def test_both_composites_have_one_preference_and_one_policy_gradient():
    model = by_formula()
    whole, sampled = (gradients(model, COMPOSITES[name](model, CASE)) for name in ("whole-vocabulary", "sampled-token"))
    for key in ("policy", "replay"):
        torch.testing.assert_close(sampled[key], whole[key], rtol=1e-10, atol=1e-13)
    assert (whole["sdpo"] - sampled["sdpo"]).norm() > 1e-3


def test_half_the_squared_log_ratio_follows_reverse_kl_on_average_over_samples():
    draw = torch.Generator().manual_seed(0)
    logits_V = torch.randn(9, dtype=torch.float64, generator=draw).requires_grad_()
    teacher_V = torch.randn(9, dtype=torch.float64, generator=draw).log_softmax(-1)
    student_V = logits_V.log_softmax(-1)
    (exact,) = torch.autograd.grad(divergence(student_V, teacher_V, 1.0), logits_V, retain_graph=True)
    on_average = (student_V.exp().detach() * (student_V - teacher_V).square() / 2).sum()
    (found,) = torch.autograd.grad(on_average, logits_V)
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_declares_a_composite(name):
    assert adapter(name).COMPOSITE in COMPOSITES


def adapter(name):
    return importlib.import_module(f"composer_replication.training.backends.{name}")


@pytest.fixture
def exact_positions(monkeypatch):
    """Padding shifts positions, and angles of shifted positions in float32 would be other ones."""

    def forward(self, states, position_ids):
        half = len(self.inv_freq)
        rates = self.config.rope_parameters["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = (position_ids[..., None] * rates).repeat(1, 1, 2)
        return angles.cos().to(states.dtype), angles.sin().to(states.dtype)

    monkeypatch.setattr(LlamaRotaryEmbedding, "forward", forward)


def whole_model():
    return new_model().double()


def with_adapters():
    peft = pytest.importorskip("peft")
    torch.manual_seed(3)
    config = peft.LoraConfig(r=3, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    return peft.get_peft_model(whole_model(), config).double()


@pytest.mark.parametrize(
    ("make_model", "scene"),
    [
        *((whole_model, {"accumulation": n, "settings": {"jsd_beta": beta}}) for n in (1, 4) for beta in (0, 0.5, 1)),
        (whole_model, {"arguments": {"gradient_checkpointing": True}}),
        (with_adapters, {"accumulation": 2}),
    ],
)
def test_trl_computes_the_composite_that_it_declares(tmp_path, exact_positions, make_model, scene):
    compare(tmp_path, make_model, Scene(alpha=ALPHA, beta=BETA, online=True, **scene))


@pytest.mark.parametrize("template", ["qwen2.5", "qwen3", "llama3.1", "gemma3"])
def test_the_composite_holds_under_real_chat_templates(tmp_path, monkeypatch, exact_positions, template):
    tokens = ChatTokens(template_tokenizer(template))
    monkeypatch.setattr(scenes, "chat_tokens", lambda: tokens)
    compare(tmp_path, whole_model, Scene(alpha=ALPHA, beta=BETA, online=True, accumulation=2))


def compare(folder, make_model, scene):
    trainer = build(scene, str(folder), model=make_model())
    micro_batches, compute = [], trainer._compute_loss
    trainer._compute_loss = lambda model, batch: micro_batches.append(batch) or compute(model, batch)
    tensors, _ = run(trainer)
    ours = {key.removeprefix("grad/"): value for key, value in tensors.items() if key.startswith("grad/")}
    case = replace(case_of(micro_batches), jsd_beta=scene.settings.get("jsd_beta", 0.5))
    assert any(not mask.all() for batch in micro_batches for mask in batch["prompt_mask"]), "padded on the left"
    assert any(not mask.all() for batch in micro_batches for mask in batch["completion_mask"]), "and on the right"
    model = make_model()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    terms = COMPOSITES[adapter("trl").COMPOSITE](model, case)
    total = terms["policy"] + ALPHA * terms["sdpo"] + BETA * terms["replay"]
    expected = dict(zip(trained, torch.autograd.grad(total, list(trained.values())), strict=True))
    assert ours.keys() == expected.keys()
    distance = math.sqrt(sum(((ours[name] - expected[name]) ** 2).sum().item() for name in trained))
    assert distance / math.sqrt(sum((expected[name] ** 2).sum().item() for name in trained)) < ROUNDING


def case_of(micro_batches) -> Case:
    """What a step was given, from its micro-batches and from the stored examples behind them."""
    rows, sites = [], []
    for batch in micro_batches:
        for place in range(len(batch["prompt_ids"])):
            real = batch["completion_mask"][place].bool()
            sampled = batch["completion_mask"][place] * batch["tool_mask"][place]
            sites += [Site(len(rows), one.start, one.end, one.teacher_context) for one in batch["sdpo_sites"][place]]
            rows.append(
                Row(
                    batch["prompt_ids"][place][batch["prompt_mask"][place].bool()].tolist(),
                    batch["completion_ids"][place][real].tolist(),
                    sampled[real].tolist(),
                    batch["advantages"][place].item(),
                )
            )
    assert len(rows) == scenes.PROMPTS_PER_STEP * GROUP_SIZE
    batches = [
        [
            Pair(p.prompt, p.chosen, p.rejected, p.reference_chosen, p.reference_rejected, p.label_smoothing)
            for example in stored_examples(4, range(4), step)
            for p in example.pairs
        ]
        for step in range(len(micro_batches))
    ]
    return Case(rows, sites, batches)
