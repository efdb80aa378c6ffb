"""Channel 2 on fresh rollouts: rollout → sites → lesson → divergence between the policy and itself with the hint.

The policy's hidden states come from the forward pass that is made anyway: a hook keeps them, and the teacher reads its
hinted contexts while the device works on them. What comes back is a weighted sum over the given number of sites.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from composer_replication.objective import SdpoSettings

from ..lessons.distillation import Distilled, SiteStates, distil, mean_divergence, places
from ..lessons.metrics import distilled_metrics
from ..lessons.online_sites import OnlineSite
from ..lessons.self_teacher import SelfTeacher, Taught, is_sharded, mixed, self_teacher
from ..models.states import Head, acts_differently_in_training, evaluating, language_model, last_hidden, output_head
from .engine import Engine
from .log import StepLog

CHECK_EVERY_STEPS, CHECKED_SITES = 50, 4
LIVE = SelfTeacher(None)
TEACHER_ROWS = 256
"""Hinted contexts per forward pass."""


RowSite = tuple[int, OnlineSite]
"""A site with its row."""


class PlacedRows(Protocol):
    """Where the tokens of rollouts lie in a forward pass."""

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

    def predictors(self, sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
        row_N, place_N = _places_of(sites)
        # Position p predicts token p + 1.
        return row_N, self.prompt_ids_BP.shape[1] - 1 + place_N

    def tokens(self, sites: Sequence[RowSite]) -> Tensor:
        row_N, place_N = (found.to(self.completion_ids_BC.device) for found in _places_of(sites))
        return self.completion_ids_BC[row_N, place_N]

    def context(self, row: int, start: int) -> list[int]:
        prompt_ids = self.prompt_ids_BP[row][self.prompt_mask_BP[row].bool()].tolist()
        return prompt_ids + self.completion_ids_BC[row, :start].tolist()


def _places_of(sites: Sequence[RowSite]) -> tuple[Tensor, Tensor]:
    """Row and place in the completion of every token of the sites."""
    lengths_K = torch.tensor([len(site.turn_ids) for _, site in sites], dtype=torch.long)
    row_K = torch.tensor([row for row, _ in sites], dtype=torch.long)
    return row_K.repeat_interleave(lengths_K), places([site.start for _, site in sites], lengths_K)


@dataclass
class Lesson:
    """What the teacher is to read in a micro-step, and what it made of it."""

    model: Any
    sites: Sequence[RowSite]
    most: int
    """Sites of the process that has the most."""
    rows: PlacedRows
    hidden_BTH: Tensor | None = None
    """Of the policy, once its forward pass is made."""
    taught: Taught | None = None


class OnlineDistillation:
    def __init__(self, settings: SdpoSettings, engine: Engine, log: StepLog, sampling_temperature: float = 1.0) -> None:
        """`sampling_temperature` is that of the log-probabilities that sites were sampled with."""
        self._settings, self._engine, self._log = settings, engine, log
        self._sampling_temperature = sampling_temperature
        self.teacher = self_teacher(settings.teacher, settings.ema_rate)
        self.empty_hint_divergence = 0.0
        self._lesson: Lesson | None = None
        self._checked_at = -1

    def listen(self, model: Any) -> None:
        """To every forward pass of the policy."""
        language_model(model).base_model.register_forward_hook(self._keep_hidden)

    @contextmanager
    def lesson(self, model: Any, sites: Sequence[RowSite], rows: PlacedRows) -> Generator[Lesson]:
        """The policy's forward pass is made inside."""
        most = int(self._engine.gather(len(sites)).max())
        self._lesson = lesson = Lesson(model, sites, most, rows)
        try:
            yield lesson
        finally:
            self._lesson = None

    def distil(self, lesson: Lesson, number_of_sites: float, weight: float) -> Distilled:
        """After the lesson. Every process must call this if one has a site."""
        assert lesson.hidden_BTH is not None
        rows, sites, device = lesson.rows, [site for _, site in lesson.sites], self._engine.device
        teacher_NH, teacher = lesson.taught or self._teach(lesson, inside_forward=False)
        lengths_K = torch.tensor([len(site.turn_ids) for site in sites], dtype=torch.long)
        labels_N = torch.tensor([token for site in sites for token in site.turn_ids], dtype=torch.long).to(device)
        row_N, column_N = (place_N.to(device) for place_N in rows.predictors(lesson.sites))
        self._log.require(rows.tokens(lesson.sites) == labels_N, "teacher and student tokens of a site differ")
        student_NH = lesson.hidden_BTH[row_N, column_N]
        states = SiteStates(student_NH, teacher_NH, labels_N, lengths_K, self._behaviour(sites))
        with self._engine.autocast():
            head = output_head(self._engine.unwrap(lesson.model))
            distilled = distil(
                states, head, teacher, self._settings, number_of_sites, weight, self._sampling_temperature
            )
        self._log.note(distilled_metrics(distilled, [site.kind for site in sites]))
        return distilled

    def _behaviour(self, sites: Sequence[OnlineSite]) -> Tensor | None:
        if self._settings.importance_clip is None:
            return None
        if any(len(site.logprobs) != len(site.turn_ids) for site in sites):
            raise ValueError("importance_clip of the channel sdpo needs rollouts with their log-probabilities")
        return torch.tensor([logprob for site in sites for logprob in site.logprobs]).to(self._engine.device)

    def check_empty_hint(self, lesson: Lesson, step: int) -> None:
        """The policy behind an empty hint is the policy: what differs comes from splicing, masks or the head."""
        if step % CHECK_EVERY_STEPS or step == self._checked_at:
            return
        self._checked_at = step
        unwrapped, some, rows = self._engine.unwrap(lesson.model), lesson.sites[:CHECKED_SITES], lesson.rows
        plain = [site._replace(teacher_context=rows.context(row, site.start)) for row, site in some]
        with torch.no_grad(), _evaluating(unwrapped), self._engine.autocast():
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
        # Shards must not be gathered twice at a time; their teacher reads afterwards.
        if lesson.most and not is_sharded(lesson.model):
            lesson.taught = self._teach(lesson, inside_forward=True)

    def _teach(self, lesson: Lesson, inside_forward: bool) -> Taught:
        taught = self._read(self.teacher, lesson, inside_forward)
        if self._settings.teacher != "trust_region":
            return taught
        return mixed(taught, self._read(LIVE, lesson, inside_forward), self._settings.trust_region_rate)

    def _read(self, teacher: SelfTeacher, lesson: Lesson, inside_forward: bool) -> Taught:
        """Hidden states of the teacher at the sites; every process makes as many passes as the one with the most."""
        unwrapped, sites = self._engine.unwrap(lesson.model), [site for _, site in lesson.sites]
        states: list[Tensor] = []
        with torch.no_grad(), teacher.installed(unwrapped), _evaluating(unwrapped):
            for first in range(0, lesson.most, TEACHER_ROWS):
                arguments = (unwrapped, sites[first : first + TEACHER_ROWS], lesson.rows)
                if inside_forward:
                    states.append(self._teacher_pass(*arguments))
                else:
                    states.append(self._engine.inside_forward(lesson.model, self._teacher_pass, *arguments))
            head = output_head(unwrapped)
            # Gathered shards are overwritten when the teacher leaves.
            keep = torch.clone if is_sharded(unwrapped) else torch.detach
            weight_VH, bias_V = head.weight_VH.detach(), head.bias_V
            head = Head(keep(weight_VH), None if bias_V is None else keep(bias_V.detach()), head.scale)
        return torch.cat(states), head

    def _teacher_pass(self, model: Any, sites: Sequence[OnlineSite], rows: PlacedRows) -> Tensor:
        """States that predict the turns, turn after turn. Without a site the pass is made over a prompt."""
        device = self._engine.device
        contexts = [site.teacher_ids for site in sites] or [rows.context(0, 0)]
        width = max(map(len, contexts))
        ids_KT = torch.tensor([row + [0] * (width - len(row)) for row in contexts]).to(device)
        with self._fresh_autocast():
            hidden_KTH = last_hidden(model, ids_KT)
        turns_K = torch.tensor([len(site.turn_ids) for site in sites], dtype=torch.long)
        row_N = torch.arange(len(sites)).repeat_interleave(turns_K).to(device)
        # Position p predicts token p + 1.
        return hidden_KTH[row_N, places([len(site.teacher_context) - 1 for site in sites], turns_K).to(device)]

    @contextmanager
    def _fresh_autocast(self) -> Generator[None]:
        """Precision as in training, but no weight that was cast before: the teacher's may have taken its place."""
        kind = torch.device(self._engine.device).type
        with self._engine.autocast():
            enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
                yield


def _evaluating(model: Any) -> AbstractContextManager[Any]:
    """Without dropout, and without the recomputation that only a backward pass needs."""
    return evaluating(model) if acts_differently_in_training(model) else nullcontext()
