"""The one place that reaches into TRL beyond its public names; `tests/unit/test_trl_compat.py` holds TRL to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trl.models.utils import _ForwardRedirection  # pyright: ignore[reportPrivateUsage]


def call_inside_forward(wrapper: Any, model: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call within the forward pass of whatever wraps the model, so that the wrapper's hooks fire."""
    return _ForwardRedirection()(wrapper, model, function, *arguments)
