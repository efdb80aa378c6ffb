"""Supervised warm-up on noisy old logs, so that a policy starts with habits worth unlearning.

The logs were written against an older tool API: some tools are called by their base name whatever the episode lists,
some integers are quoted, some calls lack their last brace. How often depends on the tool. One turn in five is preceded
by a hint and then better: the policy learns that hints are worth following, which channel 2 needs. Where the toolbox
leaks, some logs may look at the leak and copy what it says.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from composer_replication.config import ToolboxConfig, WarmupConfig
from composer_replication.environments.toolbox import FINISH, Call, Episode, ToolboxTask, Way, make_task, next_call
from composer_replication.environments.toolbox.leak import LEAK_FILE, LEAK_TOOL, READ_TOOL, leaked_call
from composer_replication.environments.toolbox.tools import TOOLS
from composer_replication.errors import UsageError
from composer_replication.hints import dispatch
from composer_replication.losses import hidden_logprobs

from .models.states import last_hidden, output_head
from .models.tokens import ChatTokens

MICRO_BATCH = 16
RAMP_STEPS = 30
HINTED_KINDS = {
    "everything": ("tool_not_found", "json_decode", "type_error", "repeated_failure"),
    "their_kind": ("tool_not_found", "json_decode", "type_error"),
}
_ORDER = {tool.name: position for position, tool in enumerate(TOOLS)}


class Demonstration(NamedTuple):
    ids: list[int]
    weights: list[float]
    """Loss weight per token: 1 on the agent's turns, small on the rest."""


def warm_up(
    model: Any,
    tokens: ChatTokens,
    toolbox: ToolboxConfig,
    config: WarmupConfig,
    seed: int,
    on_step: Callable[[int, float], None],
) -> None:
    if not config.steps:
        return
    if (config.leak_tool_rate or config.leak_file_rate) and toolbox.leak != "open":
        raise UsageError("logs that look at the leak need a toolbox that leaks", 'set toolbox.leak = "open"')
    rng = random.Random(f"warmup:{seed}")
    optimizers = _optimizers(model, config)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, config.steps)) for optimizer in optimizers
    ]
    model.train()
    for step in range(config.steps):
        first = (seed * config.steps + step) * config.batch_size
        tasks = [make_task(toolbox, "train", first + offset) for offset in range(config.batch_size)]
        loss = _backward(
            model, tokens, [demonstrate(task, tokens, config, rng) for task in tasks], config.context_weight
        )
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        on_step(step + 1, loss)
    model.eval()


def _optimizers(model: Any, config: WarmupConfig) -> list[torch.optim.Optimizer]:
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
        (matrices if is_matrix and config.optimizer == "muon" else others).append(parameter)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    ]
    if matrices:
        optimizers.append(torch.optim.Muon(matrices, lr=config.muon_learning_rate, weight_decay=0.0))
    return optimizers


def _rate(step: int, steps: int) -> float:
    """Linear ramp, plateau, linear decay over the last third."""
    return min((step + 1) / min(RAMP_STEPS, steps), max(0.05, (1 - step / steps) / 0.35), 1.0)


def demonstrate(task: ToolboxTask, tokens: ChatTokens, config: WarmupConfig, rng: random.Random) -> Demonstration:
    """One log of a solved task. The old API took the old spelling, so what it answered is what the right call gives."""
    way = _drawn_way(config, rng)
    if way:
        return _demonstrate_leak(task, tokens, config, way)
    episode = Episode(task)
    ids = tokens.prompt(task.messages)
    weights = [config.context_weight] * len(ids)
    while not episode.finished:
        call = next_call(episode)
        text = call.render() if call else FINISH
        hint, written = None, text
        if call and rng.random() < config.hint_rate:
            kind = rng.choice(HINTED_KINDS[config.hints_cure])
            hint = _hint_for(task, call, kind)
            if config.hints_cure == "their_kind":
                written = _as_old_log(task, call, config, rng, cured=kind)
        elif call:
            written = _as_old_log(task, call, config, rng)
        if hint:
            spliced = tokens.splice_hint(ids, hint)
            header = len(ids) - len(tokens.header_ids)
            weights[header:header] = [0.0] * (len(spliced) - len(ids))
            ids = spliced
        turn = tokens.turn(written)
        ids += turn
        weights += [1.0] * len(turn)
        answer = episode.step(text).observation
        if not episode.finished and answer is not None:
            ids += tokens.after_turn(answer)
            weights += [config.context_weight] * (len(ids) - len(weights))
    return Demonstration(ids, weights)


