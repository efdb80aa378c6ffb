"""Code tasks for `GRPOTrainer(environment_factory=…)`: the public methods are the tools, `get_reward` grades.

    tasks = "tasks/"
    GRPOTrainer(..., train_dataset=rows(tasks), environment_factory=code_task_environment(tasks))

TRL makes an instance per rollout of a batch, resets it with a row of the dataset and calls its tools one rollout after
the other; a rollout that ends without `submit` is graded as it stands. The factory can be sent to other processes. For
many slow sandboxes at once use `training.EnvironmentRollouts`, whose steps overlap.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from ..episodes.session import SessionLimits, TaskSession
from ..episodes.tools import SYSTEM
from ..tasks.store import read_tasks
from ..tasks.task import TaskFolder


def code_task_environment(
    tasks: str | Path, backend: str = "auto", limits: SessionLimits | None = None
) -> partial[CodeTaskTools]:
    """A factory for `environment_factory`. `tasks` is what `recompose env make` wrote."""
    read_tasks(Path(tasks))
    return partial(CodeTaskTools, str(tasks), backend, limits)


def rows(tasks: str | Path) -> list[JsonObject]:
    """One row per task, for `Dataset.from_list`; `reset` adds the statement to the prompt."""
    return [
        {
            "prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ""}],
            "task_id": task.code_task.task.task_id,
        }
        for task in read_tasks(Path(tasks))
    ]


class CodeTaskTools:
    """One rollout at a time. A call that fails raises, which TRL shows to the policy and counts as a failure."""

    def __init__(self, tasks: str, backend: str = "auto", limits: SessionLimits | None = None) -> None:
        self._tasks: dict[str, TaskFolder] = {task.code_task.task.task_id: task for task in read_tasks(Path(tasks))}
        self._backend, self._limits = backend, limits
        self._session: TaskSession | None = None

    def reset(self, **row: Any) -> str:
        task_id = row.get("task_id")
        if task_id not in self._tasks:
            raise UsageError(f"there is no task {task_id}", "give each row of the dataset the task_id of a task")
        self._close()
        task = self._tasks[task_id]
        self._session = TaskSession(task, self._backend, self._limits)
        return task.code_task.task.statement

    def bash(self, command: str) -> str:
        """
        Run a command in the repository and return its output. Nothing it starts outlives it.

        Args:
            command: The command, as bash reads it.

        Returns:
            What the command printed.
        """
        return self._call("bash", command=command)

    def read_file(self, path: str, start: int = 1, lines: int = 400) -> str:
        """
        Read a file, or some lines of it.

        Args:
            path: Path of the file, relative to the repository.
            start: First line, from 1.
            lines: How many lines.

        Returns:
            The lines.
        """
        return self._call("read_file", path=path, start=start, lines=lines)

    def write_file(self, path: str, content: str) -> str:
        """
        Write a file, in place of what it holds. Folders are made.

        Args:
            path: Path of the file, relative to the repository.
            content: The whole new content.

        Returns:
            That it was written.
        """
        return self._call("write_file", path=path, content=content)

    def edit_file(self, path: str, old: str, new: str) -> str:
        """
        Replace one piece of text in a file. The old text must be in the file exactly once.

        Args:
            path: Path of the file, relative to the repository.
            old: The text to replace, exactly as it is in the file.
            new: The text to put in its place.

        Returns:
            That it was edited.
        """
        return self._call("edit_file", path=path, old=old, new=new)

    def run_tests(self, ids: list[str] | None = None) -> str:
        """
        Run the tests of the repository with pytest.

        Args:
            ids: Test ids or files to run, as pytest writes them. All of them by default.

        Returns:
            What pytest printed.
        """
        return self._call("run_tests", **({} if ids is None else {"ids": ids}))

    def submit(self) -> str:
        """
        Hand in the work. This ends the task; nothing can be changed after it.

        Returns:
            That it was handed in.
        """
        return self._call("submit")

    def get_reward(self) -> float:
        if self._session is None:
            return 0.0
        self._session.stop()
        return self._session.reward

    def __del__(self) -> None:
        # TRL keeps its instances until the trainer goes; nobody closes them.
        self._close()

    def _call(self, name: str, **arguments: Any) -> str:
        if self._session is None:
            raise CallFailed("There is no task: the environment was not reset.")
        result = self._session.call(name, arguments)
        if result.is_error:
            raise CallFailed(result.text)
        return result.text

    def _close(self) -> None:
        session: TaskSession | None = getattr(self, "_session", None)
        if session:
            session.close()
        self._session = None


class CallFailed(Exception):
    """What the policy reads of a call that did not do its work."""
