"""An environment's rollouts for TRL: what `GRPOTrainer(rollout_func=…)` calls, its dataset and reward functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from composer_replication.config import TrainingConfig
from composer_replication.environments.protocol import Environment, EnvironmentTask, Episode
from composer_replication.errors import UsageError
from composer_replication.records import Trace

from ...lessons.online_sites import HintedTurn, OnlineSite, Rolled
from ...models.loading import Policy, device_type
from ...models.states import evaluating
from ...models.tiny import warn_of_unknown_words
from ...planning.refusals import refuse_long_episodes
from ...rollouts.curriculum import Curriculum
from ...rollouts.playing import closed, rollout_settings, started
from ...rollouts.sampling import FreeSampler, TurnSampler, sample_turns
from ...rollouts.static_sampling import turn_sampler
from ...rollouts.worker import Rollout, RolloutWorker

Watcher = Callable[[Sequence[Rollout[Episode]], Sequence[Trace], int], Mapping[str, list[Any]]]
"""Rollouts, their traces and the number of the step -> further columns."""
OpenSampler = Callable[[Any, int, int], TurnSampler | FreeSampler]
"""Called with the trainer, how many rollouts it wants at once, and the most tokens of an episode."""
TASK_ID = "task_id"
REWARD_COLUMNS = ("episode_reward", "penalty", "charge")
"""All that add up to a rollout's reward, before a monitor's penalty."""
READ = frozenset({"max_turn_tokens", "temperature", "group_size", "error_turn_penalty"})
"""Of a `TrainingConfig`; those of a whole run have other readers too."""
READ_ELSEWHERE = {
    "steps": "GRPOConfig(max_steps=…)",
    "prompts_per_step": "GRPOConfig(per_device_train_batch_size=…)",
    "learning_rate": "GRPOConfig(learning_rate=…)",
    "rate_warmup_steps": "GRPOConfig(warmup_steps=…)",
    "optimizer": "GRPOConfig(optim=…)",
    "reference_kl": "GRPOConfig(beta=…)",
    "report_to": "GRPOConfig(report_to=…)",
    "checkpoint_every": "GRPOConfig(save_steps=…)",
    "gradient_ratio_cap": "ComposerReplicationTrainer(gradient_ratio_cap=…)",
    "gradient_ratio_target": "ComposerReplicationTrainer(gradient_ratio_target=…)",
    "dynamic_sampling_rounds": "ComposerReplicationTrainer(dynamic_sampling_rounds=…)",
    "token_weights": "ComposerReplicationTrainer(token_weights=…)",
    "max_tokens": "ComposerReplicationTrainer(max_teacher_tokens=…)",
    "traces_per_step": "StoredBatches(size=…)",
}
"""The others, and where a script says them; what is missing here belongs to runs of the command line."""


def prompts_of(tasks: Sequence[EnvironmentTask]) -> Any:
    """TRL's dataset, one row per task. The first message of a prompt carries the id of its task."""
    from datasets import Dataset

    return Dataset.from_list([{"prompt": _marked(task)} for task in tasks])


def _marked(task: EnvironmentTask) -> list[dict[str, Any]]:
    first, *others = (dict(message) for message in task.messages)
    return [first | {TASK_ID: task.task_id}, *others]


