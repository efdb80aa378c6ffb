"""Folders of Harbor tasks made by others, played with our six tools in our sandbox and judged by their own tests.

Reads the folders of `tasks` and `settings`: `skip_refused` (play the others where some need more than Python),
`check_solutions` (on by default: a task whose own solution is not rewarded here is refused) and `reward_range`. Writes
the working folders below the system's temporary folder and removes them at the end.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.errors import UsageError
from composer_replication.records import Message

from ..calls import with_tools
from ..code.episodes.session import SessionLimits, TaskSession, ToolResult
from ..code.episodes.tools import TOOL_SCHEMAS, ToolError
from ..code.episodes.transcript import answer
from ..code.episodes.turns import Reply
from ..code.tasks.task import TaskFolder
from ..evidence import AttemptEvidence
from ..foreign.play import ForeignEnvironment, ForeignEpisode, ForeignTask, in_range
from .dockerfile import Refused
from .folder import HarborFolder, find_folders, read_folder
from .sandboxes import HarborSandboxes, write_programs

if TYPE_CHECKING:
    from composer_replication.config import EnvironmentConfig

SYSTEM = """You are working in the folder {workdir} with Python and bash. There is no network.
Use the tools to look around, write files and run commands. Call `submit` when the work is done: it is then checked by
tests that you cannot see. Only what is in {workdir} is checked."""
MOST_NAMED = 20
SHORTEST_WALL_S = 1800.0
"""A policy in training answers more slowly than Harbor's time for an agent allows for."""


class HarborTask(ForeignTask):
    def __init__(self, harbor: HarborFolder, split: str, programs: Path, trees: Path) -> None:
        super().__init__(harbor.task_id, split, {**harbor.labels, "folder": harbor.folder.name})
        self.harbor, self.sandboxes = harbor, HarborSandboxes(programs, harbor)
        self._trees = trees

    def folder(self) -> TaskFolder:
        return self.harbor.write(self._trees / self.task_id.replace("/", "_"))

    def solution_reward(self, backend: str) -> float:
        folder = self.folder()
        return self.sandboxes.grade(folder, self.sandboxes.solve(folder, backend), backend).reward

    def _look(self) -> Sequence[Message]:
        system = SYSTEM.format(workdir=self.harbor.image.workdir)
        opening: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": self.harbor.instruction},
        ]
        return with_tools(opening, TOOL_SCHEMAS)


class HarborEpisode(ForeignEpisode):
    """The sandbox is opened by the first turn, so that many episodes may wait without one."""

    agent = "harbor"

    def __init__(self, world: HarborEnvironment, task: HarborTask, backend: str) -> None:
        super().__init__(world, task, TOOL_SCHEMAS)
        self._played, self._backend = task, backend
        self._session: TaskSession | None = None

    @property
    def reward(self) -> float:
        if self._session is None:
            return 0.0
        self._session.stop()
        return self._scaled(self._session.reward)

    @property
    def evidence(self) -> AttemptEvidence | None:
        return self._session.evidence if self._session else None

    def close(self) -> None:
        if self._session:
            self._session.close()

    def _act(self, reply: Reply) -> list[Message]:
        if not reply.calls:
            raise ToolError("Your response did not call a tool. Call `submit` when the work is done.")
        session = self._opened()
        return [
            self._answer(session.call(call["function"]["name"], json.loads(call["function"]["arguments"])), call["id"])
            for call in self._made(reply)
        ]

    def _refuse(self, text: str, error: ToolError) -> list[Message]:
        return [self._answer(self._opened().refuse(error), None)]

    def _opened(self) -> TaskSession:
        if self._session is None:
            sandboxes = self._played.sandboxes
            limits = SessionLimits(self._max_steps, max(SHORTEST_WALL_S, self._played.harbor.agent_s))
            self._session = TaskSession(
                self._played.folder(),
                self._backend,
                limits,
                grader=sandboxes.grade,
                opener=sandboxes.for_agent,
                plants_decoys=False,
            )
        return self._session

    def _answer(self, result: ToolResult, call_id: str | None) -> Message:
        self.finished = self.finished or result.done
        return answer(result.text, call_id, result.is_error)


class HarborEnvironment(ForeignEnvironment[HarborTask]):
    name = "harbor"
    settings = ("skip_refused", "check_solutions")

    def _open(self, section: EnvironmentConfig) -> list[HarborTask]:
        self._backend = section.sandbox
        found = [folder for name in section.tasks for folder in find_folders(Path(name).resolve())]
        if not found:
            named = ", ".join(section.tasks) or "[environment] tasks"
            raise UsageError(
                f"there are no Harbor tasks in {named}", 'set tasks = ["FOLDER"], with a task.toml in it or below it'
            )
        self._scratch = tempfile.TemporaryDirectory(prefix="recompose-harbor-")
        programs, trees = Path(self._scratch.name) / "programs", Path(self._scratch.name) / "trees"
        write_programs(programs)
        self.refused: dict[str, str] = {}
        """Path of the folder -> why it is not played."""
        tasks: list[HarborTask] = []
        for folder in found:
            try:
                harbor = read_folder(folder)
                task = HarborTask(harbor, self._split_of(harbor.task_id), programs, trees)
                if section.settings.get("check_solutions", True):
                    self._check(task)
                tasks.append(task)
            except Refused as why:
                self.refused[str(folder)] = str(why)
        if self.refused and not (tasks and section.settings.get("skip_refused") is True):
            self.close()
            named = [f"{Path(folder).name}: {why}" for folder, why in self.refused.items()]
            named[MOST_NAMED:] = [f"and {len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
            raise UsageError(
                f"{len(self.refused)} of {len(found)} tasks need more than Python here ({'; '.join(named)})",
                "leave them out, or set skip_refused = true under [environment.settings]",
            )
        return tasks

    def close(self) -> None:
        self._scratch.cleanup()

    def _check(self, task: HarborTask) -> None:
        if not (task.harbor.solution / "solve.sh").is_file():
            return
        reward = in_range(task.solution_reward(self._backend), self.rewards)
        if reward < 1:
            raise Refused(f"its own solution gets the reward {reward:g} here")

    def _begin(self, task: HarborTask) -> HarborEpisode:
        return HarborEpisode(self, task, self._backend)
