"""Who runs the steps. A backend is a function that trains a policy and returns a record of each step.

Its package declares in `COMPOSITE` which of the two golden composites of `tests/golden` it computes:
`whole-vocabulary`, or `sampled-token` for engines that give no logits. `LOST`, where it has one, says what the engine
cannot do, in sentences for the start of a run and for the model card.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from composer_replication.errors import UsageError

BACKENDS = {
    "trl": "composer_replication.training.train:train",
    "trl_async": "composer_replication.training.train_async:train",
    "tinker": "composer_replication.training.train_tinker:train",
    "verl": "composer_replication.training.train_verl:train",
}
OPTIONS = {"url": "tinker", "ray_address": "verl", "override": "verl"}
"""Of the command line: what only one of them takes."""


def refuse_unknown_backend(name: str, **options: Any) -> None:
    """`options` as they were given; those that were not are empty."""
    if name not in BACKENDS:
        raise UsageError(f"no backend {name}", f"choose one of {', '.join(BACKENDS)}")
    for option, taker in OPTIONS.items():
        if options.get(option) and name != taker:
            told = f"--{option.replace('_', '-')} does nothing with --backend {name}"
            raise UsageError(told, f"take it out, or use --backend {taker}")
    if name == "tinker" and not options.get("url"):
        raise UsageError(f"--backend {name} trains on a server", "give its address: --url http://…")


def open_backend(name: str) -> Callable[..., Any]:
    """Called with policy, config, environment, stored examples, folder and progress."""
    module, _, function = BACKENDS[name].partition(":")
    return getattr(importlib.import_module(module), function)


def lost_by(name: str) -> tuple[str, ...]:
    return getattr(importlib.import_module(f"{__name__}.{name}"), "LOST", ())
