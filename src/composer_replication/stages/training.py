"""`RUN/training`: the channels of the config added up, from the starting policy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from composer_replication.config import Config
from composer_replication.environments.opening import ToldTasks, open_environment, tell_tasks
from composer_replication.errors import UsageError, quoted
from composer_replication.objective import GrpoSettings, OwnSettings
from composer_replication.progress import Progress
from composer_replication.runs import STORED, Run, StageFolder, needed, write_atomically
from composer_replication.training.planning.missing import refuse_missing

from .degenerate import degenerate, refuse_degenerate
from .ingestion import rollout_tokens
from .policy import load_own
from .taught import make_examples

if TYPE_CHECKING:
    from composer_replication.training.planning.plan import TrainingPlan

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def train(
    run: Run,
    progress: Progress,
    backend: str = "trl",
    diloco: bool = False,
    anyway: bool = False,
    checkpoint: Path | None = None,
    **options: Any,
) -> None:
    """`diloco`: as one of several replicas. `anyway`: also on degenerate data. `checkpoint`: end there, without a step.
    `options`: what the backend alone takes, such as a server's address."""
    from composer_replication.training.libraries import load_libraries
    from composer_replication.training.processes import all_or_none, is_main

    started, folder, inputs = time.monotonic(), run.path / "training", trained_on(run)
    load_libraries("composer_replication.training.train")
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.training.backends import open_backend
    from composer_replication.training.machine import describe_machine
    from composer_replication.training.metrics import StepLines
    from composer_replication.training.models.whole import whole_weights
    from composer_replication.training.stored.examples import summarise_cuts, window_lines
    from composer_replication.training.stored.records import steps_without_advantage, told_without_advantage
    from composer_replication.training.train import end_at

    train_policy, config = open_backend(backend), run.config
    if diloco:
        from composer_replication.training.diloco.train import of_this_replica
        from composer_replication.training.diloco.train import train as train_policy

        config = of_this_replica(run.config)
    with all_or_none():
        policy = load_own(run)
        room = min(run.config.training.max_tokens, policy.model.config.max_position_embeddings)
        progress.stage("training", "read stored traces")
        examples, sessions, skipped, held_out, sources = make_examples(run, policy, room, folder, progress)
        if useless := nothing_to_learn(run, len(examples), skipped):
            raise useless
        progress.stage("training", "take steps")
        if is_main():
            sessions.save()
            write_atomically(folder / "windows.jsonl", window_lines(examples))
    with open_environment(config) as environment:
        if told := tell_tasks(environment, config):
            progress.note(f"tasks: {told}")
        if checkpoint:
            steps = end_at(checkpoint, policy, folder)
        else:
            steps = train_policy(policy, config, environment, examples, folder, progress, **options)
    weights = whole_weights(policy.model)
    counts: dict[str, Any] = {
        "backend": backend,
        "environment": environment.name if run.config.training.rollouts else None,
        "steps": len(steps),
        "stored_traces": sources.total(),
        "sources": dict(sources),
        "held_out_sessions": len(held_out),
        "hinted_sites": sum(len(example.sites) for example in examples),
        "rollout_sites": round(sum(line.get("sdpo/sites", 0) for line in StepLines(folder / "metrics.jsonl").read())),
        "pairs": sum(len(example.pairs) for example in examples),
        "skipped": dict(skipped),
        "windowed": summarise_cuts(examples),
        "rendered_alone": len(sessions.alone),
        "machine": describe_machine(),
    }
    grpo = run.config.channel(GrpoSettings)
    if told := told_without_advantage(steps, grpo):
        progress.note(told)
        counts["untaught"] = {"steps without an advantage": steps_without_advantage(steps, grpo)}
    if anyway and (ignored := degenerate(run)):
        counts["degenerate"] = [one.model_dump() for one in ignored]
    if checkpoint:
        counts["checkpoint_of_steps"] = run.config.training.steps
    if diloco:
        from composer_replication.training.diloco.train import summary

        counts["diloco"] = summary(folder)
    with all_or_none():
        if is_main():
            policy.save(folder / "model", weights)
            for left_over in ("scratch", "served", "verl"):
                shutil.rmtree(folder / left_over, ignore_errors=True)
            run.stage("training").finish(steps, counts, [run.stage("policy"), *inputs], started)
            write_card(run)


def check(run: Run, anyway: bool = False, **choices: Any) -> None:
    """Told before a model is loaded."""
    trained_on(run)
    if not anyway:
        refuse_degenerate(run)
    look_at_tasks(run.config)


def look_at_tasks(config: Config) -> ToldTasks | None:
    """`tell_tasks` where there are folders of tasks: only then is an environment opened for it."""
    if not config.environment.tasks:
        return None
    with open_environment(config) as environment:
        return tell_tasks(environment, config)


def nothing_to_learn(run: Run, examples: int, skipped: Mapping[str, int]) -> UsageError | None:
    """Of sessions of which nothing can be learnt, most often because nobody chose a model for them."""
    if examples or not needed(run.config) or rollout_tokens(run) or (run.config.training.rollouts and not skipped):
        return None
    why = ", ".join(f"{reason} {number}" for reason, number in skipped.items())
    place = quoted(run.path)
    look = f"recompose show {place}"
    return UsageError(
        f"with {run.config.model.name} none of the sites and pairs of {run.path} can be trained on: "
        f"{why or 'no site has a hint, and there are no pairs'}",
        f"recompose fork {place} NEW --set model.name=MODEL, or {look}" if skipped else look,
    )


def nothing_planned(run: Run, plan: TrainingPlan) -> UsageError | None:
    """The same before training, as far as the run has come; pairs may still be missing.

    Lengths of a plan are counted message by message. Where they leave nothing, all is rendered as training would.
    """
    try:
        for noun in needed(run.config)[:3]:
            run.stage(noun).require()
    except UsageError as early:
        return None if run.config.training.rollouts else early
    if plan.tokens is None or plan.usable():
        return None
    from composer_replication.training.models.loading import Policy

    policy = Policy(run.config.model.name, None, plan.tokens)
    with TemporaryDirectory() as folder:
        examples, _, skipped, *_ = make_examples(run, policy, plan.room, Path(folder))
        return nothing_to_learn(run, len(examples), skipped)


def trained_on(run: Run) -> list[StageFolder]:
    """The stages whose records training reads. Those that an active channel cannot do without must be finished."""
    check_own_channels(run.config)
    refuse_missing(run.config, run.stage("policy").is_done)
    for noun in needed(run.config):
        run.stage(noun).require()
    return [stage for noun in STORED if (stage := run.stage(noun)).is_done]


def check_own_channels(config: Config) -> None:
    """Their classes are found and take their settings; told before anything is made."""
    if any(isinstance(entry, OwnSettings) for entry in config.channels):
        from composer_replication.training.channels import open_channels

        open_channels(config)


def read_done(run: Run, noun: str, record: type[AnyRecord]) -> list[AnyRecord]:
    stage = run.stage(noun)
    return stage.read(record) if stage.is_done else []
