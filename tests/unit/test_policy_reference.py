"""What TRL's GRPO, Dr.GRPO, BNPO and DAPO compute, against plain loops over tokens in float64.

Channels are added to this loss, so its meaning has to be known: which tokens count, what the sum is divided by, on
which side it is clipped, and what its reference KL is.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

ROWS, PROMPT, COMPLETION = 4, 5, 9
EPSILON_LOW, EPSILON_HIGH, KL_WEIGHT = 0.2, 0.28, 0.01
STEPS_PER_GENERATION = 2
TOKENS_OF_THE_GENERATION = 53.0
LOSSES = ("grpo", "dr_grpo", "bnpo", "dapo")


@pytest.fixture
def make_trainer(make_model, tiny_tokens, tmp_path):
    make_model(len(tiny_tokens.tokenizer), seed=7).save_pretrained(tmp_path / "policy")

    def make(loss_type, **options):
        args = GRPOConfig(
            output_dir=str(tmp_path / "out"),
            loss_type=loss_type,
            epsilon=EPSILON_LOW,
            epsilon_high=EPSILON_HIGH,
            **{"beta": KL_WEIGHT, "use_bias_correction_kl": False, **options},
            max_completion_length=17,
            per_device_train_batch_size=ROWS,
            num_generations=2,
            steps_per_generation=STEPS_PER_GENERATION,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype="float32"),
            processing_class=tiny_tokens.tokenizer,
            args=args,
            reward_funcs=lambda completions, **columns: [0.0] * len(completions),
            train_dataset=Dataset.from_list([{"prompt": "x"}] * 4),
        )
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        return trainer

    return make


@pytest.fixture
def inputs(make_model, tiny_tokens):
    """Prompts padded left, completions right, tool tokens inside, and ratios on both sides of the clip."""
    vocabulary = len(tiny_tokens.tokenizer)
    generator = torch.Generator().manual_seed(11)

    def ids(width):
        return torch.randint(vocabulary, (ROWS, width), generator=generator)

    prompt_mask = torch.ones(ROWS, PROMPT, dtype=torch.long)
    prompt_mask[0, :2] = 0
    completion_mask = torch.ones(ROWS, COMPLETION, dtype=torch.long)
    completion_mask[1, 4:] = 0
    completion_mask[2, 7:] = 0
    tool_mask = torch.ones(ROWS, COMPLETION, dtype=torch.long)
    tool_mask[0, 3:6] = 0
    tool_mask[2, 1] = 0
    batch = {
        "prompt_ids": ids(PROMPT),
        "prompt_mask": prompt_mask,
        "completion_ids": ids(COMPLETION),
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "advantages": torch.tensor([1.5, -0.7, 0.9, -1.2]),
        "num_items_in_batch": torch.tensor(TOKENS_OF_THE_GENERATION),
    }
    now = [
        [logprob.item() for logprob in row]
        for row in token_logprobs(make_model(vocabulary, seed=7).double(), batch, temperature=1.0)
    ]
    shift = [math.log(ratio) for ratio in (1.0, 1.6, 0.5, 1.24, 1.24, 0.9, 1.4, 0.7, 1.1)]
    old = [[now[row][t] - shift[(t + row) % len(shift)] for t in range(COMPLETION)] for row in range(ROWS)]
    reference = [[now[row][t] + 0.4 * math.sin(3 * t + row) for t in range(COMPLETION)] for row in range(ROWS)]
    return {**batch, "old_per_token_logps": torch.tensor(old), "ref_per_token_logps": torch.tensor(reference)}


def token_logprobs(model, inputs, temperature):
    """Log-probability of every completion token, one row and one token at a time; padding is cut off, not masked."""
    rows = []
    for row in range(ROWS):
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist()
        completion = inputs["completion_ids"][row].tolist()
        logits = model(input_ids=torch.tensor([prompt + completion]), use_cache=False).logits[0]
        rows.append([
            torch.log_softmax(logits[len(prompt) + t - 1] / temperature, -1)[token]
            for t, token in enumerate(completion)
        ])  # fmt: skip
    return rows


def plain_loss(model, inputs, loss_type, *, kl_weight=KL_WEIGHT, unbiased_kl=False, temperature=1.0, accumulation=1):
    """The loss in loops, and how many counted tokens were clipped below, clipped above, and not."""
    logprobs = token_logprobs(model, inputs, temperature)
    clipped_low = clipped_high = unclipped = 0
    rows = []
    for row in range(ROWS):
        advantage = inputs["advantages"][row].item()
        terms = []
        for t in range(COMPLETION):
            if not (inputs["completion_mask"][row, t] and inputs["tool_mask"][row, t]):
                continue
            logprob = logprobs[row][t]
            old = inputs["old_per_token_logps"][row, t].item() if "old_per_token_logps" in inputs else logprob.detach()
            ratio = torch.exp(logprob - old)
            if advantage > 0 and ratio.item() > 1 + EPSILON_HIGH:
                policy, clipped_high = torch.tensor(-(1 + EPSILON_HIGH) * advantage).double(), clipped_high + 1
            elif advantage < 0 and ratio.item() < 1 - EPSILON_LOW:
                policy, clipped_low = torch.tensor(-(1 - EPSILON_LOW) * advantage).double(), clipped_low + 1
            else:
                policy, unclipped = -ratio * advantage, unclipped + 1
            gap = inputs["ref_per_token_logps"][row, t].item() - logprob
            kl = torch.exp(gap) - gap - 1
            terms.append(policy + kl_weight * kl * (ratio if unbiased_kl else 1))
        rows.append(terms)
    everything = sum(sum(terms) for terms in rows)
    if loss_type == "grpo":
        loss = sum(sum(terms) / len(terms) for terms in rows) / ROWS / accumulation
    elif loss_type == "dr_grpo":
        loss = everything / (ROWS * 17) / accumulation
    elif loss_type == "bnpo":
        loss = everything / sum(len(terms) for terms in rows) / accumulation
    else:
        # The count spans the whole generation batch, which is spread over several optimiser steps.
        loss = everything / (TOKENS_OF_THE_GENERATION * accumulation / STEPS_PER_GENERATION)
    return loss, (clipped_low, clipped_high, unclipped)


def gradient(model, loss):
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(model.parameters()))]).double()


def compare(trainer, inputs, loss_type, **options):
    exact_model = copy.deepcopy(trainer.model).double()
    exact_model.forward = type(exact_model).forward.__get__(exact_model)
    expected, counts = plain_loss(exact_model, inputs, loss_type, **options)
    loss = trainer._compute_loss(trainer.model, inputs)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    exact_gradient = gradient(exact_model, expected)
    assert exact_gradient.norm() > 1e-3
    error = (gradient(trainer.model, loss) - exact_gradient).norm() / exact_gradient.norm()
    assert error < 1e-5
    return counts


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("accumulation", [1, 2])
def test_trl_computes_the_plain_loss(make_trainer, inputs, loss_type, accumulation):
    trainer = make_trainer(loss_type)
    trainer.current_gradient_accumulation_steps = accumulation
    counts = compare(trainer, inputs, loss_type, accumulation=accumulation)
    assert min(counts) >= 2, "both sides of the clip and the tokens between are in play"
    assert sum(counts) == 4 + 6 + 6 + 9


@pytest.mark.parametrize("loss_type", LOSSES)
def test_without_old_logprobs_the_ratio_is_one(make_trainer, inputs, loss_type):
    on_policy = {key: value for key, value in inputs.items() if key != "old_per_token_logps"}
    assert compare(make_trainer(loss_type), on_policy, loss_type) == (0, 0, 25)


def test_trl_s_own_default_weighs_the_reference_kl_by_the_ratio(make_trainer, inputs):
    """Not the plain k3 estimate: `use_bias_correction_kl` has to be switched off to get that."""
    assert GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to=[]).use_bias_correction_kl
    compare(make_trainer("dapo", use_bias_correction_kl=True, beta=1.0), inputs, "dapo", unbiased_kl=True, kl_weight=1)


def test_logprobs_are_those_at_the_sampling_temperature(make_trainer, inputs):
    compare(make_trainer("dapo", temperature=0.7), inputs, "dapo", temperature=0.7)


@pytest.mark.parametrize("loss_type", LOSSES)
def test_tool_and_padding_tokens_carry_no_loss_of_their_own(make_trainer, inputs, loss_type):
    """What stands in for them as old or reference log-probability never reaches the loss."""
    trainer = make_trainer(loss_type)
    ignored = (inputs["completion_mask"] * inputs["tool_mask"]) == 0
    other = {key: inputs[key].masked_fill(ignored, -3.0) for key in ("old_per_token_logps", "ref_per_token_logps")}
    with torch.no_grad():
        losses = [trainer._compute_loss(trainer.model, batch).item() for batch in (inputs, {**inputs, **other})]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("loss_type", LOSSES)
def test_flat_groups_leave_only_the_reference_kl(make_trainer, inputs, loss_type):
    flat = {**inputs, "advantages": torch.zeros(ROWS)}
    trainer = make_trainer(loss_type, beta=0.0)
    silent = trainer._compute_loss(trainer.model, flat)
    assert silent.item() == 0
    assert gradient(trainer.model, silent).norm() == 0
    anchored = make_trainer(loss_type)
    assert anchored._compute_loss(anchored.model, flat) > 0
