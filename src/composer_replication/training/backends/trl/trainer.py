"""TRL's GRPO trainer with further channels added to its loss: the adapter from the core of a step to TRL.

    GRPO/DAPO as TRL computes it   +   alpha · SDPO on the error turns of the same rollouts   +   beta · TR-DPO

With no active channel every method is TRL's own, so the run is bit-identical to plain GRPO. Channel 2 reuses the hidden
states of TRL's forward pass and adds one pass without gradient for the teacher. A channel on stored data has a backward
pass of its own, before the policy's forward pass, so that peak memory is the largest of the channels and not their sum.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, Schedule, SdpoSettings, TrdpoSettings
from composer_replication.sections import refuse_unknown

from ...alarms import COMPARED_STEPS, AlarmWarnings, Thresholds
from ...channels import Channel, ReplayPreference, SelfDistillation, schedule_of, scheduled
from ...lessons.metrics import found_sites, site_metrics, warn_if_all_dropped
from ...lessons.online_sites import (
    MAX_TEACHER_TOKENS,
    Accepts,
    Hinter,
    OnlineSite,
    Rolled,
    find_online_sites,
    refuse_idle_settings,
)
from ...lessons.self_teacher import SelfTeacher
from ...lessons.token_weights import TokenWeightsFolder, online_row, policy_row
from ...metrics import count_rollouts, rollout_metrics
from ...models.states import evaluating
from ...models.tiny import warn_of_unknown_words
from ...models.tokens import ChatTokens
from ...rollouts.samples import RolloutSamples
from ...step.balance import Balance
from ...step.engine import Engine
from ...step.gradients import POLICY
from ...step.log import StepLog
from ...step.online import SDPO, Lesson, OnlineDistillation, RolloutRows, with_lesson
from ...step.stored import StoredChannels
from ...stored.collator import Batch
from . import checkpoints
from .dynamic_sampling import PromptStream, flat_groups, replace_rows, rows_of
from .engine import AccelerateEngine
from .environment_traces import trace_of_messages
from .following import Following, StatefulTrainer, teachers_of
from .rewards import checked
from .rollouts import EnvironmentRollouts


class ComposerReplicationTrainer(StatefulTrainer, GRPOTrainer):
    """A `trl.GRPOTrainer` with `loss = GRPO + alpha_sdpo · SDPO + beta_replay · TR-DPO`, plus any further `channels`.

    With a `hinter` channel 2 works on the error turns of each step's own rollouts: those of `environment_factory` as
    TRL records them, or those of a `rollout_func` that returns one `Trace` per row as `trace`.

    The alarms of training are Python warnings, each said once.

    Args:
        *args: What `GRPOTrainer` takes; so are all further keywords.
        alpha_sdpo: Weight of channel 2, which needs a `hinter` or `batches` with error turns. None: 0.1 where there is
            one of these, and else 0.
        beta_replay: Weight of channel 3, which needs `batches`. None: 0.05 where there are some, and else 0.
        channels: Further channels. One that is named `sdpo` or `replay` takes the place of the built-in
            one, with its own settings and weight, as `SelfDistillation(SdpoSettings(teacher="live"))` does.
        grpo: Weight, schedule and advantage of channel 1, where they are not the usual ones.
        hinter: Which turns of the rollouts went wrong, and the hint for each.
        accepts: Sites for which it says False are left out of channel 2, as with `require_acceptance`.
        batches: Collated stored traces without end, one per micro-step. Channel 3 and further channels read them, and
            channel 2 where there is no hinter. They must be drawn from a random generator of their own.
        gradient_ratio_cap: The largest weighted gradient of a channel, as a multiple of the policy's. None: channels
            keep their whole weight from the first step, and no gradient is measured or logged.
        gradient_ratio_target: Whether smaller gradients are raised to the cap.
        dynamic_sampling_rounds: How often groups with one reward throughout are replaced by groups for
            other prompts.
        max_teacher_tokens: Hinted contexts that are longer than this, or than the model has positions for, are left out
            of channel 2.
        samples_elsewhere: Take the ratio of channel 1 to the log-probabilities that came with the rollouts, not to the
            policy's own.
        samples: Logs how the rollouts behave, and keeps some of them.
        token_weights: Keeps how much each channel pulls at the tokens of the rollouts that `samples` keeps.
        stateful: Objects whose state belongs into checkpoints, such as `batches` and the rollouts' generator.
    """

    if TYPE_CHECKING:  # TRL's own types leave open what a trainer of GRPO has there
        args: Any
        model: Any
        eos_token_ids: Any
        _tokenizer: Any

    def __init__(
        self,
        *args: Any,
        alpha_sdpo: float | None = None,
        beta_replay: float | None = None,
        channels: Sequence[Channel] = (),
        grpo: GrpoSettings | None = None,
        hinter: Hinter | None = None,
        accepts: Accepts | None = None,
        batches: Iterator[Batch] | None = None,
        gradient_ratio_cap: float | None = 0.5,
        gradient_ratio_target: bool = False,
        dynamic_sampling_rounds: int = 0,
        max_teacher_tokens: int = MAX_TEACHER_TOKENS,
        samples_elsewhere: bool = False,
        samples: RolloutSamples | None = None,
        token_weights: TokenWeightsFolder | None = None,
        stateful: Mapping[str, checkpoints.Stateful] | None = None,
        **kwargs: Any,
    ) -> None:
        known = {**signature(ComposerReplicationTrainer).parameters, **signature(GRPOTrainer).parameters}
        refuse_unknown(kwargs, known, type(self).__name__)
        super().__init__(*args, **kwargs)
        self.reward_funcs = list(map(checked, self.reward_funcs, self.reward_func_names))
        if isinstance(self.rollout_func, EnvironmentRollouts):
            self.rollout_func.check_dataset(self.train_dataset)
            # TRL knows where texts end. A base model's turns end otherwise, and all would be taken for cut off.
            self.eos_token_ids = sorted({*self.eos_token_ids, self.rollout_func.end_of_turn_id})
        _refuse_no_channels(channels)
        _refuse_nonsense(gradient_ratio_cap, dynamic_sampling_rounds)
        _refuse_two_weights(
            channels, {SDPO: ("alpha_sdpo", alpha_sdpo), ReplayPreference.name: ("beta_replay", beta_replay)}
        )
        has_batches = batches is not None
        has_sites: bool = hinter is not None or getattr(batches, "holds_sites", has_batches)
        alpha_sdpo = 0.1 * has_sites if alpha_sdpo is None else alpha_sdpo
        beta_replay = 0.05 * has_batches if beta_replay is None else beta_replay
        added = _with_the_origins(channels, alpha_sdpo, beta_replay)
        _refuse_idle(added[SDPO], has_sites, "hinter=TraceHinter(), or batches with error turns")
        _refuse_idle(added[ReplayPreference.name], has_batches, "batches=StoredBatches(…)")
        self._sdpo, distilling = SdpoSettings(weight=0.0), added[SDPO]
        if hinter and isinstance(distilling, SelfDistillation):
            self._sdpo = distilling.settings
            refuse_idle_settings(self._sdpo, hinter, accepts)
            del added[SDPO]
        self.alpha_sdpo = self._sdpo.weight
        stored = [channel for channel in added.values() if channel.weight]
        if stored and batches is None:
            raise ValueError(f"channel {stored[0].name} needs batches to read")
        policy = grpo or GrpoSettings()
        self._imitates = policy.advantage == "accepted"
        schedules = {channel.name: schedule_of(channel) for channel in stored}
        if self.alpha_sdpo:
            schedules[SDPO] = scheduled(self.alpha_sdpo, self._sdpo.schedule)
        self._is_plain = not schedules and scheduled(policy.weight, policy.schedule) == scheduled(1.0, Schedule())
        schedules[POLICY] = scheduled(policy.weight, policy.schedule)
        self._engine = AccelerateEngine(self.accelerator)
        self._log = StepLog(self._engine, lambda name, value: self._metrics["train"][name].append(value))
        self._balance = Balance(schedules, gradient_ratio_cap, gradient_ratio_target)
        self._stored = StoredChannels(stored, self._balance, self._engine, self._log)
        self._batches, self._hinter, self._accepts, self._samples = batches, hinter, accepts, samples
        self._max_teacher_tokens = min(max_teacher_tokens, _positions(self.model) or max_teacher_tokens)
        self._sampling_rounds, self._is_told_dropped = dynamic_sampling_rounds, False
        self._token_weights, self._samples_elsewhere = token_weights if samples else None, samples_elsewhere
        self._scored: dict[str, Any] = {}
        self._stateful: dict[str, checkpoints.Stateful] = dict(stateful or {})
        self._online = None
        if self.alpha_sdpo:
            settings: Any = self.chat_template_kwargs
            self._online = OnlineDistillation(self._sdpo, self._engine, self._log, self.args.temperature)
            self._chat_tokens = ChatTokens(self._tokenizer, self.chat_template, settings)
            self._online.listen(self.model)
        self._teachers = teachers_of(stored) | ({"teacher": self._online.teacher} if self._online else {})
        self._stateful |= self._teachers
        for teacher in self._teachers.values():
            self.add_callback(Following(teacher))
        if self._balance.is_capped:
            self._stateful["balance"] = self._balance
        if not any(isinstance(one, AlarmWarnings) for one in self.callback_handler.callbacks):
            compared = COMPARED_STEPS if policy.weight else None
            self.add_callback(
                AlarmWarnings(Thresholds(compared_steps=compared, imitates=self._imitates), self._sdpo.jsd_beta)
            )
        self._prompts: PromptStream | None = None
        if dynamic_sampling_rounds:
            self._prompts = self._prompt_stream()
            self._stateful["prompts"] = self._prompts

    @property
    def active_channels(self) -> list[Channel]:
        """Those that read `batches`."""
        return self._stored.active

    @property
    def teacher(self) -> SelfTeacher:
        """Who sees the hint in channel 2."""
        assert self._online is not None
        return self._online.teacher

    @property
    def empty_hint_divergence(self) -> float:
        """How far the teacher of channel 2 is from the policy without a hint; rounding, if all is well."""
        return self._online.empty_hint_divergence if self._online else 0.0

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
        if not self.model.training:
            return generated
        if self.args.mask_truncated_completions and not generated["completion_mask"].any():
            warnings.warn(
                "mask_truncated_completions left out every rollout of a step, as each was cut off at its last turn; "
                "allow longer turns, or take it out",
                stacklevel=2,
            )
        scored = self._scored
        if self._prompts:
            generated, scored = self._refilled(self._prompts, generated, scored)
        if self._imitates:
            generated["advantages"] = imitating(scored["rewards"], generated["advantages"], self._engine)
        if self._samples_elsewhere:
            generated["old_per_token_logps"] = generated["sampling_per_token_logps"]
        if not self._looks_at_rollouts:
            return generated
        rollouts = self._rollouts(generated, scored) if self.alpha_sdpo or self._samples else []
        sites = self._sites(rollouts) if self.alpha_sdpo else [[] for _ in rollouts]
        if self._samples:
            self._observe(self._samples, rollouts, sites, scored["rewards"])
            if self._token_weights and self._weighs_tokens:
                hints = _hints_of(sites)
                for row in self._samples.chosen(scored["rewards"], hints):
                    self._weigh(self._token_weights, rollouts[row], sites[row], generated, row, sum(map(len, sites)))
        if not self._online:
            return generated
        if self.args.steps_per_generation <= self.args.gradient_accumulation_steps and self.num_iterations == 1:
            self._online.expect([site for found in sites for site in found])
        # Lists of the batch's length are shuffled and split with it.
        return {**generated, "sdpo_sites": sites, "sdpo_number": self._engine.gather(sum(map(len, sites))).sum()}

    @property
    def _looks_at_rollouts(self) -> bool:
        return bool(self.alpha_sdpo or self._prompts or self._samples or self._imitates)

    def _refilled(
        self, prompts: PromptStream, generated: dict[str, Any], scored: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        size, pad_id = int(self.num_generations or 1), self._tokenizer.pad_token_id
        flat = flat_groups(scored["rewards"], size)
        for _ in range(self._sampling_rounds):
            most = int(self._engine.gather(len(flat)).max())
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
        generated["num_items_in_batch"] = (
            self._engine.gather(own.sum().item()).sum().to(generated["num_items_in_batch"].dtype)
        )
        self._log.log("dynamic_sampling/flat_groups_left", len(flat) * size / len(own))
        return generated, scored

    def _sites(self, rollouts: Sequence[Rolled]) -> list[list[OnlineSite]]:
        assert self._hinter is not None
        sites, dropped = find_online_sites(
            rollouts, self._hinter, self._chat_tokens, self._sdpo, self._accepts, self._max_teacher_tokens
        )
        if not self.state.global_step:
            warn_of_unknown_words(self._tokenizer, "hints", (site.hint for found in sites for site in found))
        metrics = site_metrics(gather_object([found_sites(sites, dropped)]))
        self._log.note(metrics)
        if not self._is_told_dropped:
            self._is_told_dropped = warn_if_all_dropped(metrics, self.state.global_step + 1)
        return sites

    def _observe(
        self,
        samples: RolloutSamples,
        rollouts: Sequence[Rolled],
        sites: Sequence[Sequence[OnlineSite]],
        rewards: Sequence[float],
    ) -> None:
        counts = Counter[str]()
        for own in gather_object([count_rollouts(rollouts, self.eos_token_ids)]):
            counts += own
        self._log.note(rollout_metrics(counts))
        if self.accelerator.is_main_process:
            samples.keep(self.state.global_step + 1, rollouts, rewards, _hints_of(sites))

    def _rollouts(self, generated: dict[str, Any], scored: dict[str, Any]) -> list[Rolled]:
        sampled_BT = generated["completion_mask"] * generated.get("tool_mask", 1)
        rollouts: list[Rolled] = []
        for row, example in enumerate(scored["inputs"]):
            trace = example.get("trace") or trace_of_messages(
                scored["prompts"][row], scored["completions"][row], self._tools_of(example), scored["rewards"][row]
            )
            prompt_ids = generated["prompt_ids"][row][generated["prompt_mask"][row].bool()].tolist()
            completion_ids = generated["completion_ids"][row][generated["completion_mask"][row].bool()].tolist()
            sampled = sampled_BT[row][: len(completion_ids)].tolist()
            logprobs = self._logprobs(generated, row, len(completion_ids))
            versions, broken = example.get("model_versions", ()), example.get("step_failure") == "runtime_error"
            rollouts.append(Rolled(trace, prompt_ids, completion_ids, sampled, versions, logprobs, broken))
        return rollouts

    def _logprobs(self, generated: dict[str, Any], row: int, number: int) -> tuple[float, ...]:
        """Of whoever sampled, where channel 2 weighs tokens by them."""
        found_BT = generated.get("sampling_per_token_logps")
        if self._sdpo.importance_clip is None or found_BT is None:
            return ()
        return tuple(found_BT[row][:number].tolist())

    def _tools_of(self, example: dict[str, Any]) -> Sequence[Any]:
        if self.environment_factories is None:
            return self.tools or ()
        return self._env_tools[example.get("environment") if self._multi_environment else None]

    # Loss

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if not self.model.training or self._is_plain:
            self._log.flush()
            return super()._compute_loss(model, inputs)
        self._balance.at(self.state.global_step, self.state.max_steps)
        stored = self._stored_backward(model) if self.active_channels else 0.0
        with self._lesson(model, inputs) as lesson:
            loss = super()._compute_loss(model, inputs)
        micro_steps = self.current_gradient_accumulation_steps
        unwrapped, step = self.accelerator.unwrap_model(model), self.state.global_step
        loss = with_lesson(loss, lesson, self._online, self._balance, self._log, unwrapped, micro_steps, step)
        if self._balance.is_capped and self.accelerator.sync_gradients:
            self._balance.conclude(self._engine, self._log)
        if self._token_weights and self.accelerator.sync_gradients:
            self._token_weights.write()
        self._log.flush()
        return loss + stored

    def _stored_backward(self, model: Any) -> Tensor:
        assert self._batches is not None
        batch, micro_steps = next(self._batches), self.current_gradient_accumulation_steps
        if self._token_weights and self._weighs_tokens:
            self._weigh_stored(self._token_weights, model, batch, micro_steps)
        # TRL's loss is already divided for gradient accumulation; an added term must do the same.
        return self._stored.backward(model, batch, micro_steps)

    def _lesson(self, model: Any, inputs: dict[str, Any]) -> AbstractContextManager[Lesson | None]:
        if self._online is None:
            return nullcontext()
        sites = [(row, site) for row, found in enumerate(inputs["sdpo_sites"]) for site in found]
        rows = RolloutRows(inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"])
        # The number spans the generation batch of all processes; a micro-step has its share of the window.
        number = float(inputs["sdpo_number"].clamp(min=1)) / self.accelerator.num_processes
        number = number * self.current_gradient_accumulation_steps / self.args.steps_per_generation
        return self._online.lesson(model, sites, rows, number, self._balance.probed_weight(SDPO))

    # Token weights

    @property
    def _weighs_tokens(self) -> bool:
        assert self._samples is not None
        return self._samples.wants(self.state.global_step + 1)

    def _weigh(
        self,
        folder: TokenWeightsFolder,
        rolled: Rolled,
        sites: Sequence[OnlineSite],
        generated: dict[str, Any],
        row: int,
        number_of_sites: int,
    ) -> None:
        """A rollout of this step, by the weights with which the step begins."""
        step, model = self.state.global_step, self.accelerator.unwrap_model(self.model)
        self._balance.at(step, self.state.max_steps)
        slope = self._balance.weight(POLICY) * generated["advantages"][row].item() / generated["num_items_in_batch"]
        with evaluating(model):
            found = policy_row(model, rolled, float(slope), self.args.temperature)
            folder.add(step + 1, POLICY, found, rolled.trace.trace_id)
            if self._online and sites:
                weight = self._balance.weight(SDPO) / number_of_sites
                temperature = self.args.temperature
                found = online_row(model, self._online.teacher, rolled, sites, self._sdpo, weight, temperature)
                folder.add(step + 1, SDPO, found, rolled.trace.trace_id)

    def _weigh_stored(self, folder: TokenWeightsFolder, model: Any, batch: Batch, micro_steps: int) -> None:
        unwrapped = self.accelerator.unwrap_model(model)
        batch = {key: value.to(self.accelerator.device) for key, value in batch.items()}
        for channel in self.active_channels:
            weigh = getattr(channel, "token_weights", None)
            with evaluating(unwrapped):
                weight = self._balance.weight(channel.name) / micro_steps
                for found in weigh(unwrapped, batch, weight) if weigh else ():
                    folder.add(self.state.global_step + 1, channel.name, found)

    # Plumbing

    def _prompt_stream(self) -> PromptStream:
        rows = self.args.per_device_train_batch_size * self.args.steps_per_generation
        if rows % int(self.num_generations or 1) or self.train_dataset is None:
            raise ValueError("dynamic sampling needs whole groups in each process and a dataset of prompts")
        return PromptStream(
            self.train_dataset, self.args.seed, self.accelerator.process_index, self.accelerator.num_processes
        )


def imitating(rewards: Sequence[float], advantages_B: Tensor, engine: Engine) -> Tensor:
    """The policy gradient of these is that of the likelihood of the accepted rollouts: on its own samples the ratio is
    1. As large as if the step had no others, in any process; without any, 0."""
    accepted_B = advantages_B.new_tensor(rewards) >= 1
    return accepted_B / (float(engine.gather(accepted_B.float().mean().item()).mean()) or 1.0)


def _positions(model: Any) -> int | None:
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _hints_of(sites: Sequence[Sequence[OnlineSite]]) -> list[dict[int, str]]:
    return [{site.turn: site.hint for site in found} for found in sites]


def _with_the_origins(channels: Sequence[Channel], alpha_sdpo: float, beta_replay: float) -> dict[str, Channel]:
    """By name, those of the origin's two weights first."""
    origins = SelfDistillation(SdpoSettings(weight=alpha_sdpo)), ReplayPreference(TrdpoSettings(weight=beta_replay))
    return {channel.name: channel for channel in (*origins, *channels)}


