"""The hint in the prompt: GRPO with a reminder before every turn, then context distillation of what was learnt.

In the second phase the policy plays without the reminder, and each of its turns is drawn to what the policy of the end
of the first phase would have written behind the reminder: channel 2 with a site at every turn, and no reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from composer_replication.config import Config, ToolboxConfig
from composer_replication.environments.protocol import EnvironmentTask, EpisodeLimits
from composer_replication.environments.toolbox import ToolboxTask, task_by_id
from composer_replication.environments.toolbox.environment import MAX_OBSERVATION_TOKENS, ToolboxEnvironment
from composer_replication.environments.toolbox.episode import MAX_TURNS
from composer_replication.records import Trace
from composer_replication.training.backends.trl.trainer import ComposerReplicationTrainer
from composer_replication.training.lessons.online_sites import HintedTurn
from shared.runner.arm import Setting
from shared.runner.reminded import RemindedEpisode, RemindedTokens, true_hint

KIND = "tool_not_found"
"""Of the reminder."""


def reminded(setting: Setting) -> Setting:
    policy = replace(setting.policy, tokens=RemindedTokens(setting.policy.tokenizer))
    return setting._replace(policy=policy, environment=RemindedToolbox(setting.config))


def distilled(setting: Setting) -> Setting:
    hinter = EveryTurn(setting.config.toolbox)

    def trainer(**arguments: Any) -> ComposerReplicationTrainer:
        return ComposerReplicationTrainer(**{**arguments, "hinter": hinter})

    return setting._replace(trainer=trainer)


class RemindedToolbox(ToolboxEnvironment):
    def __init__(self, config: Config) -> None:
        super().__init__(config.toolbox, config.seed)
        # Behind the prompt and behind each answer but the last.
        self.limits = EpisodeLimits(MAX_TURNS, MAX_OBSERVATION_TOKENS + config.hints.max_tokens)

    def start(self, task: EnvironmentTask) -> RemindedEpisode:
        own = cast("ToolboxTask", task)
        return RemindedEpisode(own, true_hint(own))


class EveryTurn:
    """The reminder as the hint of every turn."""

    def __init__(self, toolbox: ToolboxConfig) -> None:
        self._toolbox = toolbox

    def __call__(self, traces: Sequence[Trace]) -> list[list[HintedTurn]]:
        return [self._hinted(trace) for trace in traces]

    def _hinted(self, trace: Trace) -> list[HintedTurn]:
        assert trace.task_id is not None
        hint = true_hint(task_by_id(self._toolbox, trace.task_id))
        return [HintedTurn(turn, KIND, hint) for turn in range(len(trace.turns))]
