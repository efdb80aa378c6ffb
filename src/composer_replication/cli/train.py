"""`recompose train RUN [--dry-run | --selfcheck]`"""

from __future__ import annotations

import json as json_module
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from composer_replication.environments.opening import open_environment, tell_tasks
from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.pipeline import ensure_policy, refuse_stale, run_stage
from composer_replication.progress import Silent
from composer_replication.records import ErrorSite, Hint, PreferencePair
from composer_replication.runs import Run, write_atomically
from composer_replication.settings import load_settings
from composer_replication.stages.degenerate import degenerate
from composer_replication.stages.held_out import held_out_of
from composer_replication.stages.ingestion import rollout_tokens
from composer_replication.stages.policy import load_own
from composer_replication.stages.session_turns import time_foreseen
from composer_replication.stages.training import check, nothing_planned
from composer_replication.training import processes as launched
from composer_replication.training.backends import BACKENDS, refuse_unknown_backend
from composer_replication.training.planning.refusals import refuse_for_diloco

from .common import (
    Json,
    RunFolder,
    Set,
    begun,
    quiet_libraries,
    refuse_missing_run,
    run_one_stage,
    say_at_once,
    tell,
    working_on,
)
from .progress import open_progress

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.stored.examples import TraceExample

DryRun = Annotated[
    bool, Parameter(negative="", help="Only tell settings, memory, and what can be trained on at which context length.")
]
SelfCheck = Annotated[
    bool, Parameter(negative="", help="Train ten steps aside and tell memory, time, gap and exactness on this machine.")
]


def train(
    run: RunFolder,
    /,
    *,
    config: Annotated[
        Path | None, Parameter(help="TOML file that begins RUN: for training on an environment alone.")
    ] = None,
    changes: Set = (),
    backend: Annotated[str, Parameter(help=f"Who runs the steps: {', '.join(BACKENDS)}.")] = "trl",
    url: Annotated[str | None, Parameter(help="With --backend tinker: address of the server.")] = None,
    ray_address: Annotated[str | None, Parameter(help="With --backend verl: a Ray cluster that runs.")] = None,
    override: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="With --backend verl: KEY=VALUE of its config; can be given again."),
    ] = (),
    diloco: Annotated[
        bool, Parameter(negative="", help="As the replica REPLICA_GROUP_ID of several that average now and then.")
    ] = False,
    lighthouse: Annotated[
        bool, Parameter(negative="", help="Train nothing: be where the replicas of --diloco meet, until interrupted.")
    ] = False,
    anyway: Annotated[
        bool, Parameter(negative="", help="Also on degenerate data, such as pairs with one chosen action.")
    ] = False,
    dry_run: DryRun = False,
    selfcheck: SelfCheck = False,
    processes: Annotated[int | None, Parameter(help="With --dry-run: training processes to plan for.")] = None,
    fsdp: Annotated[bool, Parameter(negative="", help="With --dry-run: the processes share the weights.")] = False,
    replicas: Annotated[
        int | None, Parameter(help="With --dry-run --fsdp: groups of processes that share the weights.")
    ] = None,
    gpu: Annotated[bool, Parameter(negative="", help="With --dry-run: plan for GPUs where there are none.")] = False,
    json: Json = False,
) -> None:
    """Train the policy of RUN with the channels of its config; the model goes to RUN/training/model.

    Stored traces, hints and pairs are read where a channel needs them; with none that does, rollouts are enough.
    """
    options = {"url": url, "ray_address": ray_address, "override": override}
    refuse_unknown_backend(backend, **options)
    if dry_run and selfcheck:
        raise UsageError("--dry-run does nothing and --selfcheck trains", "give one of them")
    if processes is not None and processes < 1:
        raise UsageError(f"{processes} processes train nothing", "give --processes 1 or more")
    if (processes or fsdp or replicas or gpu) and not dry_run:
        raise UsageError(
            "--processes, --fsdp, --replicas and --gpu plan a machine",
            f"recompose train {quoted(run)} --dry-run, or accelerate launch",
        )
    if diloco and (selfcheck or lighthouse):
        raise UsageError("--diloco trains", "give it without --selfcheck and --lighthouse")
    if changes and not config:
        changed = " ".join(f"--set {quoted(one)}" for one in changes)
        raise UsageError("the settings of a run stay as they are", f"recompose fork {quoted(run)} NEW {changed}")
    if not config:
        refuse_missing_run(run)
    began = begun(run, load_settings(config, changes), dry_run) if config else nullcontext(Run.open(run))
    with began as opened:
        if diloco:
            refuse_for_diloco(opened.config, backend, launched.number())
        if lighthouse:
            from composer_replication.training.diloco.meeting import watch

            watch(opened.config.diloco, str(run))
        elif dry_run:
            is_sharded, copies = fsdp or launched.is_sharded(), replicas or launched.replicas()
            _plan(opened, processes or launched.number(), is_sharded, copies, gpu, json, backend)
        elif selfcheck:
            if launched.number() > 1:
                raise UsageError("the selfcheck is for one process", f"recompose train {quoted(run)} --selfcheck")
            if backend != "trl":
                raise UsageError("the selfcheck is for --backend trl", f"recompose train {quoted(run)} --selfcheck")
            _check(opened, json)
        elif launched.number() > 1:
            _train_together(run, backend, anyway, json)
        else:
            given = {name: value for name, value in options.items() if value}
            run_one_stage(run, "training", json, backend=backend, diloco=diloco, anyway=anyway, **given)


