"""`recompose env make|verify|serve|rollout|show|grade|shell`"""

from __future__ import annotations

import json as json_module
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from composer_replication.errors import PartialError, RecomposeError, UsageError, quoted

from .common import Json
from .progress import open_progress

env = App(name="env", help="Make verifiable tasks from a repository, check them, and serve them.")
env.command(
    "composer_replication.cli.env_serve:serve", name="serve", help="Serve tasks to agents over OpenEnv.", sort_key=2
)
env.command(
    "composer_replication.cli.env_rollout:rollout", name="rollout", help="Roll a model through tasks.", sort_key=3
)

for order, (verb, summary) in enumerate(
    {
        "show": "Show one task: statement, files, difficulty, certificates.",
        "grade": "Grade a patch to one task.",
        "shell": "Open a shell in the sandbox of one task.",
    }.items(),
    4,
):
    env.command(f"composer_replication.cli.env_task:{verb}", name=verb, help=summary, sort_key=order)

Names = tuple[str, ...]
Several = partial(Parameter, negative="")
"""An option that may be repeated."""
Backend = Annotated[str, Parameter(help="What isolates the tests: auto, or the name of a backend.")]
Jobs = Annotated[int, Parameter(help="Tasks worked on at once.")]


@env.command(sort_key=0)
def make(
    repository: Annotated[Path, Parameter(help="A folder, a git checkout, or an sdist.")],
    /,
    *,
    into: Annotated[Path, Parameter(name=["--into", "-o"], help="Folder for the tasks: a new one, or one to add to.")],
    generator: Annotated[
        Names, Several(help="feature_deletion, bug_injection, test_writing, commits, or package.module:function.")
    ] = ("feature_deletion",),
    mode: Annotated[Names, Several(help="How a generator changes code; all of its modes by default.")] = (),
    grain: Annotated[Names, Several(help="symbol, cluster, cross-module; all by default.")] = (),
    level: Annotated[str, Parameter(help="How much the statement tells: L0 (most) to L3 (least).")] = "L0",
    limit: Annotated[int, Parameter(help="The most candidates to try, per generator.")] = 100,
    seed: Annotated[int, Parameter(help="Which candidates are drawn, and in which order.")] = 0,
    jobs: Jobs = 2,
    with_: Annotated[Names, Several(name="--with", help="Installed distribution that the tests need.")] = (),
    backend: Backend = "auto",
    json: Json = False,
) -> None:
    """Make certified tasks from REPOSITORY. Its tests run in a sandbox; nothing else of it is run."""
    from composer_replication.environments.code.generators.kinds import check_modes, generator_settings
    from composer_replication.environments.code.making.make import MakeSettings
    from composer_replication.environments.code.making.make import make as make_tasks

    check_modes(generator, mode)
    if limit < 1 or jobs < 1:
        raise UsageError("--limit and --jobs are at least 1", "recompose env make --help")
    settings = MakeSettings(
        generators=generator,
        proposals=generator_settings(seed=seed, limit=limit, level=level, modes=mode, grains=grain),
        distributions=("pytest", *with_),
        backend=backend,
    )
    with closing(open_progress()) as progress:
        result = make_tasks(repository, into, settings, jobs, progress)
    if json:
        print(json_module.dumps({"folder": str(into), **result}))
    else:
        _show_funnel(into, result, limit * len(generator))
    if not (result["valid"] or result["proposed"] or result["decided_now"]):
        # The reasons in the folder, if there are some, are not of what this call asked for.
        earlier = result["tried"] + sum(result["filtered"].values())
        told = f" by these options; earlier calls decided {earlier}, and none is valid" if earlier else ""
        raise RecomposeError(f"there is nothing in {repository} to make a task of{told}", "add another --generator")
    if not result["valid"]:
        raise RecomposeError(f"no task of {repository} is valid", f"read the reasons in {into}/verdicts.jsonl")


@env.command(sort_key=1)
def verify(
    tasks: Annotated[Path, Parameter(help="What `env make` wrote, or one task folder.")],
    /,
    *,
    deep: Annotated[bool, Parameter(help="Doubt the solution of each task fifty times.", negative="")] = False,
    jobs: Jobs = 2,
    backend: Backend = "auto",
    json: Json = False,
) -> None:
    """Check every task again: its files, nothing done = 0, the solution = 1, and the leak certificate."""
    from composer_replication.environments.code.certificates.verify import verify as verify_tasks

    with closing(open_progress()) as progress:
        result = verify_tasks(tasks, backend, jobs, progress, deep)
    if json:
        print(json_module.dumps({"folder": str(tasks), **result}))
    else:
        print(f"{result['passed']} of {result['tasks']} tasks of {tasks} pass")
        for check in ("files", "nop", "gold", "verifiers", "leaks"):
            print(f"  {check:<9} {result[f'{check}_ok']}")
    if result["failed"]:
        name, reasons = next(iter(result["failed"].items()))
        reason = ", ".join(f"{check}: {text}" for check, text in reasons.items())
        raise PartialError(
            f"{len(result['failed'])} of {result['tasks']} tasks fail, first {name} ({reason})",
            f"remove the folder {quoted(name)} or make the tasks again",
        )
    if not json:
        played = f"recompose env rollout {quoted(tasks)} --scripted gold --run RUN"
        print(f"next: {played}, or recompose init FILE --on tasks")


def _show_funnel(into: Path, result: dict[str, Any], most: int) -> None:
    print(f"{result['valid']} tasks of {result['repository']} in {into}/tasks, {result['new']} of them new")
    for reason, count in result["filtered"].items():
        _show_reason(f"filtered, {reason}", count, reason)
    print(f"  {'tried':<24} {result['tried']}")
    for reason, count in sorted(result["rejected"].items(), key=lambda item: -item[1]):
        _show_reason(reason, count, reason)
    if result["proposed"] < most:
        more = "another --generator, --mode, --grain or --level may give more"
        print(f"  {'candidates':<24} {result['proposed']:<4} is all that these options find, of at most {most}; {more}")
    print(f"  {'yield':<24} {result['yield']:.0%}")
    if result["valid"]:
        print(f"  {'across files':<24} {result['across_files']}")
        print(f"  {'CPU-s per valid task':<24} {result['cpu_s_per_valid']}")
        _show_held_out(into)
        print(f"next: recompose env verify {quoted(into)}")


def _show_held_out(into: Path) -> None:
    """With the settings that `init --on tasks` leaves as they are."""
    from composer_replication.config import EnvironmentConfig
    from composer_replication.environments.code.splits import HELDOUT, by_symbol, smallest_share
    from composer_replication.environments.code.tasks.store import read_tasks
    from composer_replication.environments.protocol import FEWEST_TO_TELL

    share = EnvironmentConfig().heldout_share
    tasks = [folder.code_task for folder in read_tasks(into)]
    held_out = sum(by_symbol(task, share) == HELDOUT for task in tasks)
    told = f"with heldout_share = {share}, the default"
    if held_out < FEWEST_TO_TELL:
        enough = smallest_share(tasks, FEWEST_TO_TELL, by_symbol)
        cure = f"set environment.heldout_share = {enough}, or make more tasks" if enough else "make more tasks"
        told += f"; fewer than {FEWEST_TO_TELL} tell nothing: {cure}"
    print(f"  {'held out':<24} {held_out:<4} {told}")


def _show_reason(label: str, count: int, reason: str) -> None:
    """A generator of the user's own may give reasons that have no sentence."""
    from composer_replication.environments.code.tasks.reasons import REASONS

    print(f"  {label:<24} {count:<4} {REASONS.get(reason, '')}".rstrip())
