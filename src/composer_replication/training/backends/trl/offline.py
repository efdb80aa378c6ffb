"""All channels over stored traces and pairs alone: no rollouts, so any ingested session can be trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from ...channels import Channel, schedule_of
from ...planning.refusals import refuse_stored_traces_in_several
from ...step.balance import Balance
from ...step.log import StepLog
from ...step.stored import StoredChannels
from ...stored.batches import SPREAD, LikeLengths, row_places
from ...stored.examples import TraceExample
from ...stored.reread import RereadTurns
from .engine import AccelerateEngine
from .following import Following, StatefulTrainer, teachers_of


class OfflineComposerTrainer(StatefulTrainer):
    """A transformers trainer over `TraceExample`s and the collator. Each channel has a backward pass of its own."""

    def __init__(self, *args: Any, channels: Sequence[Channel], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_stored_traces_in_several(self.accelerator.num_processes)
        self._values: dict[str, list[float]] = defaultdict(list)
        self._step_log = StepLog(engine := AccelerateEngine(self.accelerator), self._keep)
        self._balance = Balance({channel.name: schedule_of(channel) for channel in channels}, limit=None)
        self._stored = StoredChannels(channels, self._balance, engine, self._step_log)
        self._teachers = teachers_of(self._stored.active)
        self._stateful = dict(self._teachers)
        for teacher in self._teachers.values():
            self.add_callback(Following(teacher))
        self.reread = RereadTurns(self.model, cast("Sequence[TraceExample]", self.train_dataset), self._keep)
        self.add_callback(self.reread)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        """The library's, where all examples are of about one length."""
        examples = cast("Sequence[TraceExample]", self.train_dataset if train_dataset is None else train_dataset)
        lengths = [row.longest_row for row in row_places(examples)]
        if max(lengths) <= SPREAD * min(lengths):
            return super()._get_train_sampler(train_dataset)
        return LikeLengths(examples, self._train_batch_size, self.args.seed)

    @property
    def active_channels(self) -> list[Channel]:
        return self._stored.active

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        model.train()
        self._balance.at(self.state.global_step, self.state.max_steps)
        total = self._stored.backward(model, inputs, self.current_gradient_accumulation_steps)
        self._step_log.flush()
        return total

    def _keep(self, name: str, value: float) -> None:
        self._values[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        means = {name: sum(values) / len(values) for name, values in self._values.items() if values}
        self._values.clear()
        super().log({**logs, **means}, start_time)
