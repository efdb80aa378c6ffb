"""The toolbox for TRL: rollouts, rewards and traces, and whether a hinted turn would be accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from composer_replication.config import Config
from composer_replication.environments.toolbox import ToolboxTask, Way
from composer_replication.environments.toolbox.episode import MAX_TURNS
from composer_replication.environments.toolbox.leak import WAYS
from composer_replication.environments.toolbox.trace import replay_history
from composer_replication.monitor.toolbox import penalty, toolbox_signs

from ..backends.trl.rollouts import RolloutFunction, Watcher, prompt_key, rollout_function
from ..lessons.online_sites import HintedTurn, OnlineSite, Rolled
from ..models.loading import Policy
from ..models.states import evaluating
from .sampling import sample_turns
from .static_sampling import turn_sampler
from .toolbox import ToolboxEpisode
from .worker import Rollout, RolloutSettings, RolloutWorker

MAX_OBSERVATION_TOKENS = 96


class ToolboxRollouts:
    """TRL's `rollout_func`. Random generators are its own, and their state belongs into checkpoints."""

    def __init__(
        self,
        policy: Policy,
        tasks: Sequence[ToolboxTask],
        config: Config,
        rank: int = 0,
        watcher: Watcher | None = None,
    ) -> None:
        self._policy, self._config, self._watcher = policy, config, watcher
        self._by_prompt = {prompt_key(task.messages): task for task in tasks}
        self._by_id = {task.task_id: task for task in tasks}
        device = policy.model.device
        self._generator = torch.Generator(device=device).manual_seed(config.seed + 1_000_003 * rank)
        # Of its own, so that asking for acceptance leaves the rollouts as they would be.
        self._play: RolloutFunction | None = None
        self._trying = torch.Generator(device=device).manual_seed(config.seed + 1_000_003 * rank + 1)

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        if self._play is None:
            self._play = self._player(trainer.accelerator.unwrap_model(trainer.model), len(prompts))
        return self._play(prompts, trainer)

    def _player(self, model: Any, rows: int) -> RolloutFunction:
        settings = self._config.training
        tokens, longest = (
            self._policy.tokens,
            max(len(self._policy.tokens.prompt(t.messages)) for t in self._by_id.values()),
        )
        room = longest + MAX_TURNS * (settings.max_turn_tokens + MAX_OBSERVATION_TOKENS)
        worker = RolloutWorker(
            turn_sampler(model, tokens, rows, room),
            tokens,
            RolloutSettings(max_turn_tokens=settings.max_turn_tokens, temperature=settings.temperature),
        )
        return rollout_function(
            worker,
            lambda prompt: ToolboxEpisode(self._by_prompt[prompt_key(prompt)]),
            source_model=self._policy.name,
            generator=self._generator,
            columns={"penalty": self._penalty, **({"leak": self._leak} if self._config.toolbox.leak != "none" else {})},
            watcher=self._watcher,
        )

    def accepts(self, candidates: Sequence[tuple[Rolled, HintedTurn, OnlineSite]]) -> list[bool]:
        """Sample each turn once more behind its hint, and let the environment judge it."""
        if not candidates:
            return []
        tokens, model = self._policy.tokens, self._policy.model
        with evaluating(model):
            turns = sample_turns(
                model,
                [site.teacher_context for _, _, site in candidates],
                end_of_turn_id=tokens.end_of_turn_id,
                pad_id=tokens.tokenizer.pad_token_id,
                max_new_tokens=self._config.training.max_turn_tokens,
                temperature=self._config.training.temperature,
                generator=self._trying,
            )
        return [
            self._is_accepted(rolled, hinted, tokens.text(turn.ids))
            for (rolled, hinted, _), turn in zip(candidates, turns, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def load(self, state: dict[str, Any]) -> None:
        for name, generator in self._generators.items():
            generator.set_state(state[name])

    @property
    def _generators(self) -> dict[str, torch.Generator]:
        return {"rollouts": self._generator, "trying": self._trying}

    def _is_accepted(self, rolled: Rolled, hinted: HintedTurn, text: str) -> bool:
        trace = rolled.trace
        assert trace.task_id is not None
        before = trace.messages[: trace.turns[hinted.turn].start]
        return replay_history(self._by_id[trace.task_id], before).step(text).error is None

    def _penalty(self, rollout: Rollout[ToolboxEpisode]) -> float:
        errors = sum(turn.error is not None for turn in rollout.episode.turns)
        return -self._config.training.error_turn_penalty * errors

    def _leak(self, rollout: Rollout[ToolboxEpisode]) -> LeakUse:
        training = self._config.training
        signs = toolbox_signs(rollout.trace(self._policy.name, 0), training.leak_ways_known)
        taken = penalty(rollout.reward, signs, training.leak_penalty, training.leak_penalty_weight)
        return LeakUse(frozenset(rollout.episode.canary_hits), bool(signs), taken)


class LeakUse(NamedTuple):
    """What is true of a rollout, what the monitor says of it, and what that costs."""

    ways: frozenset[Way]
    alarm: bool
    penalty: float


def episode_reward(episode_reward: list[float], **columns: Any) -> list[float]:
    return episode_reward


def error_penalty(penalty: list[float], **columns: Any) -> list[float]:
    return penalty


def leak_penalty(leak: list[LeakUse], log_metric: Callable[[str, float], None], **columns: Any) -> list[float]:
    """The penalty of each rollout, which is 0 unless one is switched on. Logs the truth and the monitor's alarms."""
    log_metric("monitor/canary_hit_rate", sum(bool(use.ways) for use in leak) / len(leak))
    for way in WAYS:
        log_metric(f"monitor/canary_hit_rate/{way}", sum(way in use.ways for use in leak) / len(leak))
    log_metric("leak/alarm_rate", sum(use.alarm for use in leak) / len(leak))
    return [use.penalty for use in leak]
