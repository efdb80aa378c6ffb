"""The trainer's side: OpenEnv's client with our types. `GenericEnvClient` works as well."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation

from .openenv_environment import TaskObservation, TaskState


class CodeTaskClient(EnvClient[CallToolAction, Observation, TaskState]):
    """`reset(task_id=…)`, then `call("bash", command="ls")` until `done`."""

    async def call(self, tool_name: str, /, **arguments: Any) -> StepResult[Observation]:
        return await self.step(CallToolAction(tool_name=tool_name, arguments=arguments))

    def _step_payload(self, action: CallToolAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Observation]:
        said: dict[str, Any] = {**payload["observation"], "done": payload["done"], "reward": payload["reward"]}
        kind = CallToolObservation if "tool_name" in said else TaskObservation
        return StepResult(observation=kind(**said), reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> TaskState:
        return TaskState(**payload)
