"""TRL's GRPO trainer with further channels added to its loss.

    GRPO/DAPO as TRL computes it   +   alpha · SDPO on the error turns of the same rollouts   +   beta · TR-DPO

With no active channel every method is TRL's own, so the run is bit-identical to plain GRPO. Channel 2 reuses the hidden
states of TRL's forward pass and adds one pass without gradient for the teacher. A channel on stored data has a backward
pass of its own, before the policy's forward pass, so that peak memory is the largest of the channels and not their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl.trainer.grpo_trainer import GRPOTrainer

from composer_replication.losses import ChannelSchedule, GradientRatioCap

from ...channels import Channel, ReplayPreference, SelfDistillation
from ...lessons.distillation import Distilled, SiteStates, distil, mean_divergence, places
from ...lessons.gradient_probe import POLICY, StepGradients, probe, probed_parameters
from ...lessons.metrics import distilled_metrics, found_sites, site_metrics
from ...lessons.online_sites import Accepts, Hinter, OnlineSite, Rolled, find_online_sites
from ...lessons.self_teacher import SelfTeacher, is_sharded, self_teacher
from ...metrics import count_rollouts, rollout_metrics
from ...models.states import Head, acts_differently_in_training, evaluating, language_model, last_hidden, output_head
from ...models.tokens import ChatTokens
from ...rollouts.samples import RolloutSamples
from ...settings import ComposerSettings
from ...stored.collator import Batch
from . import checkpoints
from .compat import call_inside_forward
from .dynamic_sampling import PromptStream, flat_groups, replace_rows, rows_of
from .environment_traces import trace_of_messages

SDPO = "sdpo"
CHECK_EVERY_STEPS, CHECKED_SITES = 50, 4
MUST_HOLD = "must hold: "


class ComposerReplicationTrainer(GRPOTrainer):
    """`loss = GRPO + alpha_sdpo · SDPO + beta_replay · TR-DPO`, plus any further `channels`.

    With a `hinter` channel 2 works on the error turns of each step's own rollouts: those of `environment_factory` as
    TRL records them, or those of a `rollout_func` that returns one `Trace` per row as `trace`. `batches` yields
    collated stored traces, one per micro-step and without end, for channel 3, for further channels, and for channel 2
    where there is no hinter; it must draw from its own random generator. With `samples` the behaviour of the rollouts
    is logged and some of them are kept. `stateful` are objects of the caller whose
    state belongs into checkpoints, such as `batches` and the generator of the rollouts.
    """

    def __init__(
        self,
        *args: Any,
        alpha_sdpo: float = 0.1,
        beta_replay: float = 0.05,
        settings: ComposerSettings | None = None,
        hinter: Hinter | None = None,
        accepts: Accepts | None = None,
        batches: Iterator[Batch] | None = None,
        channels: Sequence[Channel] = (),
        samples: RolloutSamples | None = None,
        stateful: Mapping[str, checkpoints.Stateful] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if channels and batches is None:
            raise ValueError("further channels need batches to read")
        self.composer = composer = settings or ComposerSettings()
        stored: list[Channel] = [] if hinter else [SelfDistillation(alpha_sdpo, composer)]
        stored += [ReplayPreference(beta_replay, composer), *channels]
        self.active_channels = [channel for channel in stored if channel.weight] if batches else []
        self.alpha_sdpo = alpha_sdpo if hinter else 0.0
        self._batches, self._hinter, self._accepts, self._samples = batches, hinter, accepts, samples
        self.empty_hint_divergence = 0.0
        self._schedules = {channel.name: self._schedule(channel.weight) for channel in self.active_channels}
        self._hidden: Tensor | None = None
        self._lesson: _Lesson | None = None
        self._scored: dict[str, Any] = {}
        self._checked_at = -1
        self._gradients = StepGradients()
        self._own: dict[str, Tensor | float] = {}
        self._shared: dict[str, Tensor | float] = {}
        self._stateful: dict[str, checkpoints.Stateful] = dict(stateful or {})
        if self.alpha_sdpo:
            self._schedules[SDPO] = self._schedule(alpha_sdpo)
            self._chat_tokens = ChatTokens(self._tokenizer, self.chat_template)
            self.teacher = self_teacher(composer.teacher, composer.ema_rate)
            self._stateful["teacher"] = self.teacher
            language_model(self.model).base_model.register_forward_hook(self._keep_hidden)
            self.add_callback(_Following(self.teacher))
        limit = composer.gradient_ratio_cap
        self._balance = _Balance(list(self._schedules), limit) if limit else None
        if self._balance:
            self._stateful["balance"] = self._balance
        self._prompts: PromptStream | None = None
        if composer.dynamic_sampling_rounds:
            self._prompts = self._prompt_stream()
            self._stateful["prompts"] = self._prompts

    # Data: fresh rollouts

    def _calculate_rewards(
        self, inputs: list[Any], prompts: list[Any], completions: list[Any], completion_ids_list: list[Any]
    ) -> Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if self._looks_at_rollouts:
            own = slice(self.accelerator.process_index * len(prompts), None)
            total = (rewards * self.reward_weights.to(rewards.device)).nansum(1)[own][: len(prompts)].tolist()
            self._scored = {"inputs": inputs, "prompts": prompts, "completions": completions, "rewards": total}
        return rewards

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        generated = super()._generate_and_score_completions(inputs)
        if not self._is_training or not self._looks_at_rollouts:
            return generated
        scored = self._scored
        if self._prompts:
            generated, scored = self._refilled(self._prompts, generated, scored)
        rollouts = self._rollouts(generated, scored) if self.alpha_sdpo or self._samples else []
        sites = self._sites(rollouts) if self.alpha_sdpo else [[] for _ in rollouts]
        if self._samples:
            self._observe(self._samples, rollouts, sites, scored["rewards"])
        if not self.alpha_sdpo:
            return generated
        # Lists of the batch's length are shuffled and split with it.
        return {**generated, "sdpo_sites": sites, "sdpo_number": self._gather(sum(map(len, sites))).sum()}

    @property
    def _looks_at_rollouts(self) -> bool:
        return bool(self.alpha_sdpo or self._prompts or self._samples)

    def _refilled(
        self, prompts: PromptStream, generated: dict[str, Any], scored: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        size, pad_id = int(self.num_generations or 1), self._pad_id
        flat = flat_groups(scored["rewards"], size)
        for _ in range(self.composer.dynamic_sampling_rounds):
            most = int(self._gather(len(flat)).max())
            if not most:
                break
            rows = [dict(row) for row in prompts.draw(most) for _ in range(size)]
            fresh = super()._generate_and_score_completions(rows)
            useful = sorted(set(range(most)) - set(flat_groups(self._scored["rewards"], size)))[: len(flat)]
            into, from_ = rows_of(flat[: len(useful)], size), rows_of(useful, size)
            generated = replace_rows(generated, fresh, into, from_, pad_id)
            scored = replace_rows(scored, self._scored, into, from_, pad_id)
            flat = flat[len(useful) :]
        own = generated["completion_mask"] * generated.get("tool_mask", 1)
        generated["num_items_in_batch"] = self._gather(own.sum().item()).sum().to(generated["num_items_in_batch"].dtype)
        self._log("dynamic_sampling/flat_groups_left", len(flat) * size / len(own))
        return generated, scored

    def _sites(self, rollouts: Sequence[Rolled]) -> list[list[OnlineSite]]:
        assert self._hinter is not None
        sites, dropped = find_online_sites(rollouts, self._hinter, self._chat_tokens, self.composer, self._accepts)
        self._note(site_metrics(gather_object([found_sites(sites, dropped)])))
        return sites

    def _observe(
        self,
        samples: RolloutSamples,
        rollouts: Sequence[Rolled],
        sites: Sequence[Sequence[OnlineSite]],
        rewards: Sequence[float],
    ) -> None:
        counts = Counter[str]()
        for own in gather_object([count_rollouts(rollouts, self._end_ids)]):
            counts += own
        self._note(rollout_metrics(counts))
        if self.accelerator.is_main_process:
            hints = [{site.turn: site.hint for site in found} for found in sites]
            samples.keep(self.state.global_step + 1, rollouts, rewards, hints)

    def _rollouts(self, generated: dict[str, Any], scored: dict[str, Any]) -> list[Rolled]:
        sampled_BT = generated["completion_mask"] * generated.get("tool_mask", 1)
        rollouts: list[Rolled] = []
        for row, example in enumerate(scored["inputs"]):
            trace = example.get("trace") or trace_of_messages(
                scored["prompts"][row], scored["completions"][row], self._tools_of(example)
            )
            prompt_ids = generated["prompt_ids"][row][generated["prompt_mask"][row].bool()].tolist()
            completion_ids = generated["completion_ids"][row][generated["completion_mask"][row].bool()].tolist()
            rollouts.append(Rolled(trace, prompt_ids, completion_ids, sampled_BT[row][: len(completion_ids)].tolist()))
        return rollouts

    def _tools_of(self, example: dict[str, Any]) -> Sequence[Any]:
        if self.environment_factories is None:
            return self.tools or ()
        return self._env_tools[example.get("environment") if self._multi_environment else None]

    # Loss

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if not self._is_training or not self._schedules:
            self._flush()
            return super()._compute_loss(model, inputs)
        stored = self._stored_backward(model) if self.active_channels else 0.0
        sites = [(row, site) for row, found in enumerate(inputs.get("sdpo_sites", ())) for site in found]
        most = int(self._gather(len(sites)).max()) if self.alpha_sdpo else 0
        self._lesson = _Lesson(model, [site for _, site in sites], most, inputs) if self.alpha_sdpo else None
        try:
            loss = super()._compute_loss(model, inputs)
        finally:
            lesson, self._lesson = self._lesson, None
        self._log("channel/policy", self.current_gradient_accumulation_steps * loss)
        distilled = self._distil(lesson, sites) if lesson and most else None
        if self.alpha_sdpo:
            self._log(f"channel/{SDPO}", self._step_mean(distilled) if distilled else 0.0)
        if self._balance:
            self._measure(model, loss, distilled)
        if distilled is not None:
            self._check_empty_hint(model, inputs, sites)
            loss = loss + distilled.loss if self._weight(SDPO) else loss
        if self._balance and self.accelerator.sync_gradients:
            self._conclude(self._balance)
        self._hidden = None
        self._flush()
        return loss + stored

    def _step_mean(self, distilled: Distilled) -> Tensor:
        """A micro-step's part of the sum over the step, so that their mean is that sum."""
        return self.current_gradient_accumulation_steps * distilled.loss / self._probed_weight(SDPO)

    def _stored_backward(self, model: Any) -> Tensor | float:
        """Backward of every channel on stored data; its value is returned for the log alone."""
        assert self._batches is not None
        batch = {key: value.to(self.accelerator.device) for key, value in next(self._batches).items()}
        if self.accelerator.num_processes > 1:
            batch |= self._shares(batch)
        unwrapped = self.accelerator.unwrap_model(model)
        total: Tensor | float = 0.0
        for channel in self.active_channels:
            # The policy's backward pass synchronises the sum.
            apart = isinstance(model, DistributedDataParallel)
            with self.accelerator.no_sync(model) if apart else nullcontext():
                with self.accelerator.autocast():
                    term: Tensor = call_inside_forward(model, unwrapped, channel.loss, unwrapped, batch)
                # TRL's loss is already divided for gradient accumulation; an added term must do the same.
                share = term / self.current_gradient_accumulation_steps
                if self._balance:
                    self._measure_stored(self._balance, unwrapped, channel.name, share)
                weight = self._weight(channel.name)
                weighted = weight * share
                if weight and share.requires_grad:
                    self.accelerator.backward(weighted)
            self._log(f"channel/{channel.name}", term)
            self._note({f"{channel.name}/{name}": value for name, value in getattr(channel, "metrics", {}).items()})
            total = total + weighted.detach()
        return total

    def _shares(self, batch: Batch) -> Batch:
        """Sites and pairs per process: divided by these, a mean over processes is one over all sites or pairs."""
        counted = {"sdpo_number": "sdpo_row", "dpo_number": "dpo_label_smoothing"}
        least = 1 / self.accelerator.num_processes
        return {name: self._gather(len(batch[key])).mean().clamp(min=least) for name, key in counted.items()}

    def _distil(self, lesson: _Lesson, sites: Sequence[tuple[int, OnlineSite]]) -> Distilled:
        assert self._hidden is not None
        inputs, device, unwrapped = lesson.inputs, self.accelerator.device, self.accelerator.unwrap_model(lesson.model)
        teacher_NH, teacher = lesson.taught or self._teach(lesson, inside_forward=False)
        lengths_K = torch.tensor([len(site.turn_ids) for _, site in sites], dtype=torch.long)
        labels_N = torch.tensor([token for _, site in sites for token in site.turn_ids], dtype=torch.long).to(device)
        row_N = torch.tensor([row for row, _ in sites], dtype=torch.long).repeat_interleave(lengths_K).to(device)
        place_N = places([site.start for _, site in sites], lengths_K).to(device)
        same_N = inputs["completion_ids"][row_N, place_N] == labels_N
        self._require(same_N, "teacher and student tokens of a site differ")
        # Position p predicts token p + 1.
        student_NH = self._hidden[row_N, inputs["prompt_ids"].shape[1] - 1 + place_N]
        states = SiteStates(student_NH, teacher_NH, labels_N, lengths_K)
        # The number spans the generation batch of all processes; a micro-step has its share of the window.
        number = float(inputs["sdpo_number"].clamp(min=1)) / self.accelerator.num_processes
        number = number * self.current_gradient_accumulation_steps / self._grpo_args.steps_per_generation
        with self.accelerator.autocast():
            head, weight = output_head(unwrapped), self._probed_weight(SDPO)
            distilled = distil(states, head, teacher, self.composer, number, weight)
        self._note(distilled_metrics(distilled, [site.kind for _, site in sites]))
        return distilled

    def _teach(self, lesson: _Lesson, inside_forward: bool) -> tuple[Tensor, Head]:
        """Hidden states of the teacher at the sites; every process makes as many passes as the one with the most."""
        rows, unwrapped = self.composer.teacher_rows, self.accelerator.unwrap_model(lesson.model)
        states: list[Tensor] = []
        with torch.no_grad(), self.teacher.installed(unwrapped), _evaluating(unwrapped):
            for first in range(0, lesson.most, rows):
                arguments = (unwrapped, lesson.sites[first : first + rows], lesson.inputs)
                if inside_forward:
                    states.append(self._teacher_pass(*arguments))
                else:
                    states.append(call_inside_forward(lesson.model, unwrapped, self._teacher_pass, *arguments))
            head = output_head(unwrapped)
            # Gathered shards are overwritten when the teacher leaves.
            keep = torch.clone if is_sharded(unwrapped) else torch.detach
            weight_VH, bias_V = head.weight_VH.detach(), head.bias_V
            head = Head(keep(weight_VH), None if bias_V is None else keep(bias_V.detach()), head.scale)
        return torch.cat(states), head

    def _teacher_pass(self, model: Any, sites: Sequence[OnlineSite], inputs: dict[str, Any]) -> Tensor:
        """States that predict the turns, turn after turn. Without a site the pass is made over a prompt."""
        device = self.accelerator.device
        rows = [site.teacher_ids for site in sites] or [inputs["prompt_ids"][0].tolist()]
        width = max(map(len, rows))
        ids_KT = torch.tensor([row + [0] * (width - len(row)) for row in rows]).to(device)
        with self._fresh_autocast():
            hidden_KTH = last_hidden(model, ids_KT)
        turns_K = torch.tensor([len(site.turn_ids) for site in sites], dtype=torch.long)
        row_N = torch.arange(len(sites)).repeat_interleave(turns_K).to(device)
        # Position p predicts token p + 1.
        return hidden_KTH[row_N, places([len(site.teacher_context) - 1 for site in sites], turns_K).to(device)]

    def _check_empty_hint(self, model: Any, inputs: dict[str, Any], sites: list[tuple[int, OnlineSite]]) -> None:
        """The policy behind an empty hint is the policy: what differs comes from splicing, masks or the head."""
        step = self.state.global_step
        if step % CHECK_EVERY_STEPS or step == self._checked_at:
            return
        self._checked_at = step
        unwrapped, some, prompts = self.accelerator.unwrap_model(model), sites[:CHECKED_SITES], inputs["prompt_ids"]
        plain: list[OnlineSite] = []
        for row, site in some:
            prompt_ids = prompts[row][inputs["prompt_mask"][row].bool()].tolist()
            context = prompt_ids + inputs["completion_ids"][row, : site.start].tolist()
            plain.append(site._replace(teacher_context=context))
        first, lengths = prompts.shape[1] - 1, torch.tensor([len(site.turn_ids) for site in plain], dtype=torch.long)
        row_N = torch.tensor([row for row, _ in some], dtype=torch.long).repeat_interleave(lengths)
        with torch.no_grad(), _evaluating(unwrapped), self.accelerator.autocast():
            teacher_NH: Tensor = call_inside_forward(model, unwrapped, self._teacher_pass, unwrapped, plain, inputs)
            assert self._hidden is not None
            student_NH = self._hidden[row_N, first + places([site.start for site in plain], lengths)]
            value = mean_divergence(student_NH, teacher_NH, output_head(unwrapped), self.composer) if some else 0.0
        self.empty_hint_divergence = float(self._gather(float(value)).max())
        self._note({"sdpo/empty_hint_divergence": self.empty_hint_divergence})

    # Who is in charge

    def _schedule(self, weight: float) -> ChannelSchedule:
        return ChannelSchedule(weight, self.composer.warmup_share, self.composer.decay_share)

    def _scheduled(self, name: str) -> float:
        return self._schedules[name].at(self.state.global_step, max(1, self.state.max_steps))

    def _weight(self, name: str) -> float:
        """0 until the channel's gradient has been measured: what it would do to the policy is not known before."""
        return self._scheduled(name) * (self._balance.factors.get(name, 0.0) if self._balance else 1.0)

    def _probed_weight(self, name: str) -> float:
        return self._weight(name) or self._scheduled(name)

    def _measure(self, model: Any, loss: Tensor, distilled: Distilled | None) -> None:
        """Probe a micro-step."""
        unwrapped = self.accelerator.unwrap_model(model)
        parameters = probed_parameters(unwrapped)
        targets = parameters or ([self._hidden] if self._hidden is not None else [])
        add = self._gradients.add if parameters else self._gradients.add_part
        add(POLICY, probe(unwrapped, loss, targets))
        if distilled is not None:
            weight = self._scheduled(SDPO) / self._probed_weight(SDPO)
            add(SDPO, probe(unwrapped, distilled.loss, targets), weight)

    def _measure_stored(self, balance: _Balance, unwrapped: Any, name: str, share: Tensor) -> None:
        found = probe(unwrapped, share, probed_parameters(unwrapped))
        if found:
            self._gradients.add(name, found, self._scheduled(name))
        else:
            balance.leave(name)

    def _conclude(self, balance: _Balance) -> None:
        """At the last micro-step: the factors of the next step, the same in every process."""
        norms, cosines = self._gradients.take(self.accelerator)
        policy = norms.pop(POLICY, 0.0)
        self._log("gradient/policy", policy)
        for name, norm in norms.items():
            if not norm:
                continue  # nothing to learn from in this step says nothing about the next ones
            self._log(f"gradient/{name}", norm)
            self._log(f"gradient/{name}_factor", balance.note(name, policy, norm))
            if name in cosines:
                self._log(f"gradient/cosine_policy_{name}", cosines[name])

    # Checkpoints

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        place = (self.accelerator.process_index, self._shared_parts, self.accelerator.num_processes)
        checkpoints.save(folder, self._stateful, *place)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            if self.alpha_sdpo:
                self.teacher.begin(self.model)
            checkpoints.load(Path(checkpoint), self._stateful, self.accelerator.process_index, self._shared_parts)

    @property
    def _shared_parts(self) -> frozenset[str]:
        return frozenset() if self.is_fsdp_enabled else frozenset({"teacher"})

    # Plumbing

    @property
    def _is_training(self) -> bool:
        model: Any = self.model
        return bool(model.training)

    @property
    def _grpo_args(self) -> Any:
        return self.args

    @property
    def _end_ids(self) -> list[int]:
        ids: Any = self.eos_token_ids
        return ids

    @property
    def _pad_id(self) -> int:
        tokenizer: Any = self._tokenizer
        return tokenizer.pad_token_id

    def _prompt_stream(self) -> PromptStream:
        rows = self.args.per_device_train_batch_size * self._grpo_args.steps_per_generation
        if rows % int(self.num_generations or 1) or self.train_dataset is None:
            raise ValueError("dynamic sampling needs whole groups in each process and a dataset of prompts")
        return PromptStream(
            self.train_dataset, self.args.seed, self.accelerator.process_index, self.accelerator.num_processes
        )

    def _keep_hidden(self, module: Any, arguments: Any, output: Any) -> None:
        """Called when the policy's states have been asked for: the teacher reads while the device works on them."""
        lesson = self._lesson
        if lesson is None or lesson.has_begun:
            return
        lesson.has_begun = True
        self._hidden = output.last_hidden_state
        # Shards must not be gathered twice at a time; their teacher reads afterwards.
        if lesson.most and not is_sharded(lesson.model):
            lesson.taught = self._teach(lesson, inside_forward=True)

    @contextmanager
    def _fresh_autocast(self) -> Generator[None]:
        """Precision as in training, but no weight that was cast before: the teacher's may have taken its place."""
        kind = self.accelerator.device.type
        with self.accelerator.autocast():
            enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            with torch.autocast(kind, dtype, enabled=enabled, cache_enabled=False):
                yield

    def _gather(self, value: float) -> Any:
        """One value of each process; that of a single one never leaves the CPU."""
        own = torch.tensor([float(value)])
        return own if self.accelerator.num_processes == 1 else self.accelerator.gather(own.to(self.accelerator.device))

    def _note(self, values: Mapping[str, Tensor | float]) -> None:
        """This process's own values, or such as are the same in every process."""
        self._own |= values

    def _log(self, name: str, value: Tensor | float) -> None:
        """Mean over the processes, which must all call this."""
        self._shared[name] = value

    def _require(self, holds_N: Tensor, otherwise: str) -> None:
        self._own[f"{MUST_HOLD}{otherwise}"] = holds_N.all()

    def _flush(self) -> None:
        """Read everything that was noted from the device at once: each reading on its own would stall it."""
        own, shared = _on_cpu(self._own), _on_cpu(self._shared)
        self._own, self._shared = {}, {}
        if self.accelerator.num_processes > 1 and shared:
            gathered: Any = self.accelerator.gather(
                torch.tensor([list(shared.values())], device=self.accelerator.device)
            )
            shared = dict(zip(shared, gathered.mean(0).tolist(), strict=True))
        for name, value in {**own, **shared}.items():
            if not name.startswith(MUST_HOLD):
                self._metrics["train"][name].append(value)
            elif not value:
                raise ValueError(name.removeprefix(MUST_HOLD))


