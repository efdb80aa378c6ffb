"""Channel 2 on fresh rollouts: rollout → sites → lesson → divergence between the policy and itself with the hint.

The policy's hidden states come from the forward pass that is made anyway: a hook keeps them, and the teacher's reading
of its hinted contexts and the divergence are queued while the device works on that pass. So nothing in here may wait
for the device. The teacher reads the contexts of all micro-steps at the first of them, if it is told what to expect.
What comes back is a weighted sum over the given number of sites.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from composer_replication.objective import SdpoSettings

from ..lessons.distillation import Distilled, SiteStates, distil, mean_divergence, places, repeated
from ..lessons.metrics import distilled_metrics
from ..lessons.online_sites import OnlineSite
from ..lessons.self_teacher import SelfTeacher, kept_head, mixed_head, mixed_states, self_teacher
from ..models.states import (
    Head,
    language_model,
    last_hidden,
    one_sequence_per_row,
    output_head,
    padded,
    sent,
    without_dropout,
)
from ..models.whole import is_sharded
from .balance import Balance
from .engine import Engine
from .gradients import POLICY
from .log import StepLog

SDPO = "sdpo"
CHECK_EVERY_STEPS, CHECKED_SITES = 50, 4
LIVE = SelfTeacher(None)
TEACHER_SHARE = 4
"""Tokens in a pass of the teacher, as a multiple of the policy's: it keeps no activations and makes no logits."""


RowSite = tuple[int, OnlineSite]
"""A site with its row."""


