"""Attempts of a local policy at code tasks, kept as they end, with the token ids that were sampled.

Writes what `environments.code.episodes.rollouts` writes, and next to each attempt its ids as `<task>.<sample>.tokens`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from composer_replication.environments.code.episodes.loop import Attempt
from composer_replication.environments.code.episodes.rollouts import Planned, claim, keep, not_made
from composer_replication.environments.code.episodes.text_episode import TextEpisode
from composer_replication.progress import Progress
from composer_replication.records import JsonObject, content_id
from composer_replication.runs import write_atomically

from ..models.loading import Policy
from ..stored.records import TokenizedTrace
from .code import CodeRoller, CodeRolloutSettings
from .worker import Rollout


def play_attempts(
    policy: Policy,
    plan: Sequence[Planned],
    settings: CodeRolloutSettings,
    folder: Path,
    claimed: JsonObject,
    progress: Progress,
    seed: int,
) -> None:
    """Every attempt of the plan that is not in the folder yet, `settings.concurrency` at a time."""
    claim(folder, claimed)
    missing, batch = not_made(plan, folder), settings.concurrency
    roller = CodeRoller(policy, [each.task for each in plan], settings, batch)
    for start in range(0, len(missing), batch):
        chosen = missing[start : start + batch]
        own_seed = int(content_id(seed, chosen[0].file), 16) >> 1
        for each, rollout in zip(chosen, roller.play([each.task for each in chosen], own_seed), strict=True):
            made = _attempt(rollout, policy.name, each.sample)
            row = rollout.stored(made.trace.trace_id, policy.tokenizer_fingerprint)
            write_atomically(_tokens(folder, each), row.model_dump_json() + "\n")
            keep(each, made, folder)
        done = len(plan) - len(missing) + start + len(chosen)
        progress.step(done, len(plan), f"{done} attempts")


def kept_tokens(plan: Sequence[Planned], folder: Path) -> Iterator[TokenizedTrace]:
    for each in plan:
        yield TokenizedTrace.model_validate_json(_tokens(folder, each).read_bytes())


def _attempt(rollout: Rollout[TextEpisode], name: str, sample: int) -> Attempt:
    session = rollout.episode.session
    trace = rollout.trace(name, sample)
    if rollout.failure:
        ended = f"broken: {rollout.failure.message}"
    else:
        ended = "tokens" if rollout.truncated else (session.ended or "") if session else ""
    wall_s = sum(turn.seconds for turn in rollout.turns)
    hits = tuple(session.canary_hits) if session else ()
    evidence = session.evidence if session else None
    return Attempt(trace, rollout.reward, ended, session.steps if session else 0, wall_s, hits, evidence)


def _tokens(folder: Path, each: Planned) -> Path:
    return (folder / each.file).with_suffix(".tokens")
