"""Held-out episodes of a policy, at temperature 1, and how far it has moved from its start."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from composer_replication.config import Config
from composer_replication.environments.toolbox import Split, ToolboxEpisode, ToolboxTask, make_task
from composer_replication.environments.toolbox.environment import MAX_OBSERVATION_TOKENS
from composer_replication.environments.toolbox.episode import MAX_TURNS
from composer_replication.losses import hidden_logprobs
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.states import last_hidden, output_head
from composer_replication.training.rollouts.sampling import TurnSampler
from composer_replication.training.rollouts.static_sampling import turn_sampler
from composer_replication.training.rollouts.worker import Rollout, RolloutSettings, RolloutWorker

from .plan import FIRST_TASK
from .reminded import RemindedEpisode, RemindedTokens, Reminder

ROWS = 256
LOGPROB_ROWS = 32
MEASURING_SEED = 77


class Measure:
    """Keeps one sampler for all policies of a process, so that its graphs are captured once."""

    def __init__(self, config: Config, hint_tokens: int = 0) -> None:
        """`hint_tokens` is the room that hints of one turn may take."""
        self._config, self._hint_tokens = config, hint_tokens
        self._sampler: TurnSampler | None = None

    def episodes(
        self, policy: Policy, split: Split, part: str, tasks: int, samples: int, hint: Reminder | None = None
    ) -> list[Rollout[ToolboxEpisode]]:
        """With `hint`, what it says stands before every turn."""
        wanted = [make_task(self._config.toolbox, split, FIRST_TASK[part] + index) for index in range(tasks)]
        return self._play(policy, [task for task in wanted for _ in range(samples)], hint)

    def _play(
        self, policy: Policy, tasks: Sequence[ToolboxTask], hint: Reminder | None
    ) -> list[Rollout[ToolboxEpisode]]:
        training = self._config.training
        if self._sampler is None:
            longest = max(len(policy.tokens.prompt(task.messages)) for task in tasks)
            # Prompts of other splits may be somewhat longer; no answer of the toolbox comes near its limit.
            room = longest + 64 + MAX_TURNS * (training.max_turn_tokens + MAX_OBSERVATION_TOKENS // 3)
            room += MAX_TURNS * self._hint_tokens
            self._sampler = turn_sampler(policy.model, policy.tokens, min(ROWS, len(tasks)), room)
        self._sampler.refresh(policy.model)
        tokens = RemindedTokens(policy.tokenizer) if hint else policy.tokens
        worker = RolloutWorker(self._sampler, tokens, RolloutSettings(training.max_turn_tokens, training.temperature))
        generator = torch.Generator(device=policy.model.device).manual_seed(MEASURING_SEED)
        rollouts: list[Rollout[ToolboxEpisode]] = []
        for begin in range(0, len(tasks), ROWS):
            part = tasks[begin : begin + ROWS]
            episodes = [RemindedEpisode(task, hint(task)) if hint else ToolboxEpisode(task) for task in part]
            rollouts += worker.run(episodes, generator)
        return rollouts


def outcomes(rollouts: Sequence[Rollout[ToolboxEpisode]]) -> list[dict[str, Any]]:
    """One line per task: rewards, turns, and the errors of every sample."""
    by_task: dict[str, list[Rollout[ToolboxEpisode]]] = defaultdict(list)
    for rollout in rollouts:
        by_task[rollout.episode.task.task_id].append(rollout)
    return [
        {
            "task_id": task,
            "rewards": [int(one.reward) for one in own],
            "turns": [len(one.episode.turns) for one in own],
            "errors": [[turn.error.kind for turn in one.episode.turns if turn.error] for one in own],
            "tokens": [sum(one.sampled_mask) for one in own],
        }
        for task, own in by_task.items()
    ]


def summary(rollouts: Sequence[Rollout[ToolboxEpisode]]) -> dict[str, float]:
    turns = [turn for one in rollouts for turn in one.episode.turns]
    troubled = [one for one in rollouts if any(turn.error for turn in one.episode.turns)]
    sampled = [logprob for one in rollouts for logprob, own in zip(one.logprobs, one.sampled_mask, strict=True) if own]
    return {
        "success": sum(one.reward for one in rollouts) / len(rollouts),
        "errors_per_turn": sum(turn.error is not None for turn in turns) / len(turns),
        "recovery": sum(one.reward for one in troubled) / len(troubled) if troubled else 0.0,
        "entropy": -sum(sampled) / len(sampled),
    }


@torch.no_grad()
def kl_to(start: Policy, policy: Policy, rollouts: Sequence[Rollout[ToolboxEpisode]]) -> float:
    """Nats per sampled token, estimated on the policy's own episodes."""
    total, count = 0.0, 0
    for begin in range(0, len(rollouts), LOGPROB_ROWS):
        part = rollouts[begin : begin + LOGPROB_ROWS]
        now, then = (_logprobs(one.model, part) for one in (policy, start))
        total += float((now - then).sum())
        count += len(now)
    return total / count


def _logprobs(model: Any, rollouts: Sequence[Rollout[ToolboxEpisode]]) -> torch.Tensor:
    rows = [one.context_ids for one in rollouts]
    width = max(map(len, rows))
    ids_BT = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=model.device)
    mask_BT = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
        hidden_BTD = last_hidden(model, ids_BT, mask_BT)
    places = [
        (row, len(one.prompt_ids) + place - 1)
        for row, one in enumerate(rollouts)
        for place, own in enumerate(one.sampled_mask)
        if own
    ]
    row_N, place_N = torch.tensor(places, device=model.device).T
    weight_VH = output_head(model).weight_VH
    return hidden_logprobs(hidden_BTD[row_N, place_N].float(), weight_VH.float(), ids_BT[row_N, place_N + 1])
