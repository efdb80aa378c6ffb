"""The model card of a trained policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from composer_replication import __version__
from composer_replication.config import Config

NEEDS = {"sdpo": "hinted_sites", "trdpo": "pairs"}
"""Channels that are idle where a count of the run is 0."""
LICENCES = {"tiny": "mit", "smollm2": "apache-2.0", "qwen2.5-coder-1.5b": "apache-2.0"}


def model_card(config: Config, counts: Mapping[str, object], lost: Sequence[str] = ()) -> str:
    """`lost` is what the engine could not do."""
    rows = "\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in counts.items() if name != "skipped")
    settings = config.training
    licence = LICENCES.get(config.model.name, "other")
    teachers = "*simulated teachers*, noisy oracles of the environment"
    if not config.replay.simulated:
        teachers = ", ".join(config.replay.teachers)
    idle = {kind for kind, data in NEEDS.items() if not counts[data]}
    active = [channel for channel in config.channels if channel.weight and channel.name not in idle]
    terms = [channel.label if channel.weight == 1 else f"{channel.weight} · {channel.label}" for channel in active]
    without = "".join(f"- {sentence}\n" for sentence in lost)
    engine = f"\nWhat `--backend {counts['backend']}` cannot do:\n\n{without}" if lost else ""
    return f"""---
library_name: transformers
tags: [grpo, sdpo, dpo, tool-calling, composer-replication]
license: {licence}
---
# A policy trained with composer-replication {__version__}

Starting model: `{config.model.name}`. Trained for {settings.steps} steps with
{" + ".join(terms)} in the toolbox environment, seed {config.seed}.
Teachers of channel 3: {teachers}.

| | |
|---|---|
{rows}
{engine}
Config hash: `{config.hash}`. Command: `recompose quickstart` or `recompose train RUN`; `config.json` and the raw
records of every stage lie in the run directory. Held-out results: `evaluation/` of the same run.

The model knows one small tool-calling world. It is a demonstration of the method, not an assistant.
"""
