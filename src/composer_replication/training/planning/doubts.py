"""What a plan doubts: settings and data that may teach little, told before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator

from composer_replication.config import Config
from composer_replication.objective import SdpoSettings

SHORT_STEPS = 20
"""A run with fewer feels each step that moves nothing."""


FEW_TRACES = 8
"""Of a step, below which it may teach nothing: of 21 sites of real sessions SmolLM2-135M kept 7, one to a trace, which
leaves a step of 4 empty in a fifth of all cases and one of 8 in 4 %."""
NO_TOOLS = "the chat template of the model does not write tools"


def no_tools_shown(states: int) -> str:
    return f"{NO_TOOLS}: at {states:,} states it does not see those that it is trained on and judged by"


def doubts(config: Config, states_without_tools: int) -> Iterator[str]:
    training, sdpo = config.training, config.channel(SdpoSettings)
    if states_without_tools:
        yield no_tools_shown(states_without_tools)
    if training.steps < SHORT_STEPS and (rising := training.rate_warmup_steps):
        yield (
            f"the first of {training.steps} steps has a learning rate of 0, and the rate rises over {rising}; "
            "training.rate_warmup_steps = 0 takes the whole rate at once"
        )
    if not training.rollouts and sdpo.weight and sdpo.require_disfavour and training.traces_per_step < FEW_TRACES:
        yield (
            "require_disfavour of the channel sdpo drops sites whose hint does not make the turn less likely, so a "
            f"step of {training.traces_per_step} traces may be left without any; a larger training.traces_per_step, or "
            "require_disfavour = false, gives more"
        )
