"""The channels on stored traces, and how an entry of `[[channels]]` becomes one.

Channel 2 compares the policy with itself: the same tokens of an error turn, once in the plain context and once with
the hint spliced in. Channel 3 prefers what teachers agree on over what the actor did, relative to a frozen reference.

With several processes a batch also holds `sdpo_number` and `dpo_number`, sites and pairs per process on average. A
process that has none of its own makes the passes all the same, because the others wait for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from pydantic import ValidationError
from torch import Tensor

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.losses import ChannelSchedule, preference_loss
from composer_replication.objective import CHANNELS, ChannelSettings, OfEntry, Schedule, SdpoSettings, TrdpoSettings
from composer_replication.sections import explain

from .lessons.distillation import SiteStates, distil, places, repeated
from .lessons.self_teacher import kept_head, self_teacher
from .lessons.token_weights import (
    TurnStates,
    WeighedRow,
    logprob_row,
    mixed,
    site_weights,
    taught_states,
    turn_states,
    weighed_row,
)
from .models.states import last_hidden, output_head, without_dropout


class Channel(Protocol):
    """A term of the loss. `ComposerReplicationTrainer(channels=[…])` takes any object with these members.

    A class for `[[channels]]` also has `Settings`, which its entry is validated by, and is made with these.

    It may have a `schedule`, `metrics` that are logged after each `loss`, and `token_weights(model, batch, weight)`,
    which says for each row that it reads how much it pulls at each token. One with a `teacher` of the policy's kind has
    `teach(read, model, batch)` called before each `loss`; see `SelfDistillation`.
    """

    name: str
    """What metrics and reports call it."""

    @property
    def weight(self) -> float:
        """What its loss is multiplied by."""
        ...

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        """A scalar with a gradient; exactly 0 when the batch holds nothing for this channel."""
        ...


@dataclass
class SelfDistillation(OfEntry):
    """Channel 2: mean over sites of the mean divergence over the tokens of the error turn.

    A trainer begins the `teacher`, has it follow the policy, and calls `teach` before each `loss`. Without that the
    policy itself teaches.
    """

    Settings: ClassVar = SdpoSettings

    settings: SdpoSettings = field(default_factory=SdpoSettings)
    name: str = "sdpo"

    def __post_init__(self) -> None:
        self.teacher = self_teacher(self.settings.teacher, self.settings.ema_rate)
        self._taught: TurnStates | None = None

    def teach(self, read: Callable[..., Any], model: Any, batch: Mapping[str, Tensor]) -> None:
        """`read(function, *arguments)` calls the function within a forward pass of the model."""
        self._taught = None
        if self.teacher.is_live or self._is_empty(batch):
            return
        with self.teacher.installed(model):
            taught: TurnStates = read(self._read, model, batch)
        if self.settings.teacher == "trust_region":
            taught = mixed(taught, read(self._read, model, batch), self.settings.trust_region_rate)
        self._taught = taught

    @torch.no_grad()
    def _read(self, model: Any, batch: Mapping[str, Tensor]) -> TurnStates:
        with without_dropout(model):
            hidden_KTH = last_hidden(model, batch["ctx_teacher_input_ids"], batch["ctx_teacher_attention_mask"])
        head = output_head(model) if self.teacher.is_live else kept_head(model)
        # Position p predicts token p + 1.
        return TurnStates(hidden_KTH[:, :-1][batch["sdpo_loss_mask"].bool()[:, 1:]], head)

    def _is_empty(self, batch: Mapping[str, Tensor]) -> bool:
        return not len(batch["sdpo_row"]) and "sdpo_number" not in batch

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        rows, starts, mask_KT = batch["sdpo_row"], batch["sdpo_start"], batch["sdpo_loss_mask"].bool()
        if self._is_empty(batch):
            return batch["rewards"].new_zeros(())
        lengths_K = mask_KT.sum(-1).cpu()
        taught, self._taught = self._taught or self._read(model, batch), None
        used, place_K = rows.unique(return_inverse=True)
        student_BTH = last_hidden(model, batch["input_ids"][used], batch["attention_mask"][used])
        labels_N = batch["ctx_teacher_input_ids"][mask_KT]
        student_N = places(starts.tolist(), lengths_K).to(rows.device)
        row_N = repeated(rows.cpu(), lengths_K).to(rows.device)
        different_N = batch["input_ids"][row_N, student_N] != labels_N
        if different_N.any():
            site_N = repeated(torch.arange(len(rows)), lengths_K)
            raise ValueError(f"site {int(site_N[different_N.cpu()][0])}: teacher and student tokens differ")
        used_N = repeated(place_K.cpu(), lengths_K).to(rows.device)
        states = SiteStates(student_BTH[used_N, student_N - 1], taught.hidden_NH, labels_N, lengths_K)
        number = batch.get("sdpo_number", len(rows))
        return distil(states, output_head(model), taught.head, self.settings, number).loss

    def token_weights(self, model: Any, batch: Mapping[str, Tensor], weight: float) -> list[WeighedRow]:
        found: list[WeighedRow] = []
        number = float(batch.get("sdpo_number", len(batch["sdpo_row"])))
        for site, (row, start) in enumerate(zip(batch["sdpo_row"].tolist(), batch["sdpo_start"].tolist(), strict=True)):
            mask_T = batch["sdpo_loss_mask"][site].bool()
            turn: list[int] = batch["ctx_teacher_input_ids"][site][mask_T].tolist()
            hinted: list[int] = batch["ctx_teacher_input_ids"][site].tolist()[: int(mask_T.nonzero()[0])]
            ids: list[int] = batch["input_ids"][row].tolist()[: start + len(turn)]
            student = turn_states(model, ids[:start], turn)
            teacher = taught_states(model, self.teacher, hinted, turn, self.settings)
            weights_N = site_weights(student, teacher, turn, self.settings, weight / number)
            found.append(weighed_row("site", ids, weights_N, student))
        return found


@dataclass
class ReplayPreference(OfEntry):
    """Preferences over the pairs that teacher replay produced."""

    Settings: ClassVar = TrdpoSettings

    settings: TrdpoSettings = field(default_factory=TrdpoSettings)
    name: str = "replay"
    metrics: dict[str, float] = field(default_factory=dict[str, float])

    def loss(self, model: Any, batch: Mapping[str, Tensor]) -> Tensor:
        self.metrics = {}
        pairs = len(batch["dpo_chosen_input_ids"])
        if not pairs and "dpo_number" not in batch:
            return batch["rewards"].new_zeros(())
        return self.of_actions(*action_logprobs(model, batch), batch)

    def of_actions(self, chosen_B: Tensor, rejected_B: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """From the log-probabilities of both actions of each pair; of the batch only what else is known of them."""
        pairs, settings = len(chosen_B), self.settings
        found = preference_loss(
            chosen_B,
            rejected_B,
            batch["dpo_reference_chosen_logps"],
            batch["dpo_reference_rejected_logps"],
            chosen_tokens_B=batch["dpo_chosen_response_mask"].sum(-1),
            rejected_tokens_B=batch["dpo_rejected_response_mask"].sum(-1),
            beta=settings.beta,
            label_smoothing_B=batch["dpo_label_smoothing"],
            nll_weight=settings.likelihood_weight,
            dpop_weight=settings.dpop_weight,
            length_normalised=settings.length_normalised,
            sft_only=settings.sft_only,
        )
        if pairs:
            self.metrics = found.metrics
        return pairs / batch.get("dpo_number", max(1, pairs)) * found.loss

    def token_weights(self, model: Any, batch: Mapping[str, Tensor], weight: float) -> list[WeighedRow]:
        """The loss sees sums of log-probabilities alone, so its slope is the same at all tokens of an action."""
        if not len(batch["dpo_chosen_input_ids"]):
            return []
        with torch.no_grad():
            sums = action_logprobs(model, batch)
        chosen_B, rejected_B = (side.detach().requires_grad_() for side in sums)
        with torch.enable_grad():
            loss = weight * self.of_actions(chosen_B, rejected_B, batch)
        # 0 for a side that the loss does not read, as imitation does not the rejected.
        slopes = torch.autograd.grad(loss, (chosen_B, rejected_B), allow_unused=True, materialize_grads=True)
        found: list[WeighedRow] = []
        for side, slope_B in zip(("chosen", "rejected"), slopes, strict=True):
            for pair, slope in enumerate(slope_B.tolist()):
                own_T = batch[f"dpo_{side}_response_mask"][pair].bool()
                ids: list[int] = batch[f"dpo_{side}_input_ids"][pair].tolist()
                start, end = int(own_T.nonzero()[0]), int(own_T.nonzero()[-1]) + 1
                slopes = [slope] * (end - start)
                found.append(logprob_row(side, model, ids[:start], ids[start:end], slopes))
        return found


def open_channel(entry: ChannelSettings) -> Channel:
    """The class that an entry names, made with the settings that its own `Settings` read there."""
    path = CHANNELS.get(entry.name, entry.name)
    module, _, name = path.partition(":")
    try:
        kind: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        known = f"choose one of {', '.join(CHANNELS)}, or package.module:Class that can be imported"
        raise UsageError(f"channel {entry.name}: {error}", known) from error
    values = entry.model_dump()
    try:
        return kind(kind.Settings.model_validate(values))
    except ValidationError as error:
        told = explain(error, kind.Settings, values)
        raise UsageError(f"channel {entry.name}: {told}", "mend [[channels]]") from error


def open_channels(config: Config) -> list[Channel]:
    """All but the policy gradient, which a backend may compute itself."""
    return [open_channel(entry) for entry in config.channels if entry.name != "grpo"]


def schedule_of(channel: Channel) -> ChannelSchedule:
    return scheduled(channel.weight, getattr(channel, "schedule", Schedule()))


def scheduled(weight: float, schedule: Schedule) -> ChannelSchedule:
    return ChannelSchedule(weight, schedule.warmup_share, schedule.decay_share)


def action_logprobs(model: Any, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the chosen and of the rejected action of each pair, from one forward pass."""
    ids = _stack(batch["dpo_chosen_input_ids"], batch["dpo_rejected_input_ids"])
    mask = _stack(batch["dpo_chosen_response_mask"], batch["dpo_rejected_response_mask"])
    hidden_BTH, own = last_hidden(model, ids), mask[:, 1:].bool()
    found_N = output_head(model).logprobs(hidden_BTH[:, :-1][own], ids[:, 1:][own])
    sums_B = found_N.new_zeros(len(ids)).index_add_(0, own.nonzero()[:, 0], found_N)
    chosen_B, rejected_B = sums_B.chunk(2)
    return chosen_B, rejected_B


def _stack(chosen: Tensor, rejected: Tensor) -> Tensor:
    """One tensor of both sides' rows, padded on the right with 0, which the masks keep out."""
    width = max(chosen.shape[1], rejected.shape[1])
    return torch.cat([torch.nn.functional.pad(side, (0, width - side.shape[1])) for side in (chosen, rejected)])
