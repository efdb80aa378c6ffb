"""`--backend tinker`: rollouts, sites and pairs are made here, a server of the Tinker API samples and trains adapters.

Reads what every backend reads; leaves the adapters in `adapters` and the policy with them merged in. A checkpoint is
the server's own state and, here, its path with the place in the random generators and in the stored traces.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import TrainerControl, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from composer_replication.config import Config
from composer_replication.environments.protocol import TRAIN, Environment
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.progress import Progress

from . import processes
from .backends import lost_by
from .backends.tinker.contract import idle
from .backends.tinker.probe import find_contract
from .backends.tinker.sampler import TinkerSampler
from .backends.tinker.server import Adam, TinkerServer
from .backends.trl import checkpoints
from .channels import scheduled
from .interrupts import held_back
from .lessons.hinters import hinter_of
from .lessons.metrics import found_sites, site_metrics
from .lessons.online_sites import Rolled, find_online_sites
from .metrics import ReadFile, count_rollouts, rollout_metrics
from .models.loading import Policy
from .models.whole import save_adapters
from .planning.refusals import refuse_for_backend, refuse_what_would_do_nothing
from .rollouts.playing import closed, rollout_settings, started
from .rollouts.samples import RolloutSamples
from .rollouts.worker import RolloutWorker
from .running import prepared, steps_of, telling_of, training_tasks
from .step.balance import Balance
from .step.gradients import POLICY
from .step.online import SDPO
from .step.sampled import (
    REPLAY,
    Distilling,
    Preferring,
    PulledRow,
    SampledStep,
    online_turns,
    policy_rows,
    sampled_step,
    stored_turns,
)
from .stored.batches import StoredBatches
from .stored.collator import ComposerDataCollator
from .stored.examples import TraceExample
from .stored.policy_gradient import group_advantage
from .stored.records import TrainingStep

KNOWN_TOKENS = 64
SAME_NATS = 0.02
"""How far, on average over the tokens of a prompt, two copies of one model may lie apart."""


def train(
    policy: Policy,
    config: Config,
    environment: Environment,
    examples: Sequence[TraceExample],
    folder: Path,
    progress: Progress,
    callbacks: Sequence[TrainerCallback] = (),
    url: str = "",
) -> list[TrainingStep]:
    refuse_what_would_do_nothing(config, processes.number())
    refuse_for_backend(config, "tinker", processes.number())
    scratch = folder / "scratch"
    checkpoint = checkpoints.latest(scratch)
    known = known_text(policy, environment)
    server, model = opened(url, policy, config, known)
    for sentence in (f"{server.url} makes {server.contract.name} of a step's rows", *lost_by("tinker")):
        progress.note(sentence)
    collator, stored, watchdog, watchers = prepared(
        policy, config, examples, folder, progress, callbacks, empty_hint_divergence=None
    )
    run = TinkerRun(policy, config, environment, stored, collator, server, model, folder, watchers)
    if checkpoint:
        progress.note(f"training goes on from {checkpoint.name}")
        run.go_on_from(checkpoint)
    else:
        server.begin(model, config.hardware.lora_rank or 1, config.seed)
    held = partial(checkpoints.steps_held, scratch)
    with telling_of(progress, config.training.steps, lambda: run.trainer_state.global_step, run.phase, held):
        run.train()
    watchdog.raise_if_stopped()
    adopt_adapters(server, policy, config, folder, known)
    return steps_of(run.trainer_state.log_history)


def opened(url: str, policy: Policy, config: Config, known: list[int]) -> tuple[TinkerServer, str]:
    """The server with its contract known, and its name for the policy. One that serves another model is refused."""
    server = TinkerServer(url)
    offered = server.models()
    if not offered:
        raise UsageError(f"{url} offers no model", "start it with --base-model RUN/policy/model")
    model = config.model.name if config.model.name in offered else offered[0]
    server.begin(model, config.hardware.lora_rank or 1, config.seed)
    if (apart := nats_apart(server, policy.model, known)) > SAME_NATS:
        raise UsageError(
            f"{model} of {url} is not this run's starting policy: {apart:.2g} nats per token apart",
            "start the server with --base-model RUN/policy/model",
        )
    server.contract = find_contract(server, known)
    return server, model


class TinkerRun:
    """The steps. `state` is what callbacks of the other backends expect to read."""

    def __init__(
        self,
        policy: Policy,
        config: Config,
        environment: Environment,
        stored: Sequence[TraceExample],
        collator: ComposerDataCollator,
        server: TinkerServer,
        model: str,
        folder: Path,
        watchers: Sequence[TrainerCallback],
    ) -> None:
        settings, self._sdpo = config.training, config.channel(SdpoSettings)
        self._policy, self._config, self._environment, self._server = policy, config, environment, server
        self._scratch = folder / "scratch"
        self._batches = StoredBatches(stored, collator, settings.traces_per_step, config.seed) if stored else None
        self._tasks, self._hinter = training_tasks(environment, config), hinter_of(config.hints, self._sdpo)
        self._trdpo = config.channel(TrdpoSettings)
        channels = {POLICY: config.channel(GrpoSettings), SDPO: self._sdpo, REPLAY: self._trdpo}
        self._balance = Balance({name: scheduled(one.weight, one.schedule) for name, one in channels.items()}, None)
        is_frozen = self._sdpo.weight and self._sdpo.teacher == "frozen"
        self._teach = server.frozen_reader(model) if is_frozen else None
        rows = settings.prompts_per_step * settings.group_size
        room = int(policy.model.config.max_position_embeddings)
        sampler = TinkerSampler(server, policy.tokens.end_of_turn_id, rows, room)
        limits = rollout_settings(environment.limits, settings.max_turn_tokens, settings.temperature)
        self._worker = RolloutWorker(sampler, policy.tokens, limits)
        self._generator = torch.Generator().manual_seed(config.seed)
        self._samples = RolloutSamples(folder / "samples")
        reads = [ReadFile(folder / "read.jsonl", self._batches)] if self._batches else []
        self.trainer_state, self._control = TrainerState(max_steps=settings.steps), TrainerControl()
        self._arguments: Any = SimpleNamespace(output_dir=str(self._scratch))
        self._callbacks: list[Any] = [*watchers, self._samples, *reads]
        self._path, self._is_playing = "", False

    def phase(self) -> str:
        """What the step is at, for a person; may be asked from another thread."""
        return self._worker.phase() if self._is_playing else "learning on the server"

    @property
    def _is_online(self) -> bool:
        return self._sdpo.source == "rollouts"

    def train(self) -> None:
        settings = self._config.training
        self._tell("on_train_begin")
        while self.trainer_state.global_step < settings.steps and not self._control.should_training_stop:
            entry = self._step()
            self.trainer_state.global_step += 1
            self._tell("on_step_end")
            self.trainer_state.log_history.append({**entry, "step": self.trainer_state.global_step})
            every = settings.checkpoint_every
            self._control.should_save = bool(every) and self.trainer_state.global_step % every == 0
            self._tell("on_log", logs=dict(entry))
            if self._control.should_save:
                with held_back():
                    self._save()
                self._tell("on_save")

    def go_on_from(self, checkpoint: Path) -> None:
        checkpoints.load(checkpoint, self._parts, 0, frozenset())
        self._server.resume(self._path)

    # One step

    def _step(self) -> dict[str, float]:
        step, settings = self.trainer_state.global_step, self._config.training
        self._balance.at(step, settings.steps)
        rolled, entry = self._play(step)
        rewards = entry.pop("rewards")
        groups = [rewards[first : first + settings.group_size] for first in range(0, len(rewards), settings.group_size)]
        advantages = [group_advantage(reward, group) for group in groups for reward in group]
        rows = policy_rows(rolled, advantages, self._balance.weight(POLICY))
        found = self._composed(rows, rolled, rewards, step)
        self._server.send(found.rows or [idle(rows[0].ids)])
        rising = settings.rate_warmup_steps
        rate = settings.learning_rate * (step / rising if step < rising else 1.0)
        told = self._server.step(Adam(rate))
        policy_loss = -sum(sum(row.pulls) for row in policy_rows(rolled, advantages, 1.0))
        loss = sum(self._balance.weight(name) * found.metrics.get(f"channel/{name}", 0.0) for name in (SDPO, REPLAY))
        return {
            **entry,
            **found.metrics,
            "loss": self._balance.weight(POLICY) * policy_loss + loss,
            "channel/policy": policy_loss,
            # 0 where a server does not tell it.
            "grad_norm": next((value for name, value in told.items() if name.endswith("grad_norm")), 0.0),
            "learning_rate": rate,
            "reward": sum(rewards) / len(rewards),
            "frac_reward_zero_std": sum(len(set(group)) == 1 for group in groups) / len(groups),
            "completions/mean_length": sum(sum(one.sampled_mask) for one in rolled) / len(rolled),
            "sampler_gap": _gap(rows, rolled),
        }

    def _play(self, step: int) -> tuple[list[Rolled], dict[str, Any]]:
        settings = self._config.training
        first = step * settings.prompts_per_step
        tasks = [
            task for task in self._tasks[first : first + settings.prompts_per_step] for _ in range(settings.group_size)
        ]
        self._is_playing = True
        self._worker.sampler.refresh(None)
        episodes = started(self._environment, tasks)
        try:
            rollouts = self._worker.run(episodes, self._generator)
            traces = [one.row_trace(self._policy.name, row) for row, one in enumerate(rollouts)]
            observed = self._environment.observe(episodes, traces)
        finally:
            closed(self._environment, episodes)
        self._is_playing = False
        rolled = [one.rolled(trace) for trace, one in zip(traces, rollouts, strict=True)]
        charges = observed.charges if observed else [0.0] * len(rollouts)
        penalty = settings.error_turn_penalty
        rewards = [
            one.reward + charge - penalty * sum(turn.failed for turn in one.turns)
            for one, charge in zip(rollouts, charges, strict=True)
        ]
        end_ids = [self._policy.tokens.end_of_turn_id]
        entry = {
            "rewards": rewards,
            **rollout_metrics(count_rollouts(rolled, end_ids)),
            "rollout/seconds": self._worker.total_s,
            "rollout/environment_share": self._worker.environment_share,
            **(observed.metrics if observed else {}),
        }
        return rolled, entry

    def _composed(
        self, rows: list[PulledRow], rolled: Sequence[Rolled], rewards: Sequence[float], step: int
    ) -> SampledStep:
        drawn = self._batches.draw() if self._batches else []
        distilling = Distilling(self._sdpo, self._balance.weight(SDPO), self._teach)
        metrics: dict[str, float] = {}
        sites: list[Any] = [[] for _ in rolled]
        if self._sdpo.weight and self._is_online:
            limit = self._config.training.max_tokens
            sites, dropped = find_online_sites(
                rolled, self._hinter, self._policy.tokens, self._sdpo, max_teacher_tokens=limit
            )
            metrics |= site_metrics([found_sites(sites, dropped)])
        taught = online_turns(rows, rolled, sites)
        if self._sdpo.weight and not self._is_online:
            taught = stored_turns(drawn)
        pairs = [pair for example in drawn for pair in example.pairs] if self._trdpo.weight else []
        preferring = Preferring(self._trdpo, self._balance.weight(REPLAY), pairs) if pairs else None
        self._samples.keep(step + 1, rolled, rewards, [{site.turn: site.hint for site in found} for found in sites])
        found = sampled_step(self._server.read, rows, taught, distilling, preferring)
        return found._replace(metrics={**metrics, **found.metrics})

    # Callbacks and checkpoints

    def _tell(self, event: str, **named: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, event)(self._arguments, self.trainer_state, self._control, **named)

    @property
    def _parts(self) -> dict[str, checkpoints.Stateful]:
        return {"run": self, **({"batches": self._batches} if self._batches else {})}

    def state(self) -> dict[str, Any]:
        return {
            "path": self._path,
            "step": self.trainer_state.global_step,
            "log_history": self.trainer_state.log_history,
            "generator": self._generator.get_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._path = state["path"]
        self.trainer_state.global_step, self.trainer_state.log_history = state["step"], state["log_history"]
        self._generator.set_state(state["generator"])

    def _save(self) -> None:
        """The server's state first: a folder here names only what is there."""
        step = self.trainer_state.global_step
        self._path = self._server.save(f"step-{step}")
        before = checkpoints.latest(self._scratch)
        folder = self._scratch / f"{PREFIX_CHECKPOINT_DIR}-{step}"
        # One whose save was cut off may be there; it counts once its last file does.
        folder.mkdir(parents=True, exist_ok=True)
        checkpoints.save(folder, self._parts, 0, frozenset())
        if before:
            shutil.rmtree(before)


