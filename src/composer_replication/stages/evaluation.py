"""`RUN/evaluation`: held-out success of the policy just before and after training, and the report."""

from __future__ import annotations

import time

from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.progress import Progress
from composer_replication.runs import Run

from .policy import NOUN, load_own


def evaluate(run: Run, progress: Progress) -> None:
    from composer_replication.evaluation.compare import PHASES, TaskOutcome, evaluate_policy
    from composer_replication.evaluation.model_card import write_card
    from composer_replication.evaluation.summary import write_report

    started = time.monotonic()
    run.stage("training").require()
    outcomes: list[TaskOutcome] = []
    done = 0
    with open_environment(run.config) as environment:
        splits = held_out(environment, run.config.evaluation.splits)
        noun_of = {"before": NOUN, "after": "training"}
        for phase in PHASES:
            # One after the other: two models need not fit at once.
            policy = load_own(run, noun_of[phase])
            for split in splits:
                outcomes += evaluate_policy(policy, run.config, environment, phase, split, progress)
                done += 1
                progress.step(done, len(PHASES) * len(splits), f"{split}, {phase}")
            del policy
        counts = {
            "episodes": len(outcomes),
            "environment": environment.name,
            "labels": {split: environment.heldout[split] for split in splits},
        }
    run.stage("evaluation").finish(outcomes, counts, [run.stage("training")], started)
    write_report(run)
    write_card(run)


def held_out(environment: Environment, asked: tuple[str, ...]) -> tuple[str, ...]:
    known = tuple(environment.heldout)
    if strangers := [split for split in asked if split not in known]:
        raise UsageError(
            f"evaluation.splits: {environment.name} has no {', '.join(strangers)}", f"choose from {', '.join(known)}"
        )
    return asked or known
