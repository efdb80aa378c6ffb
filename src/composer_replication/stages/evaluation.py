"""`RUN/evaluation`: held-out success of the policy just before and after training, and the report."""

from __future__ import annotations

import time
from contextlib import ExitStack

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.progress import LongerWork, Progress
from composer_replication.records import content_id
from composer_replication.runs import Run

from .parts import Parts, measured_with
from .policy import NOUN, load_own


def evaluate(run: Run, progress: Progress) -> None:
    from composer_replication.evaluation.compare import PHASES, Phase, TaskOutcome, evaluate_policy, held_out_tasks
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.evaluation.summary import write_report

    started, stage, noun_of = time.monotonic(), run.stage("evaluation"), {"before": NOUN, "after": "training"}
    run.stage("training").require()
    with ExitStack() as stack:
        environment = stack.enter_context(open_environment(run.config))
        splits = held_out(environment, run.config.evaluation.splits)
        tasks = {split: held_out_tasks(environment, run.config, split) for split in splits}
        keys: dict[tuple[Phase, str], str] = {}
        for phase in PHASES:
            made_with = measured_with(run, noun_of[phase])
            for split, own in tasks.items():
                told = [(task.task_id, task.messages, dict(task.labels)) for task in own]
                keys[phase, split] = content_id(made_with, phase, split, told)
        parts = stack.enter_context(Parts(stage, TaskOutcome, keys.values(), "parts", progress))
        total, done = len(PHASES) * sum(map(len, tasks.values())) * run.config.evaluation.samples, 0
        for phase in PHASES:
            # One after the other: two models need not fit at once.
            policy = None
            for split in splits:
                records = parts.take(keys[phase, split])
                if records is None:
                    policy = policy or load_own(run, noun_of[phase])
                    part = LongerWork(progress, done, total, f"episodes, now {split} {phase} training")
                    outcomes = evaluate_policy(policy, run.config, environment, phase, split, part)
                    records = parts.add(keys[phase, split], outcomes)
                done += len(records)
        counts = {
            "episodes": done,
            "environment": environment.name,
            "labels": {split: environment.heldout[split] for split in splits},
        }
    stage.seal(parts.close(), counts, [run.stage("training")], started)
    write_report(run)
    write_card(run)


def held_out(environment: Environment, asked: tuple[str, ...]) -> tuple[str, ...]:
    known = tuple(environment.heldout)
    if strangers := [split for split in asked if split not in known]:
        raise UsageError(
            f"evaluation.splits: {environment.name} has no {', '.join(strangers)}", f"choose from {', '.join(known)}"
        )
    return asked or known
