"""The teachers of channel 2 in a trainer of transformers, and what else its checkpoints keep for us."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ...channels import Channel
from ...interrupts import held_back
from ...lessons.self_teacher import SelfTeacher
from . import checkpoints


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


class StatefulTrainer(Trainer):
    """Checkpoints with the state of teachers, which belong to every process alike, and of other parts."""

    _teachers: dict[str, SelfTeacher]
    _stateful: dict[str, checkpoints.Stateful]
    """The teachers are among these."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        # The last checkpoint goes before this one is whole.
        with held_back():
            super()._save_checkpoint(model, trial)
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            place = (self.accelerator.process_index, self._shared_parts, self.accelerator.num_processes)
            checkpoints.save(folder, self._stateful, *place)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            for teacher in self._teachers.values():
                teacher.begin(self.model)
            checkpoints.load(Path(checkpoint), self._stateful, self.accelerator.process_index, self._shared_parts)

    @property
    def _shared_parts(self) -> frozenset[str]:
        return frozenset() if self.is_fsdp_enabled else frozenset(self._teachers)
