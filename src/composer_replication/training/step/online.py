"""Channel 2 on fresh rollouts: rollout → sites → lesson → divergence between the policy and itself with the hint.

The policy's hidden states come from the forward pass that is made anyway: a hook keeps them, and the teacher reads its
hinted contexts while the device works on them. It reads those of all micro-steps at the first of them, if it is told
what to expect. What comes back is a weighted sum over the given number of sites.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from composer_replication.objective import SdpoSettings

from ..lessons.distillation import Distilled, SiteStates, distil, mean_divergence, places
from ..lessons.metrics import distilled_metrics
from ..lessons.online_sites import OnlineSite
from ..lessons.self_teacher import is_sharded, self_teacher
from ..models.states import Head, acts_differently_in_training, evaluating, language_model, last_hidden, output_head
from .engine import Engine
from .log import StepLog

CHECK_EVERY_STEPS, CHECKED_SITES = 50, 4
TEACHER_SHARE = 4
"""Tokens in a pass of the teacher, as a multiple of the policy's: it keeps no activations and makes no logits."""


class RolloutRows(NamedTuple):
    """Prompts, padded on the left, and what was sampled or read after them, padded on the right."""

    prompt_ids_BP: Tensor
    prompt_mask_BP: Tensor
    completion_ids_BC: Tensor


@dataclass
class Lesson:
    """What the teacher is to read in a micro-step, and what it made of it."""

    model: Any
    sites: Sequence[tuple[int, OnlineSite]]
    """Each with its row."""
    most: int
    """Sites of the process that has the most."""
    rows: RolloutRows
    hidden_BTH: Tensor | None = None
    """Of the policy, once its forward pass is made."""
    taught: tuple[Tensor, Head] | None = None


class OnlineDistillation:
    def __init__(self, settings: SdpoSettings, engine: Engine, log: StepLog) -> None:
        self._settings, self._engine, self._log = settings, engine, log
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
    def lesson(self, model: Any, sites: Sequence[tuple[int, OnlineSite]], rows: RolloutRows) -> Generator[Lesson]:
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
        row_K = torch.tensor([row for row, _ in lesson.sites], dtype=torch.long)
        row_N = row_K.repeat_interleave(lengths_K).to(device)
        place_N = places([site.start for site in sites], lengths_K).to(device)
        same_N = rows.completion_ids_BC[row_N, place_N] == labels_N
        self._log.require(same_N, "teacher and student tokens of a site differ")
        # Position p predicts token p + 1.
        student_NH = lesson.hidden_BTH[row_N, rows.prompt_ids_BP.shape[1] - 1 + place_N]
        states = SiteStates(student_NH, teacher_NH, labels_N, lengths_K)
        with self._engine.autocast():
            head = output_head(self._engine.unwrap(lesson.model))
            distilled = distil(states, head, teacher, self._settings, number_of_sites, weight)
        self._log.note(distilled_metrics(distilled, [site.kind for site in sites]))
        return distilled

    def check_empty_hint(self, lesson: Lesson, step: int) -> None:
        """The policy behind an empty hint is the policy: what differs comes from splicing, masks or the head."""
        if step % CHECK_EVERY_STEPS or step == self._checked_at:
            return
        self._checked_at = step
        unwrapped, some, rows = self._engine.unwrap(lesson.model), lesson.sites[:CHECKED_SITES], lesson.rows
        plain: list[OnlineSite] = []
        for row, site in some:
            prompt_ids = rows.prompt_ids_BP[row][rows.prompt_mask_BP[row].bool()].tolist()
            context = prompt_ids + rows.completion_ids_BC[row, : site.start].tolist()
            plain.append(site._replace(teacher_context=context))
        first = rows.prompt_ids_BP.shape[1] - 1
        lengths = torch.tensor([len(site.turn_ids) for site in plain], dtype=torch.long)
        row_N = torch.tensor([row for row, _ in some], dtype=torch.long).repeat_interleave(lengths)
        with torch.no_grad(), _evaluating(unwrapped), self._engine.autocast():
            teacher_NH: Tensor = self._engine.inside_forward(lesson.model, self._teacher_pass, unwrapped, plain, rows)
            assert lesson.hidden_BTH is not None
            student_NH = lesson.hidden_BTH[row_N, first + places([site.start for site in plain], lengths)]
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

    def _teach(self, lesson: Lesson, inside_forward: bool) -> tuple[Tensor, Head]:
        """Hidden states of the teacher at the sites of a micro-step."""
        assert lesson.hidden_BTH is not None
        sites = [site for _, site in lesson.sites]
        if not self._is_told:
            self._ahead = sites
        if self._ahead is not None:
            self._head = self._read(lesson, self._ahead, inside_forward)
            self._ahead = None
        assert self._head is not None
        states = [self._states[id(site)] for site in sites]
        return torch.cat(states) if states else lesson.hidden_BTH.detach()[0, :0], self._head

    def _read(self, lesson: Lesson, sites: Sequence[OnlineSite], inside_forward: bool) -> Head:
        """Every process makes as many passes as the one with the most."""
        unwrapped, rows = self._engine.unwrap(lesson.model), lesson.rows
        policy_tokens = rows.prompt_ids_BP.numel() + rows.completion_ids_BC.numel()
        passes = _passes(sites, TEACHER_SHARE * policy_tokens)
        most = int(self._engine.gather(len(passes)).max())
        self._states = {}
        with torch.no_grad(), self.teacher.installed(unwrapped), _evaluating(unwrapped):
            for some in [*passes, *([[]] * (most - len(passes)))]:
                arguments = (unwrapped, some, rows)
                if inside_forward:
                    states_NH = self._teacher_pass(*arguments)
                else:
                    states_NH = self._engine.inside_forward(lesson.model, self._teacher_pass, *arguments)
                parts = states_NH.split([len(site.turn_ids) for site in some])
                self._states |= {id(site): part for site, part in zip(some, parts, strict=True)}
            head = output_head(unwrapped)
            # Gathered shards are overwritten when the teacher leaves.
            keep = torch.clone if is_sharded(unwrapped) else torch.detach
            weight_VH, bias_V = head.weight_VH.detach(), head.bias_V
            return Head(keep(weight_VH), None if bias_V is None else keep(bias_V.detach()), head.scale)

    def _teacher_pass(self, model: Any, sites: Sequence[OnlineSite], rows: RolloutRows) -> Tensor:
        """States that predict the turns, turn after turn. Without a site the pass is made over a prompt."""
        device = self._engine.device
        contexts = [site.teacher_ids for site in sites] or [rows.prompt_ids_BP[0].tolist()]
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


def _evaluating(model: Any) -> AbstractContextManager[Any]:
    """Without dropout, and without the recomputation that only a backward pass needs."""
    return evaluating(model) if acts_differently_in_training(model) else nullcontext()
