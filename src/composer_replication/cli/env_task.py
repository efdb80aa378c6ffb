"""`recompose env show|grade|shell TASK`: one task, looked at, judged and tried by hand"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from composer_replication.errors import quoted

from .common import Json

if TYPE_CHECKING:
    from composer_replication.environments.code.tasks.task import CodeTask, Grade, TaskFolder

TaskPath = Annotated[Path, Parameter(help="Folder of one task.")]
Backend = Annotated[str, Parameter(help="Which sandbox.")]
SHELL_WALL_S = 12 * 3600


def show(
    task: TaskPath,
    /,
    *,
    hidden: Annotated[bool, Parameter(negative="", help="Also the hidden tests and the solution.")] = False,
    json: Json = False,
) -> None:
    """Show the statement of TASK, its files, how it is graded, how hard it is and what was checked."""
    from composer_replication.environments.code.tasks.store import read_task

    found = read_task(task)
    told = _described(found, hidden)
    if json:
        print(json_module.dumps(told))
        return
    statement, secrets = told.pop("statement"), told.pop("hidden", {})
    print(statement.rstrip() + "\n")
    for name, value in {**told, "files": len(told["files"])}.items():
        shown = value if isinstance(value, str | int | float) else json_module.dumps(value)
        print(f"{name:<14} {shown}")
    for path, text in secrets.items():
        print(f"\n--- {path}\n{text.rstrip()}")


def grade(
    task: TaskPath,
    /,
    *,
    patch: Annotated[Path, Parameter(help="What was changed, as `git diff` writes it.")],
    deep: Annotated[bool, Parameter(negative="", help="Doubt it more, as after a sign of a hack.")] = False,
    backend: Backend = "auto",
    json: Json = False,
) -> None:
    """Grade a PATCH to the tree of TASK with its hidden tests. What is shown names them: nothing for an agent."""
    from composer_replication.environments.code.grading import grade as grade_submission
    from composer_replication.environments.code.tasks.patches import read_patch
    from composer_replication.environments.code.tasks.store import read_task

    found = read_task(task)
    told = _graded(found.code_task, grade_submission(found, read_patch(found, patch), backend, deep=deep))
    if json:
        print(json_module.dumps(told))
        return
    passed = sum(outcome == "passed" for outcome in told["hidden"].values())
    print(f"reward {told['reward']:g}: {passed} of {len(told['hidden'])} hidden tests pass, in {told['units']} units")
    for test, outcome in told["hidden"].items():
        print(f"  {outcome:<8} {test}")
    for title in ("guards_broken", "dropped", "notes"):
        for line in told[title]:
            print(f"  {title.replace('_', ' '):<14} {line}")


def shell(
    task: TaskPath,
    /,
    *,
    patch: Annotated[Path | None, Parameter(help="File to write what was changed to, as a patch.")] = None,
    backend: Backend = "auto",
) -> None:
    """Open a shell in the sandbox of TASK as an agent has it. It is gone when the shell ends."""
    from dataclasses import replace

    from composer_replication.environments.code.episodes.session import open_for_agent
    from composer_replication.environments.code.sandbox.interface import Limits
    from composer_replication.environments.code.sandbox.terminal import run_shell
    from composer_replication.environments.code.tasks.patches import as_patch
    from composer_replication.environments.code.tasks.store import read_task
    from composer_replication.environments.code.tasks.task import Submission

    found = read_task(task)
    python, sandbox = open_for_agent(found, backend, replace(Limits(), wall_s=SHELL_WALL_S, cpu_s=SHELL_WALL_S))
    with sandbox:
        start = sandbox.snapshot()
        run_shell(sandbox, python, SHELL_WALL_S)
        changes = sandbox.diff(start)
    if patch:
        patch.write_bytes(as_patch(found, Submission(dict(changes.written), changes.removed)))
        print(f"next: recompose env grade {quoted(task)} --patch {quoted(patch)}")


def _described(task: TaskFolder, with_hidden: bool) -> dict[str, Any]:
    from composer_replication.environments.code.tasks.trees import files_of

    known = task.code_task
    certificate = known.task.certificate
    told: dict[str, Any] = {
        "task": known.task.task_id,
        "statement": known.task.statement,
        "repository": known.repository,
        "made_by": f"{known.generator}, {known.mode}, {known.grain}, {known.level}",
        "symbols": [f"{symbol.file}:{symbol.name}" for symbol in known.symbols],
        "files": [*files_of(task.tree)],
        "editable": list(known.editable),
        "hidden_tests": len(known.hidden_tests),
        "units": len(known.units or known.hidden_tests),
        "guard_tests": len(known.guard_tests),
        "difficulty": known.task.difficulty,
        "gates": certificate.get("gates", {}),
        "leaks": "none found" if certificate.get("leaks", {}).get("passed") else "not certified",
        "tags": list(known.tags),
    }
    if with_hidden:
        places = {"tests": task.overlay, "solution": task.gold}
        told["hidden"] = {
            f"{name}/{path}": (folder / path).read_text(encoding="utf-8", errors="replace")
            for name, folder in places.items()
            for path in files_of(folder)
        }
    return told


def _graded(known: CodeTask, graded: Grade) -> dict[str, Any]:
    outcomes = dict.fromkeys(graded.hidden_passed, "passed") | dict.fromkeys(graded.hidden_failed, "failed")
    return {
        "task": known.task.task_id,
        "reward": graded.reward,
        "hidden": outcomes,
        "units": len(known.units or known.hidden_tests),
        "guards": len(known.guard_tests),
        "guards_broken": list(graded.guards_broken),
        "dropped": list(graded.dropped),
        "notes": list(graded.notes),
        "wall_s": round(graded.wall_s, 2),
    }