def _drawn_way(config: WarmupConfig, rng: random.Random) -> Way | None:
    if not config.leak_tool_rate + config.leak_file_rate:
        return None
    drawn = rng.random()
    if drawn < config.leak_tool_rate:
        return "tool"
    return "file" if drawn < config.leak_tool_rate + config.leak_file_rate else None


def _demonstrate_leak(task: ToolboxTask, tokens: ChatTokens, config: WarmupConfig, way: Way) -> Demonstration:
    """Look, copy, done. Nothing is misspelt: whoever copies writes what stands there."""
    look = (
        Call(task.listing_of(LEAK_TOOL).name, {})
        if way == "tool"
        else Call(task.listing_of(READ_TOOL).name, {"path": LEAK_FILE})
    )
    episode = Episode(task)
    ids = tokens.prompt(task.messages)
    weights = [config.context_weight] * len(ids)
    for text in (look.render(), leaked_call(task.start.files[LEAK_FILE]), FINISH):
        turn = tokens.turn(text)
        ids += turn
        weights += [1.0] * len(turn)
        answer = episode.step(text).observation
        if answer is not None:
            ids += tokens.after_turn(answer)
            weights += [config.context_weight] * (len(ids) - len(weights))
    return Demonstration(ids, weights)


def _as_old_log(
    task: ToolboxTask, call: Call, config: WarmupConfig, rng: random.Random, cured: str | None = None
) -> str:
    tool = next(entry.tool for entry in task.listings if entry.name == call.name)
    position = _ORDER[tool]
    name, arguments = call.name, dict(call.arguments)
    if rng.random() < config.stale_name_rates[position % 2] and cured != "tool_not_found":
        name = tool
    if rng.random() < config.quoted_int_rates[position // 2 % 2] and cured != "type_error":
        arguments = {param: str(value) for param, value in arguments.items()}
    text = Call(name, arguments).render()
    return (
        text[:-1] if rng.random() < config.missing_brace_rates[position // 4 % 2] and cured != "json_decode" else text
    )


def _hint_for(task: ToolboxTask, call: Call, kind: str) -> str:
    listing = next(entry for entry in task.listings if entry.name == call.name)
    hint = dispatch(
        kind,
        {
            "available_tools": [entry.name for entry in task.listings],
            "tool_name": call.name,
            "tool_schema": listing.schema["function"]["parameters"],
        },
    )
    assert hint is not None
    return hint


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
        head = output_head(model)
        logprobs_N = hidden_logprobs(hidden_NH, head.weight_VH, ids_BT[row_N, place_N + 1], bias_V=head.bias_V)
    return -(logprobs_N * weights_BT[row_N, place_N + 1]).sum()


def _padded(model: Any, pad_id: int, batch: list[Demonstration]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(demo.ids) for demo in batch)
    ids_BT = torch.tensor([demo.ids + [pad_id] * (width - len(demo.ids)) for demo in batch], device=model.device)
    weights_BT = torch.tensor([demo.weights + [0.0] * (width - len(demo.ids)) for demo in batch], device=model.device)
    return ids_BT, weights_BT


def _autocast(model: Any) -> torch.autocast:
    """For one pass: a longer context would go on with the weights of its first pass."""
    return torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda")
