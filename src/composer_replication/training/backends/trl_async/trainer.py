"""TRL's asynchronous GRPO trainer with further channels: the adapter from the core of a step to it.

With no active channel and no importance clip every loss is TRL's own, bit for bit on the same queue. Channel 2 reads
the hidden states of TRL's packed pass; its importance weights are those of the log-probabilities in the queue. A
micro-step has as many rollouts as TRL packs into it, so a site's share is that of its micro-step and not of the step.
One process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

from composer_replication.objective import GrpoSettings, Schedule, SdpoSettings

from ...channels import Channel, schedule_of, scheduled
from ...lessons.self_teacher import SelfTeacher
from ...models.states import language_model
from ...step.balance import Balance
from ...step.gradients import POLICY
from ...step.log import StepLog
from ...step.online import SDPO, Lesson, OnlineDistillation, with_lesson
from ...step.stored import StoredChannels
from ...stored.collator import Batch
from ..trl.engine import AccelerateEngine
from ..trl.following import Following, teachers_of
from .attention import register_attention, without_a_gpu
from .samples import PackedRows

LESSON = "lesson"
IMPORTANCE_CLIP = 2.0
"""Of channel 2 where its settings name none, as in the published code."""


class AsyncComposerTrainer(AsyncGRPOTrainer):
    """`sdpo` works on the sites that ride on the queue's samples; `channels` read collated `batches` of stored data."""

    def __init__(
        self,
        *args: Any,
        sdpo: SdpoSettings | None = None,
        grpo: GrpoSettings | None = None,
        channels: Sequence[Channel] = (),
        batches: Iterator[Batch] | None = None,
        gradient_ratio_cap: float | None = 0.5,
        **kwargs: Any,
    ) -> None:
        with without_a_gpu():
            super().__init__(*args, **kwargs)
        register_attention()
        sdpo, policy = sdpo or SdpoSettings(weight=0.0), grpo or GrpoSettings()
        stored = [channel for channel in channels if channel.weight] if batches else []
        schedules = {channel.name: schedule_of(channel) for channel in stored}
        if sdpo.weight:
            schedules[SDPO] = scheduled(sdpo.weight, sdpo.schedule)
        own = scheduled(policy.weight, policy.schedule)
        self._is_plain = not schedules and own == scheduled(1.0, Schedule())
        self._clip = policy.importance_clip
        self._engine = AccelerateEngine(self.accelerator)
        self._log = StepLog(self._engine, lambda name, value: self._metrics["train"][name].append(value))
        self._balance = Balance({**schedules, POLICY: own}, gradient_ratio_cap)
        self._stored = StoredChannels(stored, self._balance, self._engine, self._log)
        self._batches = batches
        self._logprobs: Tensor | None = None
        self._lessons: dict[int, PackedRows] = {}
        language_model(self.model).register_forward_hook(self._keep_logprobs)
        self._online: OnlineDistillation | None = None
        if sdpo.weight:
            clipped = sdpo.model_copy(update={"importance_clip": sdpo.importance_clip or IMPORTANCE_CLIP})
            self._online = OnlineDistillation(clipped, self._engine, self._log, self.temperature)
            self._online.listen(self.model)
        for teacher in [*teachers_of(stored).values(), *([self._online.teacher] if self._online else [])]:
            self.add_callback(Following(teacher))

    @property
    def teacher(self) -> SelfTeacher:
        assert self._online is not None
        return self._online.teacher

    @property
    def empty_hint_divergence(self) -> float:
        return self._online.empty_hint_divergence if self._online else 0.0

    def get_train_dataloader(self) -> Any:
        loader: Any = super().get_train_dataloader()
        if self._online:
            # Accelerate's loader reads from one inside.
            loader.base_dataloader.collate_fn = _Numbered(loader.base_dataloader.collate_fn, self._lessons)
        return loader

    def compute_loss(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        packed = self._lessons.pop(int(inputs.pop(LESSON)[0])) if self._online else None
        self._balance.at(self.state.global_step, self.state.max_steps)
        micro_steps = self.current_gradient_accumulation_steps
        stored: Tensor | float = 0.0
        if self._batches and self._stored.active:
            stored = self._stored.backward(model, next(self._batches), micro_steps)
        with self._lesson(model, packed, micro_steps) as lesson:
            loss: Tensor = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = self._truncated(loss, inputs, micro_steps)
        if self._is_plain:
            self._log.flush()
            return loss
        unwrapped, step = self.accelerator.unwrap_model(model), self.state.global_step
        loss = with_lesson(loss, lesson, self._online, self._balance, self._log, unwrapped, micro_steps, step)
        if self._balance.is_capped and self.accelerator.sync_gradients:
            self._balance.conclude(self._engine, self._log)
        self._log.flush()
        return loss + stored

    def _truncated(self, loss: Tensor, inputs: dict[str, Any], micro_steps: int) -> Tensor:
        """TRL's clip bounds the ratio where the advantage is positive. This does where it is negative.

        Also logs how far the server's log-probabilities are from those of the policy that trains.
        """
        assert self._logprobs is not None
        taken = inputs["token_index"] >= 0
        logprobs_M = self._logprobs.flatten()[inputs["token_index"][taken]]
        self._logprobs = None
        log_ratio_M = logprobs_M - inputs["old_log_probs"][taken]
        apart_M = log_ratio_M.detach().abs()
        self._log.note({"sampling/mismatch_mean": apart_M.mean(), "sampling/mismatch_max": apart_M.max()})
        if self._clip is None:
            return loss
        advantages_M = inputs["advantages"][taken]
        over_M = (log_ratio_M.detach() > math.log(self._clip)) & (advantages_M < 0)
        self._log.note({"sampling/truncated": over_M.float().mean()})
        if not over_M.any():
            return loss
        ratio_M = log_ratio_M[over_M].exp()
        # What TRL has there is -ratio · advantage; its gradient is to be that of `clip` times the log-probability.
        too_much = ((ratio_M - self._clip * ratio_M / ratio_M.detach()) * advantages_M[over_M]).sum()
        return loss + too_much / inputs["global_n_tokens"][0].clamp(min=1.0) / micro_steps

    def _lesson(self, model: Any, packed: PackedRows | None, micro_steps: int) -> AbstractContextManager[Lesson | None]:
        if self._online is None or packed is None:
            return nullcontext()
        number = float(len(packed.sites) * micro_steps)
        return self._online.lesson(model, packed.sites, packed, number, self._balance.probed_weight(SDPO))

    def _keep_logprobs(self, module: Any, arguments: Any, output: Any) -> None:
        found = getattr(output, "log_probs", None)
        if found is not None:
            self._logprobs = found


class _Numbered:
    """TRL's collator, whose batches say which packed rows they were made of."""

    def __init__(self, collate: Any, lessons: dict[int, PackedRows]) -> None:
        self._collate, self._lessons, self._made = collate, lessons, 0

    def __call__(self, examples: list[Any]) -> dict[str, Any]:
        ((row,),) = examples
        batch = self._collate(examples)
        index_M = batch["token_index"][0]
        self._lessons[self._made] = PackedRows(row.samples, index_M[index_M >= 0])
        batch[LESSON] = torch.tensor([self._made])
        self._made += 1
        return batch
