"""The teachers of channel 2 in a trainer of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback

from ...channels import Channel
from ...lessons.self_teacher import SelfTeacher


class Following(TrainerCallback):
    """Has a teacher follow the policy."""

    def __init__(self, teacher: SelfTeacher) -> None:
        self._teacher = teacher

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._teacher.begin(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._teacher.update(model)


def teachers_of(channels: Sequence[Channel]) -> dict[str, SelfTeacher]:
    """Of channels on stored traces, by the name that they have in a checkpoint; a live one keeps nothing."""
    found = {f"teacher_{channel.name}": getattr(channel, "teacher", None) for channel in channels}
    return {name: one for name, one in found.items() if isinstance(one, SelfTeacher) and not one.is_live}