def _on_cpu(values: Mapping[str, Tensor | float]) -> dict[str, float]:
    found = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    if not found:
        return {name: float(value) for name, value in values.items()}
    read = dict(zip(found, torch.stack([value.detach().float() for value in found.values()]).tolist(), strict=True))
    return {name: read[name] if name in read else float(value) for name, value in values.items()}


@dataclass
class _Lesson:
    """What the teacher is to read in a micro-step, and what it made of it."""

    model: Any
    sites: Sequence[OnlineSite]
    most: int
    """Sites of the process that has the most."""
    inputs: dict[str, Any]
    has_begun: bool = False
    taught: tuple[Tensor, Head] | None = None


class _Balance:
    """How far each channel is held back, by its gradient in the last step in which it had one."""

    def __init__(self, names: Sequence[str], limit: float) -> None:
        self._caps = {name: GradientRatioCap(limit) for name in names}
        self.factors: dict[str, float] = {}

    def note(self, name: str, policy_norm: float, weighted_norm: float) -> float:
        self.factors[name] = self._caps[name].factor(policy_norm, weighted_norm)
        return self.factors[name]

    def leave(self, name: str) -> None:
        """The channel cannot be measured here and keeps its whole weight."""
        self.factors[name] = 1.0

    def state(self) -> dict[str, Any]:
        """Checkpoints are made between steps, where nothing is half measured."""
        return {"caps": {name: cap.state() for name, cap in self._caps.items()}, "factors": self.factors}

    def load(self, state: dict[str, Any]) -> None:
        for name, cap in self._caps.items():
            cap.load(state["caps"][name])
        self.factors = dict(state["factors"])


class _Following(TrainerCallback):
    def __init__(self, teacher: SelfTeacher) -> None:
        self._teacher = teacher

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._teacher.begin(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._teacher.update(model)


def _evaluating(model: Any) -> AbstractContextManager[Any]:
    """Without dropout, and without the recomputation that only a backward pass needs."""
    return evaluating(model) if acts_differently_in_training(model) else nullcontext()
