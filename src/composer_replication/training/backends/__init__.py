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
}
AT_A_URL = ("tinker",)
"""Those whose steps a server makes."""


def refuse_unknown_backend(name: str, url: str | None = None) -> None:
    if name not in BACKENDS:
        raise UsageError(f"no backend {name}", f"choose one of {', '.join(BACKENDS)}")
    if url and name not in AT_A_URL:
        raise UsageError(f"--url does nothing with --backend {name}", "take it out, or use --backend tinker")
    if not url and name in AT_A_URL:
        raise UsageError(f"--backend {name} trains on a server", "give its address: --url http://…")


def open_backend(name: str) -> Callable[..., Any]:
    """Called with policy, config, environment, stored examples, folder and progress."""
    module, _, function = BACKENDS[name].partition(":")
    return getattr(importlib.import_module(module), function)


def lost_by(name: str) -> tuple[str, ...]:
    return getattr(importlib.import_module(f"{__name__}.{name}"), "LOST", ())