def _train_together(path: Path, backend: str, anyway: bool, as_json: bool) -> None:
    """As one of several processes. The main one holds the lock and speaks for all."""
    quiet_libraries()
    run, is_main = Run.open(path), launched.is_main()
    refuse_stale(run, "training")
    if not run.stage("training").is_done:
        check(run, anyway)
    with ExitStack() as held:
        with launched.all_or_none():
            if is_main:
                held.enter_context(run.lock())
        progress = open_progress() if is_main else Silent()
        held.callback(progress.close)
        run_stage(run, "training", progress, backend=backend, anyway=anyway)
        launched.part()
    if is_main:
        tell("training", run, as_json)


def _plan(run: Run, processes: int, is_sharded: bool, replicas: int, on_gpu: bool, as_json: bool, backend: str) -> None:
    refuse_stale(run, "training")
    say_at_once("counting tokens of every trace …", as_json)
    import torch

    from composer_replication.training.planning.plan import Machine, TrainingPlan, check_episodes
    from composer_replication.training.planning.refusals import (
        refuse_for_backend,
        refuse_uneven_replicas,
        refuse_what_processes_cannot_do,
        refuse_what_would_do_nothing,
    )

    from .train_report import show_plan

    quiet_libraries()
    refuse_what_would_do_nothing(run.config, processes)
    refuse_for_backend(run.config, backend, processes)
    refuse_what_processes_cannot_do(run.config, processes, is_sharded)
    refuse_uneven_replicas(processes, is_sharded, replicas)
    machine = Machine(processes, is_sharded, on_gpu or torch.cuda.is_available(), replicas)
    with open_environment(run.config) as environment:
        tasks = tell_tasks(environment, run.config)
        planned = TrainingPlan(run, environment, rollout_tokens(run), held_out_of(run))
        check_episodes(run.config, environment, planned.tokens, planned.shape)
        plan = {**planned.on(machine), "sessions_time": time_foreseen(run, environment, machine.on_gpu)}
    habits, useless = degenerate(run), nothing_planned(run, planned)
    if as_json:
        print(
            json_module.dumps(
                {**plan, "tasks": tasks and str(tasks), "degenerate": [habit.model_dump() for habit in habits]}
            )
        )
    else:
        if tasks:
            print(f"Tasks: {tasks}")
        if useless:
            print(f"Nothing can be trained on: {useless}")
        show_plan(plan, [habit.sentence for habit in habits])
    if useless:
        raise useless


def _check(run: Run, as_json: bool) -> None:
    import torch

    from composer_replication.training.checking.selfcheck import check_machine
    from composer_replication.training.planning.plan import Machine, plan_training

    with working_on(run) as progress, open_environment(run.config) as environment:
        ensure_policy(run, progress)
        plan = plan_training(
            run, environment, rollout_tokens(run), Machine(on_gpu=torch.cuda.is_available()), held_out_of(run)
        )
        card = check_machine(
            lambda: load_own(run),
            run.config,
            environment,
            _stored_examples(run, load_own(run)),
            run.path / "selfcheck",
            plan["memory"]["peak_mib"] if plan["memory"] else None,
            progress,
        )
    write_atomically(run.path / "selfcheck.json", json_module.dumps(card.as_json(), indent=2) + "\n")
    write_atomically(run.path / "selfcheck.md", card.as_markdown())
    print(json_module.dumps(card.as_json()) if as_json else card.as_markdown(), end="\n" if as_json else "")
    if not card.passed:
        failed = ", ".join(check.name for check in card.checks if not check.passed)
        raise RecomposeError(f"selfcheck failed: {failed}", f"read {run.path / 'selfcheck.md'}")


def _stored_examples(run: Run, policy: Policy) -> list[TraceExample]:
    """What channels on stored traces would read, as far as the run has come."""
    from composer_replication.training.stored.examples import build_examples

    if not all(run.stage(noun).is_done for noun in ("sites", "hints")):
        return []
    pairs = run.stage("pairs").read(PreferencePair) if run.stage("pairs").is_done else []
    sites = {site.site_id: site for site in run.stage("sites").read(ErrorSite)}
    hints, limit = run.stage("hints").read(Hint), run.config.training.max_tokens
    return build_examples(policy.tokens, rollout_tokens(run), sites, hints, pairs, limit)[0]
