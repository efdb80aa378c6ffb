"""Write a task as a folder, and read it again.

The record is written last, after the hashes of what the agent sees and of what grades it: a folder without `task.json`
is no task. Nothing is overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from composer_replication.errors import UsageError, quoted
from composer_replication.records import Task, content_id
from composer_replication.runs import write_atomically

from .harbor_folder import write_harbor_files, write_verifier
from .task import CodeTask, Submission, TaskFolder
from .trees import files_of, tree_hash, write_files, write_tree

RECORD = "task.json"
CHECKS = "checks.json"


@dataclass(frozen=True)
class TaskFiles:
    """What goes into the folder."""

    source: Path
    """The repository's clean tree."""
    edits: Mapping[str, str | None]
    """From there to the agent's tree."""
    overlay: Mapping[str, bytes]
    """Trusted tests and their helpers, as they were."""
    gold: Mapping[str, bytes]
    mutants: tuple[Mapping[str, str], ...] = ()
    """Of a test-writing task: `path` and `text` of one broken source file each."""
    checks: str | None = None
    """What the trusted side compares the hidden tests' values with; see `grading/recorded.py`."""


def write_task(folder: Path, draft: CodeTask, files: TaskFiles) -> TaskFolder:
    """`draft` has everything but its id and hashes, which come from the files."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", "choose another folder")
    places = TaskFolder(draft, folder)
    write_tree(files.source, places.tree, files.edits)
    write_files(places.overlay, files.overlay)
    write_files(places.gold, files.gold)
    if files.mutants:
        encoded = [json.dumps(dict(mutant)).encode() for mutant in files.mutants]
        write_files(folder / "tests" / "mutants", {f"{index:03}.json": text for index, text in enumerate(encoded)})
    if files.checks is not None:
        write_files(folder / "tests", {CHECKS: files.checks.encode()})
    write_verifier(folder, draft)
    visible, hidden = tree_hash(places.tree), tree_hash(folder / "tests")
    task_id = content_id(draft.task.kind, draft.repository, visible, hidden, draft.task.statement)
    task = Task.model_validate(
        {**draft.task.model_dump(), "task_id": task_id, "visible_hash": visible, "hidden_hash": hidden}
    )
    code_task = draft.model_copy(update={"task": task})
    write_harbor_files(folder, code_task)
    return write_record(TaskFolder(code_task, folder))


def write_record(task: TaskFolder) -> TaskFolder:
    write_atomically(task.folder / RECORD, task.code_task.model_dump_json(indent=1) + "\n")
    return task


def read_task(folder: Path) -> TaskFolder:
    try:
        text = (folder / RECORD).read_text(encoding="utf-8")
        return TaskFolder(CodeTask.model_validate_json(text), folder)
    except FileNotFoundError as error:
        raise UsageError(f"{folder} is not a task", "recompose env make REPO -o DIR") from error
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{folder / RECORD} is damaged ({reason})", "make the task again") from error


def read_tasks(folder: Path) -> list[TaskFolder]:
    """Every task of a folder that `env make` wrote, or of any folder of task folders, or the one task itself."""
    if (folder / RECORD).is_file():
        return [read_task(folder)]
    inside = folder / "tasks" if (folder / "tasks").is_dir() else folder
    found = [path.parent for path in sorted(inside.glob(f"[!.]*/{RECORD}"))] if inside.is_dir() else []
    if not found:
        raise UsageError(f"{folder} holds no tasks", f"recompose env make REPO -o {quoted(folder)}")
    return [read_task(path) for path in found]


def gold_submission(task: TaskFolder) -> Submission:
    """The files that solve the task."""
    return Submission(written={path: (task.gold / path).read_bytes() for path in files_of(task.gold)})


def unchanged(task: TaskFolder) -> bool:
    """Whether the folder still holds what its record says."""
    record = task.code_task.task
    return (
        tree_hash(task.tree) == record.visible_hash
        and tree_hash(task.folder / "tests") == record.hidden_hash
        and (task.folder / "instruction.md").read_text(encoding="utf-8").rstrip() == record.statement.rstrip()
    )