class EnvironmentRollouts:
    """TRL's `rollout_func`. Random generators are its own, and their state belongs into checkpoints.

    A reward function gets one value per rollout as `episode_reward`, `trace`, `truncated`, `step_failure` (a kind or
    None), `penalty`, `charge`, `model_versions` and what `watcher` adds, beside TRL's own columns. `penalty` counts
    only where a reward function adds it, as those of `reward_functions` do. `env_mask` is 1 on sampled tokens. There is
    one row per prompt, whatever its environment did.

    Args:
        tasks: Those that the dataset of `prompts_of` was made of.
        settings: Of these it reads `max_turn_tokens`, `temperature`, `group_size` and `error_turn_penalty`; others that
            a script sets are warned of.
        watcher: Sees the rollouts of a step together before their episodes are closed, and may add columns, such as a
            partial credit for a reward function.
        curriculum: Chooses the tasks; the prompts then only say how many groups there are.
        open_sampler: Where turns are sampled; without it from the policy in this process.
    """

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        tasks: Sequence[EnvironmentTask],
        settings: TrainingConfig,
        *,
        seed: int,
        rank: int = 0,
        watcher: Watcher | None = None,
        curriculum: Curriculum | None = None,
        open_sampler: OpenSampler | None = None,
    ) -> None:
        warn_of_unread(settings)
        self._policy, self._environment, self._settings, self._watcher = policy, environment, settings, watcher
        self._tasks, self._curriculum = {task.task_id: task for task in tasks}, curriculum
        # Not the model's: before it is sharded, all processes but one hold it on the CPU.
        device = device_type()
        self._generator = torch.Generator(device=device).manual_seed(seed + 1_000_003 * rank)
        # Of its own, so that asking for acceptance leaves the rollouts as they would be.
        self._trying = torch.Generator(device=device).manual_seed(seed + 1_000_003 * rank + 1)
        self._worker: RolloutWorker | None = None
        self._open_sampler = open_sampler
        self._seen: Mapping[str, float] = {}
        self._has_worked = False
        self._is_playing = False

    def phase(self) -> str:
        """What the step is at, for a person; may be asked from another thread."""
        return self._worker.phase() if self._is_playing and self._worker else "learning"

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play one episode for each prompt, and give the columns that TRL takes."""
        unwrapped = trainer.accelerator.unwrap_model(trainer.model)
        if self._worker is None:
            self._check_temperature(trainer.args.temperature)
            self._worker = self._make_worker(unwrapped, trainer, len(prompts))
        self._is_playing = True
        episodes = started(self._environment, self._tasks_of(prompts))
        try:
            with evaluating(unwrapped) as model:
                self._worker.sampler.refresh(model)
                rollouts = self._worker.run(episodes, self._generator)
            self._stop_if_all_broke(rollouts)
            warn_of_failures(rollouts)
            if trainer.state.global_step == 0:
                where = "messages or answers of the environment"
                warn_of_unknown_words(self._policy.tokens.tokenizer, where, _read_by(rollouts))
            self._tell_curriculum(rollouts)
            return self._columns(rollouts, self._worker, trainer.state.global_step + 1)
        finally:
            closed(self._environment, episodes)
            self._is_playing = False

    @property
    def end_of_turn_id(self) -> int:
        """With which the policy ends a turn."""
        return self._policy.tokens.end_of_turn_id

    def check_dataset(self, dataset: Any) -> None:
        """Refuse `dataset`, the trainer's own, before anything is played if its first row names no task."""
        row = next(iter(dataset), None)
        if row is None or self._curriculum:
            return
        prompt = row.get("prompt")
        if prompt is None:
            told = f"no column prompt, but {', '.join(row)}"
        elif isinstance(prompt, str):
            told = "no messages: the first prompt is str"
        elif not prompt or prompt[0].get(TASK_ID) is None:
            told = f"no {TASK_ID} in the first message of its first prompt"
        else:
            return
        raise UsageError(f"the dataset has {told}", "train_dataset=prompts_of(tasks), which EnvironmentRollouts reads")

    def accepts(self, candidates: Sequence[tuple[Rolled, HintedTurn, OnlineSite]]) -> list[bool]:
        """For the trainer's `accepts`: whether the environment takes a turn that is sampled behind the hint."""
        return [accepted for _, accepted in self.retried(candidates)]

    def retried(self, candidates: Sequence[tuple[Rolled, HintedTurn, OnlineSite]]) -> list[tuple[list[int], bool]]:
        """The same, with the ids of the sampled turns."""
        if not candidates:
            return []
        tokens, model = self._policy.tokens, self._policy.model
        with evaluating(model):
            turns = sample_turns(
                model,
                [site.teacher_context for _, _, site in candidates],
                end_of_turn_id=tokens.end_of_turn_id,
                pad_id=tokens.tokenizer.pad_token_id,
                max_new_tokens=self._settings.max_turn_tokens,
                temperature=self._settings.temperature,
                generator=self._trying,
            )
        found: list[tuple[list[int], bool]] = []
        for (rolled, hinted, site), turn in zip(candidates, turns, strict=True):
            said = tokens.said(site.teacher_context, turn.ids, rolled.trace.tools)
            found.append((turn.ids, self._is_accepted(rolled, hinted, said)))
        return found

    # Reward functions. The unpenalised reward is always the first, and logged by its own name.

    def reward_functions(self) -> list[Any]:
        """For TRL's `reward_funcs`, where the reward is the environment's own."""
        penalties = [self.error_penalty] if self._settings.error_turn_penalty else []
        return [self.episode_reward, *penalties, self.environment_charge]

    def episode_reward(self, episode_reward: list[float], **columns: Any) -> list[float]:
        """The environment's reward as it is."""
        return episode_reward

    def error_penalty(self, penalty: list[float], **columns: Any) -> list[float]:
        """The column `penalty`: what `error_turn_penalty` takes for the failed turns of each rollout."""
        return penalty

    def environment_charge(
        self, charge: list[float], log_metric: Callable[[str, float], None], **columns: Any
    ) -> list[float]:
        """What the environment itself takes from each reward. Logs what it saw, and how long the step waited for it."""
        for name, value in self._seen.items():
            log_metric(name, value)
        return charge

    def state(self) -> dict[str, Any]:
        """For a checkpoint; `load` goes on from there."""
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def load(self, state: dict[str, Any]) -> None:
        for name, generator in self._generators.items():
            generator.set_state(state[name])

    @property
    def _generators(self) -> dict[str, torch.Generator]:
        return {"rollouts": self._generator, "trying": self._trying}

    def _check_temperature(self, of_the_loss: float) -> None:
        if of_the_loss != self._settings.temperature:
            raise UsageError(
                f"rollouts are sampled at temperature {self._settings.temperature} and the loss is at {of_the_loss}",
                "give GRPOConfig and TrainingConfig the same temperature",
            )

    def _tasks_of(self, prompts: list[Any]) -> list[EnvironmentTask]:
        if self._curriculum is None:
            asked = [prompt[0][TASK_ID] for prompt in prompts]
            if unknown := set(asked) - self._tasks.keys():
                raise UsageError(
                    f"the dataset asks for {len(unknown)} tasks that the rollouts were not given, as {min(unknown)}",
                    "make both of the same tasks: train_dataset=prompts_of(tasks) and EnvironmentRollouts(…, tasks, …)",
                )
            return [self._tasks[task_id] for task_id in asked]
        size = self._settings.group_size
        chosen = self._curriculum.sample(len(prompts) // size)
        return [self._tasks[task_id] for task_id in chosen for _ in range(size)]

    def _stop_if_all_broke(self, rollouts: Sequence[Rollout[Episode]]) -> None:
        """Once it has worked, one broken task is no reason to stop, even where all rollouts of a step are of it."""
        tasks = {rollout.episode.task.task_id for rollout in rollouts}
        first = rollouts[0].failure
        if first and all(rollout.broken for rollout in rollouts) and (len(tasks) > 1 or not self._has_worked):
            raise UsageError(
                f"the environment broke in all {len(rollouts)} rollouts of a step; the first: {first.message}",
                f"mend {self._environment.name}, and try it with roll_out(…)",
            )
        self._has_worked = True

    def _tell_curriculum(self, rollouts: Sequence[Rollout[Episode]]) -> None:
        if self._curriculum is None:
            return
        size = self._settings.group_size
        for group in (rollouts[first : first + size] for first in range(0, len(rollouts), size)):
            solved = sum(rollout.reward >= 1 for rollout in group)
            self._curriculum.record(group[0].episode.task.task_id, solved, len(group))

    def _make_worker(self, model: Any, trainer: Any, rows: int) -> RolloutWorker:
        tokens, limits, settings = self._policy.tokens, self._environment.limits, self._settings
        longest = max(len(tokens.prompt(task.messages)) for task in self._tasks.values())
        room = longest + limits.room(settings.max_turn_tokens)
        most: int = model.config.max_position_embeddings
        refuse_long_episodes(limits, settings.max_turn_tokens, longest, most, self._policy.name)
        opened = self._open_sampler and self._open_sampler(trainer, rows, room)
        sampler = opened or turn_sampler(model, tokens, rows, room)
        return RolloutWorker(sampler, tokens, rollout_settings(limits, settings.max_turn_tokens, settings.temperature))

    def _columns(self, rollouts: Sequence[Rollout[Episode]], worker: RolloutWorker, step: int) -> dict[str, list[Any]]:
        made = rollout_columns(rollouts, self._policy.name)
        penalty, traces = self._settings.error_turn_penalty, made["trace"]
        made["penalty"] = [-penalty * sum(turn.failed for turn in rollout.turns) for rollout in rollouts]
        observed = self._environment.observe([rollout.episode for rollout in rollouts], traces)
        made["charge"] = list(observed.charges) if observed else [0.0] * len(rollouts)
        self._seen = {"rollout/seconds": worker.total_s, "rollout/environment_share": worker.environment_share}
        self._seen |= observed.metrics if observed else {}
        return (
            made if self._watcher is None else {**made, **_added(self._watcher(rollouts, traces, step), len(rollouts))}
        )

    def _is_accepted(self, rolled: Rolled, hinted: HintedTurn, text: str) -> bool:
        trace = rolled.trace
        assert trace.task_id is not None
        episode = self._environment.resume(trace.task_id, trace.messages[: trace.turns[hinted.turn].start])
        if episode is None:
            raise UsageError(
                f"{self._environment.name} cannot go back to a turn", "take out require_acceptance of the sdpo channel"
            )
        try:
            answer: Any = episode.step(text)
            return not answer.failed
        finally:
            episode.close()


def _added(columns: Any, rows: int) -> Mapping[str, list[Any]]:
    """What a watcher returned; else TRL would miss a column, and not say whose."""
    wanted = f"return a dict of lists of {rows} values, {{}} where it adds nothing"
    if not isinstance(columns, Mapping):
        raise UsageError(f"watcher returned {type(columns).__name__} for {rows} rollouts", wanted)
    for name, column in cast("Mapping[str, Any]", columns).items():
        if not isinstance(column, Sequence) or len(cast("Sequence[Any]", column)) != rows:
            raise UsageError(f"watcher gave column {name} no value for each of {rows} rollouts", wanted)
    return cast("Mapping[str, list[Any]]", columns)


def only_read(settings: TrainingConfig) -> TrainingConfig:
    """For a caller that reads the other settings itself."""
    return TrainingConfig.model_validate(settings.model_dump(include=set(READ)))


def warn_of_unread(settings: TrainingConfig) -> None:
    if unread := sorted(settings.model_fields_set - READ):
        places = [f"{key}: {READ_ELSEWHERE.get(key, 'only the verb train')}" for key in unread]
        warnings.warn(
            f"EnvironmentRollouts does not read {', '.join(unread)} of its TrainingConfig; say it where it is read ("
            f"{', '.join(places)})",
            stacklevel=3,
        )


def _read_by(rollouts: Sequence[Rollout[Any]]) -> Iterator[str]:
    """What the policy got to read; nobody reads the last answer."""
    for rollout in rollouts:
        yield from (message["content"] for message in rollout.episode.messages)
        yield from (turn.observation or "" for turn in rollout.turns[:-1])


def warn_of_failures(rollouts: Sequence[Rollout[Any]]) -> None:
    """An environment that breaks costs a rollout its reward and no run; unseen it would cost the training its sense."""
    if failures := [rollout.failure for rollout in rollouts if rollout.failure]:
        warnings.warn(
            f"the environment broke in {len(failures)} of {len(rollouts)} rollouts, which count with reward 0; the "
            f"first: {failures[0].message}",
            stacklevel=2,
        )


def rollout_columns(rollouts: Sequence[Rollout[Any]], source_model: str) -> dict[str, list[Any]]:
    return {
        "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
        "completion_ids": [rollout.completion_ids for rollout in rollouts],
        "logprobs": [rollout.logprobs for rollout in rollouts],
        "env_mask": [rollout.sampled_mask for rollout in rollouts],
        "episode_reward": [rollout.reward for rollout in rollouts],
        "truncated": [rollout.truncated for rollout in rollouts],
        "step_failure": [rollout.failure.kind if rollout.failure else None for rollout in rollouts],
        "model_versions": [tuple(rollout.versions) for rollout in rollouts],
        "trace": [rollout.row_trace(source_model, row) for row, rollout in enumerate(rollouts)],
    }
