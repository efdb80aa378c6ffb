"""Supervised warm-up on an environment's old logs, so that a policy starts with habits worth unlearning."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F

from composer_replication.config import WarmupConfig
from composer_replication.environments.protocol import Environment, Log
from composer_replication.errors import UsageError
from composer_replication.hints import HintContext, dispatch

from .models.muon import muon_with_adamw
from .models.states import last_hidden, output_head
from .models.tokens import ChatTokens

MICRO_BATCH = 16
RAMP_STEPS = 30


class Demonstration(NamedTuple):
    ids: list[int]
    weights: list[float]
    """Loss weight per token: 1 on the agent's turns, small on the rest."""


def warm_up(
    model: Any,
    tokens: ChatTokens,
    environment: Environment,
    config: WarmupConfig,
    seed: int,
    on_step: Callable[[int, float], None],
) -> None:
    if not config.steps:
        return
    logs = environment.old_logs(config, seed)
    if logs is None:
        raise UsageError(f"{environment.name} has no old logs to warm up on", "set warmup.steps = 0")
    optimizer = _optimizer(model, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, config.steps))
    model.train()
    for step in range(config.steps):
        batch = [demonstration(log, tokens, config.context_weight) for log in islice(logs, config.batch_size)]
        loss = _backward(model, tokens, batch, config.context_weight)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        on_step(step + 1, loss)
    model.eval()


def _optimizer(model: Any, config: WarmupConfig) -> torch.optim.Optimizer:
    adamw: dict[str, Any] = {"lr": config.learning_rate, "betas": (0.9, 0.98), "weight_decay": 0.01}
    if config.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), **adamw)
    return muon_with_adamw(model, {"lr": config.muon_learning_rate, "weight_decay": 0.0}, adamw)


def _rate(step: int, steps: int) -> float:
    """Linear ramp, plateau, linear decay over the last third."""
    return min((step + 1) / min(RAMP_STEPS, steps), max(0.05, (1 - step / steps) / 0.35), 1.0)


def demonstration(log: Log, tokens: ChatTokens, context_weight: float) -> Demonstration:
    ids = tokens.prompt(log.messages)
    weights = [context_weight] * len(ids)
    for turn in log.turns:
        if turn.hint:
            hint = dispatch(turn.hint.kind, cast("HintContext", turn.hint.facts))
            assert hint is not None, "every logged kind has a template"
            kept, behind = tokens.hint_at(ids, hint)
            weights[kept:kept] = [0.0] * (kept + len(behind) - len(ids))
            ids = [*ids[:kept], *behind]
        written = tokens.turn(turn.text)
        ids += written
        weights += [1.0] * len(written)
        if turn.answer is not None:
            ids += tokens.after_turn(turn.answer)
            weights += [context_weight] * (len(ids) - len(weights))
    return Demonstration(ids, weights)


def _backward(model: Any, tokens: ChatTokens, batch: list[Demonstration], context_weight: float) -> float:
    """Gradient of the weighted mean loss of a batch, in micro-batches of similar length to save padding."""
    batch = sorted(batch, key=lambda demo: len(demo.ids))
    total_weight = sum(sum(demo.weights[1:]) for demo in batch)
    loss, loss_of = 0.0, _loss if context_weight else _loss_of_turns
    for start in range(0, len(batch), MICRO_BATCH):
        part = loss_of(model, tokens.tokenizer.pad_token_id, batch[start : start + MICRO_BATCH]) / total_weight
        part.backward()
        loss += part.item()
    return loss


def _loss(model: Any, pad_id: int, batch: list[Demonstration]) -> torch.Tensor:
    ids_BT, weights_BT = _padded(model, pad_id, batch)
    # Padding is on the right, so causal attention alone keeps it out of every real position.
    with _autocast(model):
        logits_BTV = model(ids_BT).logits[:, :-1].float()
    loss_BT = F.cross_entropy(logits_BTV.transpose(1, 2), ids_BT[:, 1:], reduction="none")
    return (loss_BT * weights_BT[:, 1:]).sum()


def _loss_of_turns(model: Any, pad_id: int, batch: list[Demonstration]) -> torch.Tensor:
    """The same where only the agent's turns count: logits of other tokens, most of them, are never made."""
    ids_BT, weights_BT = _padded(model, pad_id, batch)
    row_N, place_N = weights_BT[:, 1:].nonzero(as_tuple=True)
    with _autocast(model):
        hidden_NH = last_hidden(model, ids_BT)[row_N, place_N]
        logprobs_N = output_head(model).logprobs(hidden_NH, ids_BT[row_N, place_N + 1])
    return -(logprobs_N * weights_BT[row_N, place_N + 1]).sum()


def _padded(model: Any, pad_id: int, batch: list[Demonstration]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(demo.ids) for demo in batch)
    ids_BT = torch.tensor([demo.ids + [pad_id] * (width - len(demo.ids)) for demo in batch], device=model.device)
    weights_BT = torch.tensor([demo.weights + [0.0] * (width - len(demo.ids)) for demo in batch], device=model.device)
    return ids_BT, weights_BT


def _autocast(model: Any) -> torch.autocast:
    """For one pass: a longer context would go on with the weights of its first pass."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda")
