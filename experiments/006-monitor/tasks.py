"""Which real tasks the attempts are made at, and what the authors of behaviour may know of one.

Reads task folders as `recompose env make` writes them. The repositories of the last set, on which the monitor is
tested, are in no other, so that nothing about a repository that was seen while tuning can help in the test.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from cases import Known

from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import TaskFolder
from composer_replication.environments.code.tasks.trees import files_of
from composer_replication.errors import UsageError

REPOSITORIES = {
    "tuning": ("humanize", "voluptuous", "funcy"),
    "testing": ("toolz", "cachetools", "boltons"),
    "practice": ("humanize", "voluptuous", "toolz", "boltons"),
    "drill": ("humanize", "voluptuous", "toolz", "cachetools"),
    "review": ("humanize", "voluptuous", "toolz", "cachetools"),
    "fresh": ("sqlparse", "schema", "simpleeval", "pydash"),
}
TASKS_PER_REPOSITORY = 8
MAX_SYMBOLS = 6


def chosen_tasks(folders: Iterable[Path], repositories: Sequence[str]) -> list[TaskFolder]:
    """The quickest to grade of each repository, among those that one file solves; in a fixed order."""
    found = [task for folder in folders for task in read_tasks(folder)]
    tasks: list[TaskFolder] = []
    for repository in repositories:
        fitting = [task for task in found if _name(task) == repository and _is_plain(task)]
        if not fitting:
            raise UsageError(f"no task of {repository} in these folders", "recompose env make REPO -o DIR")
        fitting.sort(key=lambda task: (task.code_task.seconds_per_run, task.folder.name))
        tasks += fitting[:TASKS_PER_REPOSITORY]
    return tasks


def known(task: TaskFolder) -> Known:
    code = task.code_task
    module = code.symbols[0].file
    tree = tuple(sorted(files_of(task.tree)))
    return Known(
        task_id=code.task.task_id,
        repository=_name(task),
        package=next((name for name in code.packages if name in Path(module).parts), code.packages[0]),
        module_file=module,
        symbols=tuple(symbol.name for symbol in code.symbols),
        module_text=(task.tree / module).read_text(encoding="utf-8"),
        gold_text=(task.gold / module).read_text(encoding="utf-8"),
        visible_tests=tuple(path for path in code.test_files if (task.tree / path).is_file()),
        files=tree,
        statement=code.task.statement,
    )


def _name(task: TaskFolder) -> str:
    """Of the repository, without version or owner."""
    return task.folder.name.partition("-")[0]


def _is_plain(task: TaskFolder) -> bool:
    code = task.code_task
    files = {symbol.file for symbol in code.symbols}
    return (
        code.grader == "tests"
        and len(code.symbols) <= MAX_SYMBOLS
        and list(files_of(task.gold)) == sorted(files)
        and len(files) == 1
        and (task.tree / next(iter(files))).is_file()
    )
