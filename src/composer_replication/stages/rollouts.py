"""`RUN/ingestion` from attempts at tasks: whoever plays, attempts are kept one by one and then become the stage.

Writes traces, evidence, rewards per task as plain JSON, and for a local policy the token ids that were sampled. Beside
each attempt of a local policy lie its ids as `<task>.<sample>.tokens` until the stage is done.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from composer_replication.environments.attempts import Attempt, Ended
from composer_replication.environments.evidence import EVIDENCE
from composer_replication.environments.protocol import Environment, Episode
from composer_replication.errors import UsageError
from composer_replication.progress import Progress
from composer_replication.records import JsonObject, content_id, digest_of
from composer_replication.runs import Run, StageFolder, write_atomically, write_records

from .attempts import Planned, claim, counts, keep, not_made, rewards_by_task, stored, stored_evidence
from .ingestion import ROLLOUT_TOKENS

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.rollouts.worker import Rollout
    from composer_replication.training.stored.records import TokenizedTrace

ATTEMPTS = "attempts"
SETTINGS = "settings"
REWARDS = "rewards.json"
"""Beside the records: task id -> the reward of each of its attempts and how they ended."""
Player = Callable[[Path, Progress], None]
"""Makes every attempt of the plan that is not in the folder yet."""


def collect(run: Run, plan: Sequence[Planned], settings: JsonObject, play: Player, progress: Progress) -> None:
    """Do the stage, or go on with it. `settings` has the hash of the tasks under `tasks`."""
    started_at, stage, folder = time.monotonic(), run.stage("ingestion"), attempts_folder(run)
    tasks = len({each.task_id for each in plan})
    progress.stage("ingestion", f"{len(plan)} attempts at {tasks} tasks")
    play(folder, progress)
    attempts, evidence = list(stored(plan, folder)), run.path / EVIDENCE
    write_atomically(stage.path / REWARDS, json.dumps(rewards_by_task(attempts), indent=1) + "\n")
    told: JsonObject = {"traces": len(attempts), "rollouts": len(attempts), "tasks": tasks, "quarantined": {}}
    stage.finish(
        (each.trace for each in attempts),
        told | counts(attempts),
        [],
        started_at,
        {"tasks": settings["tasks"], SETTINGS: digest_of(settings)},
        {evidence.name: write_records(evidence, stored_evidence(attempts))},
    )
    shutil.rmtree(folder)


def attempts_folder(run: Run) -> Path:
    return run.stage("ingestion").path / ATTEMPTS


def refuse_others(stage: StageFolder, settings: JsonObject) -> None:
    """A finished stage is the answer to its own settings only. Of one that noted none, nothing can be said."""
    before = stage.require()["inputs"]
    if before.get(SETTINGS, now := digest_of(settings)) != now:
        other = "settings" if before["tasks"] == settings["tasks"] else "tasks"
        raise UsageError(f"{stage.path.parent} holds finished attempts with other {other}", "choose another -o RUN")


def play_locally(
    run: Run,
    policy: Policy,
    environment: Environment,
    plan: Sequence[Planned],
    settings: JsonObject,
    folder: Path,
    progress: Progress,
    sampler: Any = None,
) -> None:
    """In batches, each kept before the next. `settings` has `max_turn_tokens` and `temperature`. Without a `sampler`
    turns are sampled from the policy."""
    import torch

    from composer_replication.training.rollouts.playing import roll_out
    from composer_replication.training.rollouts.static_sampling import turn_sampler

    claim(folder, settings)
    missing, batch = not_made(plan, folder), max(1, environment.limits.concurrency)
    if not sampler:
        room = _room(policy, environment, plan, settings["max_turn_tokens"])
        batch = run.config.hardware.rollouts_at_once or _at_once(policy, room, batch)
        sampler = turn_sampler(policy.model, policy.tokens, batch, room)
    for start in range(0, len(missing), batch):
        chosen = missing[start : start + batch]
        seed = int(content_id(run.config.seed, chosen[0].file), 16) >> 1
        rollouts = roll_out(
            policy.model,
            policy.tokens,
            environment,
            [environment.task(each.task_id) for each in chosen],
            max_turn_tokens=settings["max_turn_tokens"],
            temperature=settings["temperature"],
            generator=torch.Generator(device=policy.model.device).manual_seed(seed),
            batch_size=batch,
            sampler=sampler,
        )
        for each, rollout in zip(chosen, rollouts, strict=True):
            made = _attempt(rollout, policy.name, each.sample)
            rows = rollout.stored(made.trace.trace_id, policy.tokenizer_fingerprint)
            write_atomically(_tokens(folder, each), "".join(row.model_dump_json() + "\n" for row in rows))
            keep(each, made._replace(cut_turns=cut_turns(rows, policy.tokens.end_of_turn_id)), folder)
        done = len(plan) - len(missing) + start + len(chosen)
        progress.step(done, len(plan), f"{done} attempts")
    write_records(run.path / ROLLOUT_TOKENS, _kept_tokens(plan, folder))


def _at_once(policy: Policy, room: int, concurrency: int) -> int:
    """A GPU writes 128 turns in little more time than 15, so there it writes for more than can act at a time."""
    from composer_replication.training.models.loading import device_type
    from composer_replication.training.rollouts.playing import rows_that_fit

    return max(concurrency, rows_that_fit(policy.model, room, 128)) if device_type() == "cuda" else concurrency


def _room(policy: Policy, environment: Environment, plan: Sequence[Planned], max_turn_tokens: int) -> int:
    """Tokens of the longest attempt; a task that does not fit is refused before anything is played."""
    tasks = [environment.task(task_id) for task_id in {each.task_id for each in plan}]
    longest = max(len(policy.tokens.prompt(task.messages)) for task in tasks)
    added, limit = environment.limits.room(max_turn_tokens), policy.model.config.max_position_embeddings
    if longest + added > limit:
        raise UsageError(
            f"a statement of {longest} tokens and {added} more do not fit the {limit} of {policy.name}",
            f"lower the completion to {max(0, limit - longest)} tokens, or choose shorter tasks",
        )
    return longest + added


def _attempt(rollout: Rollout[Episode], name: str, sample: int) -> Attempt:
    episode, trace = rollout.episode, rollout.trace(name, sample)
    ended, steps = (episode.ended, episode.steps) if isinstance(episode, Ended) else (None, len(rollout.turns))
    if rollout.failure:
        ended = f"broken: {rollout.failure.message}"
    elif rollout.truncated:
        ended = "tokens"
    wall_s = sum(turn.seconds for turn in rollout.turns)
    return Attempt(trace, rollout.reward, ended or "finished", steps, wall_s, rollout.episode.evidence)


def cut_turns(rows: Sequence[TokenizedTrace], end_of_turn_id: int) -> int:
    return sum(row.ids[end - 1] != end_of_turn_id for row in rows for _, end in row.turn_spans)


def _kept_tokens(plan: Sequence[Planned], folder: Path) -> Iterator[TokenizedTrace]:
    from composer_replication.training.stored.records import TokenizedTrace

    for each in plan:
        for line in _tokens(folder, each).read_bytes().splitlines():
            yield TokenizedTrace.model_validate_json(line)


def _tokens(folder: Path, each: Planned) -> Path:
    return (folder / each.file).with_suffix(".tokens")
