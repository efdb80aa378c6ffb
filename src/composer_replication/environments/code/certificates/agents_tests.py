"""The tests of a repository as an agent runs them: `python -m pytest` in its sandbox, by the repository's settings.

The statement of every task says that the tests that are left pass. Our own runs go without the configuration, so that
markers, warnings as errors and the like may make the two differ. Reads a task's tree; writes nothing.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

from composer_replication.errors import UsageError
from composer_replication.records import Task

from ..episodes.session import SessionLimits, TaskSession
from ..running.coverage import LONGEST_SUITE_S
from ..running.warm import TestSetup
from ..sandbox.interface import Ending, Limits
from ..tasks.repository import Repository
from ..tasks.task import CodeTask, TaskFolder
from ..tasks.trees import write_tree

COMMAND = "python -m pytest"
TELL_ALL = "-q -rfE --tb=no --no-header --continue-on-collection-errors"
TELL_FIRST = "-q -x --tb=short --no-header"
USAGE_ERROR = 4
MAX_RED_SHARE = 0.5
CAUSE = re.compile(r"^E +(\S.*)$", re.MULTILINE)
NOT_GREEN = re.compile(r"^(?:FAILED|ERROR|SUBFAILED\S*) (\S.*?)(?: - .*)?$", re.MULTILINE)


class AgentsRun(NamedTuple):
    exit_code: int | None
    """None where the run was killed."""
    printed: str
    ending: Ending

    @property
    def last_line(self) -> str:
        lines = self.printed.strip().splitlines()
        return next(
            (line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), lines[-1] if lines else ""
        )


def run_as_agent(task: TaskFolder, backend: str, wait_s: float, options: str = "") -> AgentsRun:
    # A command of an agent may take a minute; a suite as long as it is waited for.
    sandbox = replace(Limits(), wall_s=wait_s, cpu_s=ceil(wait_s))
    with TaskSession(task, backend, SessionLimits(wall_s=wait_s, sandbox=sandbox), audit=False) as session:
        result = session.run_program(["/bin/bash", "-c", f"{COMMAND} {options}"], {})
    printed = b"\n".join((result.stdout, result.stderr)).decode("utf-8", "replace")
    return AgentsRun(result.exit_code if result.ending == "exited" else None, printed, result.ending)


def red_for_agents(repository: Repository, setup: TestSetup) -> frozenset[str]:
    """Tests, and files that cannot be collected, that are not green for an agent in the whole repository. Raises where
    pytest does not even start, or where half of the files are lost."""
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        whole = _whole(repository, setup, Path(scratch))
        run = run_as_agent(whole, setup.backend, LONGEST_SUITE_S, TELL_ALL)
        red = frozenset(NOT_GREEN.findall(run.printed))
        files = [each for each in red if "::" not in each]
        if run.exit_code not in (None, USAGE_ERROR) and len(files) <= MAX_RED_SHARE * len(repository.test_files):
            return red
        if run.exit_code is None:
            reason = f"it was stopped before its end ({run.ending})"
        else:
            first = run_as_agent(whole, setup.backend, LONGEST_SUITE_S, TELL_FIRST)
            reason = [run.last_line, *CAUSE.findall(first.printed)][-1]
    raise UsageError(
        f"the suite of {repository.name} is red where an agent runs it (`{COMMAND}`): {reason[:200]}",
        "make it pass in a fresh checkout, or add what it needs --with DISTRIBUTION",
    )


def _whole(repository: Repository, setup: TestSetup, folder: Path) -> TaskFolder:
    nothing = Task(task_id="", kind="code", statement="", visible_hash="", hidden_hash="")
    code_task = CodeTask(
        task=nothing,
        repository=repository.name,
        generator="",
        mode="",
        level="L0",
        symbols=(),
        packages=repository.packages,
        source_roots=repository.source_roots,
        distributions=setup.distributions,
        pytest_plugins=setup.plugins,
        pytest_options=repository.selection,
        test_files=repository.test_files,
        hidden_tests=(),
        guard_tests=(),
        editable=(),
        seconds_per_run=0.0,
    )
    task = TaskFolder(code_task, folder)
    write_tree(repository.tree, task.tree, {})
    return task
