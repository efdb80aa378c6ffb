"""verl's agent loop over any `Environment`: one episode, played with the ids that were sampled, and its error turns.

Reads the run's config from the folder that the override `composer.folder` names. What is found at error turns goes to
the trainer as `extra_fields["composer_sites"]`: the hinted contexts, which the training engine scores itself.
`extra_fields["composer_left_out"]` counts the turns that became no site, by reason.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from composer_replication.config import Config
from composer_replication.environments.opening import find_factory
from composer_replication.environments.protocol import Episode
from composer_replication.objective import SdpoSettings
from composer_replication.records import content_id

from ....lessons.hinters import hinter_of
from ....lessons.online_sites import OnlineSite, find_online_sites
from ....models.tokens import ChatTokens
from ....rollouts.environment_steps import FreeSteps
from ....rollouts.playing import closed, rollout_settings, started
from ....rollouts.sampling import SampledTurn
from ....rollouts.worker import MAX_SEED, Rollout, RolloutWorker
from ..overrides import CONFIG_FILE


class EpisodePlayer:
    """What all episodes of a process share."""

    def __init__(self, folder: Path, tokenizer: Any) -> None:
        self.config = Config.model_validate_json((folder / CONFIG_FILE).read_text())
        self.environment = find_factory(self.config.environment.name)(self.config)
        self.tokens = ChatTokens(tokenizer, None, self.config.model.chat_template_kwargs)
        training, limits = self.config.training, self.environment.limits
        self.settings = rollout_settings(limits, training.max_turn_tokens, training.temperature)
        self.steps = FreeSteps(limits.concurrency, limits.step_timeout_s)
        self.hinter = hinter_of(self.config.hints, self.config.channel(SdpoSettings))

    async def play(self, sampler: ServerTurns, task_id: str, seed: int) -> AgentLoopOutput:
        task = self.environment.task(task_id)
        episodes = await asyncio.to_thread(started, self.environment, [task])
        try:
            rollout = Rollout(episodes[0], self.tokens.prompt(episodes[0].messages))
            worker = RolloutWorker(sampler, self.tokens, self.settings)
            worker.check([rollout])
            await worker.play(sampler, rollout, self.steps, seed)
            return await asyncio.to_thread(self._output, rollout, sampler.versions)
        finally:
            await asyncio.to_thread(closed, self.environment, episodes)

    def _output(self, rollout: Rollout[Episode], versions: Sequence[int]) -> AgentLoopOutput:
        trace = rollout.row_trace("policy", 0)
        observed = self.environment.observe([rollout.episode], [trace])
        errors = sum(turn.failed for turn in rollout.turns)
        reward = rollout.reward - self.config.training.error_turn_penalty * errors
        sites, left_out = self._sites(rollout, trace)
        return AgentLoopOutput(
            prompt_ids=rollout.prompt_ids,
            response_ids=rollout.completion_ids,
            response_mask=rollout.sampled_mask,
            response_logprobs=rollout.logprobs,
            reward_score=reward + (observed.charges[0] if observed else 0.0),
            num_turns=2 * len(rollout.turns) + 1,
            metrics=AgentLoopMetrics(),
            extra_fields={
                "composer_sites": [(site.start, site.end, site.teacher_context) for site in sites],
                "composer_left_out": list(left_out.items()),
                "min_global_steps": min(versions, default=0),
                "max_global_steps": max(versions, default=0),
                "turn_scores": [],
                "tool_rewards": [],
            },
        )

    def _sites(self, rollout: Rollout[Episode], trace: Any) -> tuple[list[OnlineSite], Counter[str]]:
        sdpo = self.config.channel(SdpoSettings)
        if not sdpo.weight or sdpo.source != "rollouts":
            return [], Counter()
        rolled, limit = rollout.rolled(trace), self.config.training.max_tokens
        (sites,), left_out = find_online_sites([rolled], self.hinter, self.tokens, sdpo, max_teacher_tokens=limit)
        return sites, left_out


class ServerTurns:
    """verl's servers as a `FreeSampler`. One request id for an episode, so that one server keeps its prefix."""

    def __init__(self, client: Any, params: dict[str, Any], end_of_turn_id: int, max_tokens: int, episode: str) -> None:
        self._client, self._params, self._episode = client, params, episode
        self._stop = {"stop_token_ids": [end_of_turn_id]}
        self.max_tokens: int | None = max_tokens
        self.versions: list[int] = []

    def refresh(self, model: Any) -> None:
        """verl sends its servers the weights itself."""

    def connected(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def write(self, context: Sequence[int], *, max_new_tokens: int, temperature: float, seed: int) -> SampledTurn:
        # SGLang calls it otherwise and refuses what it does not know.
        seeded = {} if self._client.config.actor_rollout_ref.rollout.name == "sglang" else {"seed": seed}
        written = await self._client.generate(
            request_id=self._episode,
            prompt_ids=list(context),
            sampling_params={**self._params, **self._stop, **seeded, "max_tokens": max_new_tokens},
        )
        version = written.extra_fields.get("global_steps") or 0
        self.versions.append(version)
        return SampledTurn(written.token_ids, written.log_probs or [0.0] * len(written.token_ids), version)


@lru_cache(maxsize=1)
def player_of(folder: str, tokenizer: Any) -> EpisodePlayer:
    return EpisodePlayer(Path(folder), tokenizer)


@register("composer")
class ComposerAgentLoop(AgentLoopBase):
    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        player = player_of(self.config.composer.folder, self.tokenizer)
        task_id, member = row["extra_info"]["task_id"], row["session_id"]
        identity = (player.config.seed, task_id, int(row["global_steps"]), int(member))
        room = int(self.rollout_config.prompt_length + self.rollout_config.response_length)
        sampler = ServerTurns(
            self.server_manager, sampling_params, player.tokens.end_of_turn_id, room, f"{row['uid']}_{member}"
        )
        return await player.play(sampler, task_id, int(content_id(*identity), 16) % MAX_SEED)
