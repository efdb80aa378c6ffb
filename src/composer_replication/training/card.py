"""The model card of a trained policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from composer_replication import __version__
from composer_replication.config import Config
from composer_replication.objective import ChannelSettings, SdpoSettings, TrdpoSettings

DILOCO_LOST = (
    "each replica trained alone between two meetings, and the optimiser's state was never averaged",
    "a window whose meeting failed is thrown away; `lost` counts those that this replica saw",
)
LICENCES = {"tiny": "mit", "smollm2": "apache-2.0", "qwen2.5-coder-1.5b": "apache-2.0"}


def model_card(config: Config, counts: Mapping[str, object], lost: Sequence[str] = ()) -> str:
    """`lost` is what the engine could not do."""
    rows = "\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in counts.items() if name != "skipped")
    settings = config.training
    licence = LICENCES.get(config.model.name, "other")
    teachers = "*simulated teachers*, noisy oracles of the environment"
    if not config.replay.simulated:
        teachers = ", ".join(config.replay.teachers)
    active = [channel for channel in config.channels if channel.weight and not _is_idle(channel, counts)]
    terms = [channel.label if channel.weight == 1 else f"{channel.weight} · {channel.label}" for channel in active]
    engine = _limits(f"--backend {counts['backend']}", lost) + _limits("--diloco", DILOCO_LOST * ("diloco" in counts))
    place = f"in the {config.environment.name} environment" if settings.rollouts else "on stored traces alone"
    world = "one small tool-calling world" if config.environment.name == "toolbox" else "what it was trained on"
    return f"""---
library_name: transformers
tags: [grpo, sdpo, dpo, tool-calling, composer-replication]
license: {licence}
---
# A policy trained with composer-replication {__version__}

Starting model: `{config.model.name}`. Trained for {settings.steps} steps with
{" + ".join(terms)} {place}, seed {config.seed}.
Teachers of channel 3: {teachers}.

| | |
|---|---|
{rows}
{engine}
Config hash: `{config.hash}`. Command: `recompose quickstart` or `recompose train RUN`; `config.json` and the raw
records of every stage lie in the run directory. Held-out results: `evaluation/` of the same run.

The model knows {world}. It is a demonstration of the method, not an assistant.
"""


def _is_idle(channel: ChannelSettings, counts: Mapping[str, object]) -> bool:
    """It learns from stored records, and the run has none."""
    if isinstance(channel, SdpoSettings):
        return channel.source == "stored" and not counts["hinted_sites"]
    return isinstance(channel, TrdpoSettings) and not counts["pairs"]


def _limits(option: str, lost: Sequence[str]) -> str:
    sentences = "".join(f"- {sentence}\n" for sentence in lost)
    return f"\nWhat `{option}` cannot do:\n\n{sentences}" if lost else ""