def adopt_adapters(server: TinkerServer, policy: Policy, config: Config, folder: Path, known: list[int]) -> None:
    """What the server trained, in `adapters` and merged into the policy; that it is the same model is measured."""
    from peft import get_peft_model, set_peft_model_state_dict  # pyright: ignore[reportMissingImports]

    tensors, lora = server.adapters("trained"), config.hardware.lora_config()
    assert lora is not None
    adapted = get_peft_model(policy.model, lora)
    left_over = set_peft_model_state_dict(adapted, tensors).unexpected_keys
    save_adapters(adapted, config.model.name, folder / "adapters")
    policy.model = adapted.merge_and_unload().eval()
    apart = nats_apart(server, policy.model, known)
    if left_over or apart > SAME_NATS:
        told = f"{left_over[0]} has no place in it" if left_over else f"{apart:.2g} nats per token apart"
        raise RecomposeError(
            f"the adapters of {server.url} do not give the model that it trained: {told}",
            "they lie in RUN/training/adapters; train with --backend trl",
        )


def nats_apart(server: TinkerServer, model: Any, ids: list[int]) -> float:
    """On average over the tokens of a text, between the server's model and this one."""
    (theirs,) = server.read([ids])
    with torch.no_grad():
        logits_TV = model(torch.tensor([ids], device=model.device)).logits[0, :-1].float()
    ours = logits_TV.log_softmax(-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].tolist()
    return sum(abs(one - other) for one, other in zip(ours, theirs, strict=True)) / len(theirs)


def known_text(policy: Policy, environment: Environment) -> list[int]:
    """The beginning of a prompt."""
    (task,) = islice(environment.tasks(TRAIN, "training"), 1)
    return policy.tokens.prompt(task.messages)[:KNOWN_TOKENS]


def _gap(rows: Sequence[PulledRow], rolled: Sequence[Rolled]) -> float:
    """Mean distance between what the sampler and what the trainer say of a sampled token, in nats."""
    gaps = [
        abs(told - found)
        for row, one in zip(rows, rolled, strict=True)
        for told, found, own in zip(one.logprobs, row.logprobs[len(one.prompt_ids) :], one.sampled_mask, strict=False)
        if own
    ]
    return sum(gaps) / len(gaps) if gaps else 0.0
