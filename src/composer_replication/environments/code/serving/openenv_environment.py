"""Code tasks as an OpenEnv environment: `reset` names a task, a step is one tool call, the last one carries the reward.

Whoever holds the WebSocket (a trainer) resets and reads rewards. The agent's side, MCP, knows `tools/list` and
`tools/call` alone: there is no tool that starts over, and a session that nobody has reset has no task to work on.
Nothing is shared between two sessions but the read-only list of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from composer_replication import __version__
from composer_replication.environments.untrusted import encodable
from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from ..episodes.session import SessionLimits, TaskSession
from ..episodes.tools import TOOL_SCHEMAS, opening
from ..tasks.task import TaskFolder

SPLIT = "all"
NO_TASK = "There is no task: the session was not reset."


class TaskObservation(Observation):
    """What `reset` answers: the conversation that the agent starts from."""

    task_id: str
    instruction: str
    messages: list[dict[str, Any]]


class TaskState(State):
    """What a trainer may know in between. The grade is told by the reward and by nothing else."""

    task_id: str | None = None
    ended: str | None = None


class CodeTaskEnvironment(Environment[Action, Observation, TaskState]):
    """One session of the server. `close` is final: a client whose session was taken away cannot open a sandbox."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, tasks: Sequence[TaskFolder], backend: str, limits: SessionLimits) -> None:
        super().__init__()
        self._tasks, self._backend, self._limits = tasks, backend, limits
        self._session: TaskSession | None = None
        self._closed = False
        self._state = TaskState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        index: int | None = None,
        split: str = SPLIT,
        **unknown: Any,
    ) -> TaskObservation:
        """Start a task by its id or its place; without either, by `seed`."""
        if unknown:
            raise UsageError(f"reset takes no {', '.join(unknown)}", "name a task_id or an index")
        if self._closed:
            raise UsageError("this session has ended", "connect again")
        task = self._by_id(task_id) if task_id is not None else self._tasks[self._drawn(split, index, seed)]
        self._end_session()
        self._session = TaskSession(task, self._backend, self._limits)
        known = task.code_task.task
        self._state = TaskState(episode_id=episode_id or uuid4().hex, task_id=known.task_id)
        messages: list[dict[str, Any]] = [dict(message) for message in opening(task.code_task)]
        return TaskObservation(task_id=known.task_id, instruction=known.statement, messages=messages)

    def step(self, action: Action, timeout_s: float | None = None, **unknown: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=TOOLS)
        if not isinstance(action, CallToolAction):
            raise UsageError(f"{type(action).__name__} is no tool call", 'send {"type": "call_tool", …}')
        name = encodable(action.tool_name)
        if self._session is None:
            return CallToolObservation(tool_name=name, result=NO_TASK, metadata={"is_error": True})
        result = self._session.call(name, action.arguments)
        self._state.step_count = self._session.steps
        self._state.ended = self._session.ended
        return CallToolObservation(
            tool_name=name,
            result=result.text,
            done=result.done,
            reward=self._session.reward if result.done else None,
            metadata={"is_error": result.is_error},
        )

    @property
    def state(self) -> TaskState:
        return self._state

    def close(self) -> None:
        self._closed = True
        self._end_session()

    def get_metadata(self) -> EnvironmentMetadata:
        about = f"{len(self._tasks)} code tasks in a sandbox, graded by tests that the agent cannot see"
        return EnvironmentMetadata(name="composer-code-tasks", description=about, version=__version__)

    def list_splits(self) -> list[str]:
        return [SPLIT]

    def num_tasks(self, split: str) -> int:
        return len(self._tasks) if split == SPLIT else 0

    def list_tasks(self, split: str) -> list[JsonObject]:
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> JsonObject:
        return _described(index, self._tasks[self._place(split, index)])

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[JsonObject]:
        return [_described(place, self._tasks[place]) for place in range(self.num_tasks(split))[start:stop]]

    def _place(self, split: str, index: int) -> int:
        if split != SPLIT or not 0 <= index < len(self._tasks):
            raise IndexError(f"there is no task {index} in {split}")
        return index

    def _drawn(self, split: str, index: int | None, seed: int | None) -> int:
        return self._place(split, (seed or 0) % len(self._tasks) if index is None else index)

    def _by_id(self, task_id: str) -> TaskFolder:
        found = next((task for task in self._tasks if task.code_task.task.task_id == task_id), None)
        if found is None:
            raise UsageError(f"there is no task {task_id[:80]}", "ask the server for its tasks")
        return found

    def _end_session(self) -> None:
        if self._session:
            self._session.close()
        self._session = None


def _described(index: int, task: TaskFolder) -> JsonObject:
    known = task.code_task
    return {
        "id": known.task.task_id,
        "index": index,
        "instruction": known.task.statement,
        "repository": known.repository,
        "generator": known.generator,
    }


TOOLS = [
    Tool(
        name=schema["function"]["name"],
        description=schema["function"]["description"],
        input_schema=schema["function"]["parameters"],
    )
    for schema in TOOL_SCHEMAS
]
