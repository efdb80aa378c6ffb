"""Who runs the steps. A backend is a function that trains a policy and returns a record of each step.

Its package declares in `COMPOSITE` which of the two golden composites of `tests/golden` it computes:
`whole-vocabulary`, or `sampled-token` for engines that give no logits.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from composer_replication.errors import UsageError

BACKENDS = {
    "trl": "composer_replication.training.train:train",
    "trl_async": "composer_replication.training.train_async:train",
}


def refuse_unknown_backend(name: str) -> None:
    if name not in BACKENDS:
        raise UsageError(f"no backend {name}", f"choose one of {', '.join(BACKENDS)}")


def open_backend(name: str) -> Callable[..., Any]:
    """Called with policy, config, environment, stored examples, folder and progress."""
    refuse_unknown_backend(name)
    module, _, function = BACKENDS[name].partition(":")
    return getattr(importlib.import_module(module), function)
