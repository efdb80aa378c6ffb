"""`recompose train RUN [--dry-run | --selfcheck]`"""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.errors import UsageError
from composer_replication.pipeline import load_model, policy_weights, rollout_tokens
from composer_replication.runs import Run

from .common import Json, quiet_libraries, run_one_stage, working_on

DryRun = Annotated[
    bool, Parameter(negative="", help="Only tell settings, memory, and what can be trained on at which context length.")
]
SelfCheck = Annotated[
    bool, Parameter(negative="", help="Train ten steps aside and tell memory, time, gap and exactness on this machine.")
]


def train(
    run: Path,
    /,
    *,
    backend: Annotated[Literal["trl"], Parameter(help="Who runs the steps.")] = "trl",
    dry_run: DryRun = False,
    selfcheck: SelfCheck = False,
    processes: Annotated[int | None, Parameter(help="With --dry-run: training processes to plan for.")] = None,
    fsdp: Annotated[bool, Parameter(negative="", help="With --dry-run: the processes share the weights.")] = False,
    json: Json = False,
) -> None:
    """Train the policy of RUN with three channels; the model goes to RUN/training/model."""
    if dry_run and selfcheck:
        raise UsageError("--dry-run does nothing and --selfcheck trains", "give one of them")
    if (processes or fsdp) and not dry_run:
        raise UsageError(
            "--processes and --fsdp plan a machine", f"recompose train {run} --dry-run, or accelerate launch"
        )
    if dry_run:
        _plan(Run.open(run), processes or int(os.environ.get("WORLD_SIZE", "1")), fsdp, json)
    elif selfcheck:
        _check(Run.open(run), json)
    else:
        run_one_stage(run, "training", json)


def _plan(run: Run, processes: int, is_sharded: bool, as_json: bool) -> None:
    from composer_replication.training.plan import plan_training

    from .train_report import show_plan

    quiet_libraries()
    plan = plan_training(run, rollout_tokens(run), processes, is_sharded)
    if as_json:
        print(json_module.dumps(plan))
    else:
        show_plan(plan)


def _check(run: Run, as_json: bool) -> None:
    from composer_replication.training.selfcheck import check_machine

    with working_on(run) as progress:
        folder, _ = policy_weights(run, progress, "policy")
        card = check_machine(run, load_model(run, folder), progress)
    print(json_module.dumps(card.as_json()) if as_json else card.as_markdown())
