"""Our loss for verl against the sampled-token composite in float64, over micro-batches and ranks: value, gradient."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("verl")

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig

from composer_replication.objective import SdpoSettings, TrdpoSettings
from composer_replication.training.backends.verl.inside.loss import COLUMNS, composer_loss
from composer_replication.training.backends.verl.inside.trainer import _fields, _nested
from composer_replication.training.backends.verl.lesson_rows import Columns, ScoredRow, pair_columns, site_columns
from composer_replication.training.stored.examples import PairTokens
from tests.engines.parity import keep
from tests.golden.composites.reference import Case, Pair, Site, sampled_logprobs, sampled_token
from tests.golden.composites.reference import Row as GoldenRow

VOCABULARY, ALPHA, BETA, BATCHES = 11, 0.3, 0.7, 1000
ACTOR = {"strategy": "fsdp2", "ppo_mini_batch_size": 4, "ppo_micro_batch_size_per_gpu": 2, "rollout_n": 1}


class Bigrams:
    """A policy whose next token depends on the last two, so that a hint changes what follows it."""

    def __init__(self, seed: int) -> None:
        table = torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed)).double()
        self.table = table.requires_grad_()

    def __call__(self, ids):
        before = torch.cat([ids[:, :1], ids[:, :-1]], 1)
        return SimpleNamespace(logits=self.table[before, ids])


def random_case(seed: int) -> Case:
    rng = random.Random(seed)

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(rng.randint(low, high))]

    rows, sites = [], []
    for place in range(rng.choice([2, 4])):
        first, answer, second = ids(1, 4), ids(1, 3), ids(1, 4)
        mask = [1] * len(first) + [0] * len(answer) + [1] * len(second)
        rows.append(GoldenRow(ids(2, 4), first + answer + second, mask, rng.uniform(-2, 2)))
        if rng.random() < 0.7 or not place:
            sites.append(Site(place, 0, len(first), rows[-1].prompt[:-1] + ids(1, 3) + rows[-1].prompt[-1:]))
    pairs = [
        Pair(ids(2, 4), ids(1, 4), ids(1, 4), rng.uniform(-9, 0), rng.uniform(-9, 0), rng.choice([0.0, 0.2]))
        for _ in range(rng.randint(1, 3))
    ]
    return Case(rows, sites, [pairs])


def verl_loss(model: Bigrams, case: Case, ranks: int, micro: int) -> torch.Tensor:
    pairs = [
        PairTokens(p.prompt, p.chosen, p.rejected, p.reference_chosen, p.reference_rejected, p.smoothing)
        for p in case.batches[0]
    ]
    sides = [ScoredRow(pair.prompt, side) for pair in pairs for side in (pair.chosen, pair.rejected)]
    rows = [ScoredRow(row.prompt, row.completion) for row in case.rows]
    with torch.no_grad():
        own = [sampled_logprobs(model, row.context, row.turn) for row in [*rows, *sides]]
        teacher = [
            sampled_logprobs(model, site.teacher_context, case.rows[site.row].completion[site.start : site.end])
            for site in case.sites
        ]
    columns = [Columns.empty(len(row.turn), torch.float64) for row in rows]
    at = [(site.row, site.start, site.end) for site in case.sites]
    policy = [own[row][start:end] for row, start, end in at]
    site_columns(columns, at, policy, teacher, ALPHA, SdpoSettings(require_disfavour=False))
    columns += pair_columns(own[len(rows) :], pairs, BETA, TrdpoSettings(beta=case.dpo_beta))[1]
    everyone, masks = [*rows, *sides], [row.mask for row in case.rows] + [[0] * len(side.turn) for side in sides]
    advantages = [row.advantage for row in case.rows] + [0.0] * len(sides)
    config, total = FSDPActorConfig(**ACTOR), torch.zeros((), dtype=torch.float64)
    for start in range(0, len(everyone), micro):
        part = range(start, min(start + micro, len(everyone)))
        chosen = [everyone[place] for place in part]
        data = TensorDict(_fields(chosen), batch_size=[len(chosen)])
        data["response_mask"] = _nested([torch.tensor(masks[place]) for place in part])
        data["old_log_probs"] = _nested([own[place] for place in part])
        data["advantages"] = _nested([torch.full_like(own[place], advantages[place]) for place in part])
        for column, name in enumerate(COLUMNS):
            data[name] = _nested([columns[place][column] for place in part])
        tokens = sum(map(sum, masks))
        tu.assign_non_tensor(data, dp_size=ranks, batch_num_tokens=tokens, global_batch_size=len(case.rows))
        # verl's engine has one value per token of a row, each that of the token behind it.
        logprobs = [
            torch.cat([sampled_logprobs(model, row.context[:1], row.context[1:] + row.turn), own[0].new_zeros(1)])
            for row in chosen
        ]
        total = total + composer_loss(config, {"log_probs": _nested(logprobs)}, data)[0] / ranks
    return total


def test_loss_and_gradient_are_those_of_the_composite_over_a_thousand_batches():
    worst_loss = worst_gradient = 0.0
    for seed in range(BATCHES):
        case, model = random_case(seed), Bigrams(seed)
        terms = sampled_token(model, case)
        expected = terms["policy"] + ALPHA * terms["sdpo"] + BETA * terms["replay"]
        (gradient,) = torch.autograd.grad(expected, [model.table])
        found = verl_loss(model, case, ranks=1 + seed % 2, micro=1 + seed % 3)
        (own_gradient,) = torch.autograd.grad(found, [model.table])
        worst_loss = max(worst_loss, float((found - expected).detach().abs()))
        worst_gradient = max(worst_gradient, float((gradient - own_gradient).abs().max()))
    keep("verl", batches=BATCHES, worst_loss=worst_loss, worst_gradient=worst_gradient)
    assert worst_loss <= 1e-6
    assert worst_gradient <= 1e-6


def test_a_batch_without_columns_has_verls_own_loss():
    from verl.workers.utils.losses import ppo_loss

    row = ScoredRow([1, 2], [3, 4, 5])
    data = TensorDict(_fields([row]), batch_size=[1])
    data["response_mask"] = _nested([torch.ones(3, dtype=torch.int64)])
    data["old_log_probs"], data["advantages"] = _nested([torch.zeros(3)]), _nested([torch.ones(3)])
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=3, global_batch_size=1)
    output = {"log_probs": _nested([torch.randn(5)])}
    assert torch.equal(
        composer_loss(FSDPActorConfig(**ACTOR), output, data)[0], ppo_loss(FSDPActorConfig(**ACTOR), output, data)[0]
    )
