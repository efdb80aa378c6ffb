"""Code tasks for a policy that acts on text: TRL's `rollout_func`, and attempts that keep the sampled ids.

The response format is set by hand (`<tool_call>` and JSON, told in the system message), so a chat template needs no
tools of its own: SmolLM2 has none. Sandboxes answer slowly, so steps of many episodes overlap while turns are sampled
in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from composer_replication.environments.code.episodes.prompt import opening
from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.episodes.text_episode import TextEpisode
from composer_replication.environments.code.tasks.task import TaskFolder
from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from ..backends.trl.rollouts import RolloutFunction, Watcher, prompt_key, rollout_function
from ..models.loading import Policy
from .static_sampling import turn_sampler
from .worker import Rollout, RolloutSettings, RolloutWorker


@dataclass(frozen=True)
class CodeRolloutSettings:
    max_turn_tokens: int = 512
    max_completion_tokens: int = 8192
    """Turns and answers of one episode together."""
    temperature: float = 1.0
    concurrency: int = 8
    step_timeout_s: float = 600.0
    """Of one turn in its sandbox, grading included."""
    backend: str = "auto"
    session: SessionLimits = field(default_factory=SessionLimits)

    def worker(self) -> RolloutSettings:
        return RolloutSettings(
            max_turn_tokens=self.max_turn_tokens,
            temperature=self.temperature,
            max_completion_tokens=self.max_completion_tokens,
            max_turns=self.session.steps,
            max_concurrency=self.concurrency,
            step_timeout_s=self.step_timeout_s,
        )


def code_rows(tasks: Sequence[TaskFolder]) -> list[JsonObject]:
    """The dataset for `code_rollout_function`: prompts that its tasks answer to."""
    return [{"prompt": opening(task.code_task, calls_as_text=True)} for task in tasks]


def code_rollout_function(
    policy: Policy,
    tasks: Sequence[TaskFolder],
    settings: CodeRolloutSettings,
    seed: int,
    batch: int,
    watcher: Watcher | None = None,
) -> RolloutFunction:
    """What `GRPOTrainer(rollout_func=…)` calls. `batch` is the number of prompts of one call.
    With a `monitoring.RolloutMonitor` as `watcher`, its `monitor_penalty` belongs to the reward functions."""
    by_prompt = {prompt_key(opening(task.code_task, calls_as_text=True)): task for task in tasks}
    if len(by_prompt) < len(tasks):
        raise UsageError("two tasks have the same statement", "leave one of them out")

    def episode_of(prompt: Any) -> TextEpisode:
        return TextEpisode(by_prompt[prompt_key(prompt)], settings.backend, settings.session)

    generator = torch.Generator(device=policy.model.device).manual_seed(seed)
    worker = _worker(policy, tasks, settings, batch)
    return rollout_function(worker, episode_of, source_model=policy.name, generator=generator, watcher=watcher)


class CodeRoller:
    """Plays code tasks with a policy, graded, and keeps the ids and log-probabilities that were sampled."""

    def __init__(self, policy: Policy, tasks: Sequence[TaskFolder], settings: CodeRolloutSettings, batch: int) -> None:
        """`tasks` are all that will be played: the longest statement decides the room."""
        self._policy, self._settings = policy, settings
        self._worker = _worker(policy, tasks, settings, batch)

    def play(self, tasks: Sequence[TaskFolder], seed: int) -> list[Rollout[TextEpisode]]:
        """One rollout per entry. The sandboxes are gone when this returns; traces can still be read."""
        generator = torch.Generator(device=self._policy.model.device).manual_seed(seed)
        episodes = [TextEpisode(task, self._settings.backend, self._settings.session) for task in tasks]
        try:
            return self._worker.run(episodes, generator)
        finally:
            for episode in episodes:
                episode.close()


def _worker(policy: Policy, tasks: Sequence[TaskFolder], settings: CodeRolloutSettings, batch: int) -> RolloutWorker:
    longest = max(len(policy.tokens.prompt(opening(task.code_task, calls_as_text=True))) for task in tasks)
    room = longest + settings.max_completion_tokens
    limit: int = policy.model.config.max_position_embeddings
    if room > limit:
        raise UsageError(
            f"a statement of {longest} tokens and {settings.max_completion_tokens} more do not fit the {limit} of "
            f"{policy.name}",
            f"lower the completion to {max(0, limit - longest)} tokens, or choose shorter tasks",
        )
    return RolloutWorker(turn_sampler(policy.model, policy.tokens, batch, room), policy.tokens, settings.worker())
