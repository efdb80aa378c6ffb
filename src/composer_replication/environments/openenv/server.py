"""One OpenEnv server: what it says of itself over HTTP, and sessions over its WebSocket.

Sends actions of the policy to the address of the config and nothing else. Loopback, or https to a public host.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, NamedTuple

import httpx
from openenv.core.client_types import StepResult
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from websockets.protocol import State

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.llm.addresses import require_allowed
from composer_replication.records import JsonObject

Session = SyncEnvClient[Any, Any, Any]
Result = StepResult[Any]
ASK_S = 30.0
TOOL_ACTIONS = frozenset({"Action", "CallToolAction", "ListToolsAction"})
"""Titles of the action schema of servers whose only actions are tool calls."""


class ServerTask(NamedTuple):
    task_id: str
    split: str
    kind: str
    """`train`, `validation` or `test`; empty where the server names no tasks."""
    reset: JsonObject
    """What `reset` is asked for."""


class OneConnection(GenericEnvClient):
    """A lost connection is a lost session: OpenEnv's client would go on in a new one that nobody has reset."""

    _connected = False

    async def _connect_async(self) -> GenericEnvClient:
        if self._connected and (self._ws is None or self._ws.state is not State.OPEN):
            raise ConnectionError("the connection was lost")
        await super()._connect_async()
        self._connected = True
        return self


class OpenEnvServer:
    def __init__(self, url: str, token_variable: str | None, timeout_s: float) -> None:
        require_allowed(url)
        self._url, self._timeout_s = url.rstrip("/"), timeout_s
        token = os.environ.get(token_variable) if token_variable else None
        if token_variable and not token:
            raise UsageError(f"{token_variable} is not set", f"export {token_variable}=TOKEN")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.action_schema: JsonObject = self._ask("/schema")["action"]
        self.about: str = self._ask("/metadata").get("description") or ""
        self.tools = self._list_tools() if self.action_schema.get("title") in TOOL_ACTIONS else []

    def open_session(self) -> Session:
        client = OneConnection(self._url, message_timeout_s=self._timeout_s, headers=self._headers or None)
        try:
            return client.sync().connect()
        except (OSError, RuntimeError, TimeoutError) as error:
            raise RecomposeError(f"{self._url} takes no session: {error}", "is the server running?") from error

    def tasks(self, seeds: int) -> list[ServerTask]:
        """Those that the server names, else one per seed."""
        names = self._ask("/list_environments", missing=[])
        splits = self._ask(f"/{names[0]}/splits", missing=[]) if names else []
        found: list[ServerTask] = []
        for split in splits:
            split_name = str(split["name"])
            told = self._ask(f"/{names[0]}/tasks", {"split": split_name})["tasks"]
            for index, task in enumerate(told):
                named = (task.get("id") or task.get("task_id")) if isinstance(task, dict) else None
                task_id = str(named or f"{split_name}-{index}")
                reset = {"split": split_name, "index": index}
                found.append(ServerTask(task_id, split_name, str(split["type"]), reset))
        if len({task.task_id for task in found}) < len(found):
            found = [task._replace(task_id=f"{task.split}-{task.reset['index']}") for task in found]
        return found or [ServerTask(f"seed-{seed}", "", "", {"seed": seed}) for seed in range(seeds)]

    def _list_tools(self) -> list[JsonObject]:
        with closing(self.open_session()) as session:
            told = session.step({"type": "list_tools"}).observation["tools"]
        return [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool.get("description") or "",
                    "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
                },
            }
            for tool in told
        ]

    def _ask(self, path: str, body: JsonObject | None = None, missing: Any = None) -> Any:
        """`missing` stands in for a route that the server does not have."""
        method = "GET" if body is None else "POST"
        try:
            answer = httpx.request(method, self._url + path, json=body, headers=self._headers, timeout=ASK_S)
        except httpx.HTTPError as error:
            raise UsageError(f"{self._url} does not answer ({type(error).__name__})", "start the server") from error
        if missing is not None and answer.status_code in (404, 405, 501):
            return missing
        if answer.status_code != 200:
            raise UsageError(f"{self._url}{path} answers with status {answer.status_code}", "is it an OpenEnv server?")
        return answer.json()