def _refuse_no_channels(channels: Sequence[Any]) -> None:
    for channel in channels:
        if isinstance(channel, type):
            name = channel.__name__
            raise TypeError(f"channels takes channels, not the class {name}: {name}(…)")
        if not hasattr(channel, "loss"):
            name = type(channel).__name__
            raise TypeError(f"channels takes channels, not {name}: SelfDistillation({name}(…)), for example")


def _refuse_nonsense(gradient_ratio_cap: float | None, dynamic_sampling_rounds: int) -> None:
    if gradient_ratio_cap is not None and not gradient_ratio_cap > 0:
        raise UsageError(f"gradient_ratio_cap is {gradient_ratio_cap}", "give a number above 0, or None for no cap")
    if dynamic_sampling_rounds < 0:
        raise UsageError(f"dynamic_sampling_rounds is {dynamic_sampling_rounds}", "give 0 or more")


def _refuse_two_weights(channels: Sequence[Channel], given: Mapping[str, tuple[str, float | None]]) -> None:
    for channel in channels:
        name, weight = given.get(channel.name, ("", None))
        if weight and weight != channel.weight:
            message = f"{name} is {weight}, and the channel {channel.name} has the weight {channel.weight}"
            raise UsageError(message, f"leave out {name}: the settings of a channel hold its weight")


def _refuse_idle(channel: Channel, has_source: bool, source: str) -> None:
    """Plain GRPO would be reported as a channel without effect."""
    if channel.weight and not has_source:
        message = f"channel {channel.name} has weight {channel.weight} and nothing to learn from"
        raise UsageError(message, f"pass {source}, or give it weight 0")