class PlacedRows(Protocol):
    """Where the tokens of rollouts lie in a forward pass."""

    @property
    def size(self) -> int:
        """Tokens of the pass."""
        ...

    def predictors(self, sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
        """Row and column, on the CPU, of the hidden states that predict the tokens of the sites, turn after turn."""
        ...

    def tokens(self, sites: Sequence[RowSite]) -> Tensor:
        """The ids that stand there."""
        ...

    def context(self, row: int, start: int) -> list[int]:
        """All ids before this place of a completion."""
        ...


class RolloutRows(NamedTuple):
    """Prompts, padded on the left, and what was sampled or read after them, padded on the right."""

    prompt_ids_BP: Tensor
    prompt_mask_BP: Tensor
    completion_ids_BC: Tensor

    @property
    def size(self) -> int:
        return self.prompt_ids_BP.numel() + self.completion_ids_BC.numel()

    def predictors(self, sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
        row_N, place_N = _places_of(sites)
        # Position p predicts token p + 1.
        return row_N, self.prompt_ids_BP.shape[1] - 1 + place_N

    def tokens(self, sites: Sequence[RowSite]) -> Tensor:
        row_N, place_N = (sent(found, self.completion_ids_BC.device) for found in _places_of(sites))
        return self.completion_ids_BC[row_N, place_N]

    def context(self, row: int, start: int) -> list[int]:
        prompt_ids = self.prompt_ids_BP[row][self.prompt_mask_BP[row].bool()].tolist()
        return prompt_ids + self.completion_ids_BC[row, :start].tolist()


def _places_of(sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
    """Row and place in the completion of every token of the sites."""
    lengths_K = torch.tensor([len(site.turn_ids) for _, site in sites], dtype=torch.long)
    row_K = torch.tensor([row for row, _ in sites], dtype=torch.long)
    return repeated(row_K, lengths_K), places([site.start for _, site in sites], lengths_K)


@dataclass
class Lesson:
    """What the teacher is to read in a micro-step, and what it made of it."""

    model: Any
    sites: Sequence[RowSite]
    most: int
    """Sites of the process that has the most."""
    rows: PlacedRows
    number_of_sites: float
    """That the loss is divided by."""
    weight: float
    hidden_BTH: Tensor | None = None
    """Of the policy, once its forward pass is made."""
    distilled: Distilled | None = None


class OnlineDistillation:
    def __init__(self, settings: SdpoSettings, engine: Engine, log: StepLog, sampling_temperature: float = 1.0) -> None:
        """`sampling_temperature` is that of the log-probabilities that sites were sampled with."""
        self._settings, self._engine, self._log = settings, engine, log
        self._sampling_temperature = sampling_temperature
        self.teacher = self_teacher(settings.teacher, settings.ema_rate)
        self.empty_hint_divergence = 0.0
        self._lesson: Lesson | None = None
        self._is_told = False
        self._ahead: Sequence[OnlineSite] | None = None
        self._states: dict[int, Tensor] = {}
        """What the teacher has read ahead, by the identity of the site."""
        self._head: Head | None = None
        self._checked_at = -1

    def listen(self, model: Any) -> None:
        """To every forward pass of the policy."""
        language_model(model).base_model.register_forward_hook(self._keep_hidden)

    def expect(self, sites: Sequence[OnlineSite]) -> None:
        """In all micro-steps until the weights change. Every process must call this, or none."""
        self._is_told, self._ahead = True, sites

    @contextmanager
    def lesson(
        self, model: Any, sites: Sequence[RowSite], rows: PlacedRows, number_of_sites: float, weight: float
    ) -> Generator[Lesson]:
        """The policy's forward pass is made inside."""
        most = int(self._engine.gather(len(sites)).max())
        self._lesson = lesson = Lesson(model, sites, most, rows, number_of_sites, weight)
        try:
            yield lesson
        finally:
            self._lesson = None

    def distil(self, lesson: Lesson) -> Distilled:
        """After the lesson. Every process must call this if one has a site."""
        return lesson.distilled or self._distil(lesson, inside_forward=False)

    def _distil(self, lesson: Lesson, inside_forward: bool) -> Distilled:
        assert lesson.hidden_BTH is not None
        rows, sites, device = lesson.rows, [site for _, site in lesson.sites], self._engine.device
        teacher_NH, teacher = self._teach(lesson, inside_forward)
        lengths_K = torch.tensor([len(site.turn_ids) for site in sites], dtype=torch.long)
        labels_N = sent(torch.tensor([token for site in sites for token in site.turn_ids], dtype=torch.long), device)
        row_N, column_N = (sent(place_N, device) for place_N in rows.predictors(lesson.sites))
        self._log.require(rows.tokens(lesson.sites) == labels_N, "teacher and student tokens of a site differ")
        student_NH = lesson.hidden_BTH[row_N, column_N]
        states = SiteStates(student_NH, teacher_NH, labels_N, lengths_K, self._behaviour(sites))
        with self._engine.autocast():
            head = output_head(self._engine.unwrap(lesson.model))
            shares = lesson.number_of_sites, lesson.weight
            distilled = distil(states, head, teacher, self._settings, *shares, self._sampling_temperature)
        self._log.note(distilled_metrics(distilled, [site.kind for site in sites]))
        return distilled

    def _behaviour(self, sites: Sequence[OnlineSite]) -> Tensor | None:
        if self._settings.importance_clip is None:
            return None
        if any(len(site.logprobs) != len(site.turn_ids) for site in sites):
            raise ValueError("importance_clip of the channel sdpo needs rollouts with their log-probabilities")
        return sent(torch.tensor([logprob for site in sites for logprob in site.logprobs]), self._engine.device)

    def check_empty_hint(self, lesson: Lesson, step: int) -> None:
        """The policy behind an empty hint is the policy: what differs comes from splicing, masks or the head."""
        if step % CHECK_EVERY_STEPS or step == self._checked_at:
            return
        self._checked_at = step
        unwrapped, some, rows = self._engine.unwrap(lesson.model), lesson.sites[:CHECKED_SITES], lesson.rows
        plain = [site._replace(teacher_context=rows.context(row, site.start)) for row, site in some]
        with torch.no_grad(), without_dropout(unwrapped), self._engine.autocast():
            teacher_NH: Tensor = self._engine.inside_forward(lesson.model, self._teacher_pass, unwrapped, plain, rows)
            assert lesson.hidden_BTH is not None
            student_NH = lesson.hidden_BTH[rows.predictors(some)]
            value = mean_divergence(student_NH, teacher_NH, output_head(unwrapped), self._settings) if some else 0.0
        self.empty_hint_divergence = float(self._engine.gather(float(value)).max())
        self._log.note({"sdpo/empty_hint_divergence": self.empty_hint_divergence})

    def _keep_hidden(self, module: Any, arguments: Any, output: Any) -> None:
        lesson = self._lesson
        if lesson is None or lesson.hidden_BTH is not None:
            return
        lesson.hidden_BTH = output.last_hidden_state
        # Shards must not be gathered twice at a time; their teacher reads afterwards. All else is queued here, before
        # the trainer reads its first number from the device and lets it run empty.
        if lesson.most and not is_sharded(lesson.model):
            lesson.distilled = self._distil(lesson, inside_forward=True)

    def _teach(self, lesson: Lesson, inside_forward: bool) -> tuple[Tensor, Head]:
        """Hidden states of the teacher at the sites of a micro-step."""
        assert lesson.hidden_BTH is not None
        sites = [site for _, site in lesson.sites]
        if not self._is_told:
            self._ahead = sites
        if self._ahead is not None:
            self._read_ahead(lesson, self._ahead, inside_forward)
            self._ahead = None
        assert self._head is not None
        states = [self._states[id(site)] for site in sites]
        nothing = lesson.hidden_BTH.new_zeros(0, self._head.weight_VH.shape[1])
        return torch.cat(states) if states else nothing, self._head

    def _read_ahead(self, lesson: Lesson, sites: Sequence[OnlineSite], inside_forward: bool) -> None:
        self._states, self._head = self._read(self.teacher, lesson, sites, inside_forward)
        if self._settings.teacher != "trust_region":
            return
        live, live_head = self._read(LIVE, lesson, sites, inside_forward)
        heads, rate = (self._head, live_head), self._settings.trust_region_rate
        self._states = {key: mixed_states(start, live[key], *heads, rate) for key, start in self._states.items()}
        self._head = mixed_head(*heads, rate)

    def _read(
        self, teacher: SelfTeacher, lesson: Lesson, sites: Sequence[OnlineSite], inside_forward: bool
    ) -> tuple[dict[int, Tensor], Head]:
        """States by the identity of their site. Every process makes as many passes as the one with the most."""
        unwrapped, rows = self._engine.unwrap(lesson.model), lesson.rows
        passes = _passes(sites, TEACHER_SHARE * rows.size)
        most = int(self._engine.gather(len(passes)).max())
        read: dict[int, Tensor] = {}
        with torch.no_grad(), teacher.installed(unwrapped), without_dropout(unwrapped):
            for some in [*passes, *([[]] * (most - len(passes)))]:
                arguments = (unwrapped, some, rows)
                if inside_forward:
                    states_NH = self._teacher_pass(*arguments)
                else:
                    states_NH = self._engine.inside_forward(lesson.model, self._teacher_pass, *arguments)
                parts = states_NH.split([len(site.turn_ids) for site in some])
                read |= {id(site): part for site, part in zip(some, parts, strict=True)}
            return read, kept_head(unwrapped)

    def _teacher_pass(self, model: Any, sites: Sequence[OnlineSite], rows: PlacedRows) -> Tensor:
        """States that predict the turns, turn after turn. Without a site the pass is made over a prompt."""
        device = self._engine.device
        contexts = [site.teacher_ids for site in sites] or [rows.context(0, 0)]
        ids_KT = sent(padded(contexts, 0), device)
        with self._fresh_autocast(), one_sequence_per_row():
            hidden_KTH = last_hidden(model, ids_KT)
        turns_K = torch.tensor([len(site.turn_ids) for site in sites], dtype=torch.long)
        row_N = repeated(torch.arange(len(sites)), turns_K)
        # Position p predicts token p + 1.
        place_N = places([len(site.teacher_context) - 1 for site in sites], turns_K)
        return hidden_KTH[sent(row_N, device), sent(place_N, device)]

    @contextmanager
    def _fresh_autocast(self) -> Generator[None]:
        """Precision as in training, but no weight that was cast before: the teacher's may have taken its place."""
        kind = torch.device(self._engine.device).type
        with self._engine.autocast():
            enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
                yield


def _passes(sites: Sequence[OnlineSite], most_tokens: int) -> list[list[OnlineSite]]:
    """Padded to the longest of its pass, a site stands with others of about its length."""
    passes: list[list[OnlineSite]] = []
    for site in sorted(sites, key=lambda site: -len(site.teacher_ids)):
        last = passes[-1] if passes else []
        if last and (len(last) + 1) * len(last[0].teacher_ids) <= most_tokens:
            last.append(site)
        else:
            passes.append([site])
    return passes


def with_lesson(
    loss: Tensor,
    lesson: Lesson | None,
    online: OnlineDistillation | None,
    balance: Balance,
    log: StepLog,
    model: Any,
    micro_steps: int,
    step: int,
) -> Tensor:
    """The policy's loss of a micro-step and channel 2's, each with its weight; both gradients are measured."""
    log.log("channel/policy", micro_steps * loss)
    policy_weight = balance.weight(POLICY)
    loss = loss if policy_weight == 1 else policy_weight * loss
    distilled = online.distil(lesson) if online and lesson and lesson.most else None
    if online:
        # A micro-step's part of the sum over the step, so that their mean is that sum.
        log.log(f"channel/{SDPO}", micro_steps * distilled.loss / balance.probed_weight(SDPO) if distilled else 0.0)
    if balance.is_capped:
        states = [lesson.hidden_BTH] if lesson and lesson.hidden_BTH is not None else []
        balance.measure(model, POLICY, loss, states=states)
        if distilled is not None:
            weight = balance.scheduled(SDPO) / balance.probed_weight(SDPO)
            balance.measure(model, SDPO, distilled.loss, weight, states)
    if online and lesson and distilled:
        online.check_empty_hint(lesson, step)
        loss = loss + distilled.loss if balance.weight(SDPO) else loss
    return loss
