"""Any OpenEnv server as an environment: reset, steps, and the sum of their rewards.

Where the server's actions are tool calls, the policy writes calls as text; else it writes the action itself, as one
JSON object, or as plain text where the action has one field. A session is opened by the first turn, so that many
episodes may wait without one. Reads `url` and `settings`: `tasks` (how many seeds, where the server names no tasks),
`reward_range` and `token_variable`. Writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from websockets.exceptions import WebSocketException

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import JsonObject, Message, ToolCall, canonical_json

from ..calls import with_tools
from ..code.episodes.tools import ToolError
from ..code.episodes.transcript import answer
from ..code.episodes.turns import Reply
from ..foreign.play import ForeignEnvironment, ForeignEpisode, ForeignTask
from ..protocol import TRAIN
from ..untrusted import read_json
from .server import OpenEnvServer, Result, ServerTask, Session

if TYPE_CHECKING:
    from composer_replication.config import EnvironmentConfig

DEFAULT_SEEDS = 64
DOES_NOT_FIT, RAISED = "(code: VALIDATION_ERROR)", "(code: EXECUTION_ERROR)"
OVER = "The episode is over: this call was not made."


class OpenEnvTask(ForeignTask):
    def __init__(self, server: OpenEnvServer, told: ServerTask, split: str) -> None:
        super().__init__(told.task_id, split, {"split": told.split} if told.split else {})
        self._server, self._told = server, told

    def _look(self) -> Sequence[Message]:
        """The server shows a task only in a session; this one is given back at once."""
        with closing(self._server.open_session()) as session:
            return self.reset(session)

    def reset(self, session: Session) -> list[Message]:
        try:
            seen = session.reset(**self._told.reset).observation
        except RuntimeError as error:
            raise RecomposeError(f"the server does not start {self.task_id}: {error}", "look at its log") from error
        given = [message for message in seen.get("messages") or () if isinstance(message, dict)]
        if given and all({"role", "content"} <= message.keys() for message in given):
            opening = [Message(role=message["role"], content=message["content"]) for message in given]
        else:
            told = "\n\n".join(filter(None, (self._server.about, action_format(self._server))))
            opening: list[Message] = [{"role": "system", "content": told}] if told else []
            opening.append({"role": "user", "content": shown(seen) or "The environment is ready."})
        return with_tools(opening, self._server.tools)


class OpenEnvEpisode(ForeignEpisode):
    agent = "openenv"

    def __init__(self, world: OpenEnvEnvironment, server: OpenEnvServer, task: OpenEnvTask) -> None:
        super().__init__(world, task, server.tools)
        self._server, self._opened = server, task
        self._session: Session | None = None
        self._total = 0.0

    @property
    def reward(self) -> float:
        return self._scaled(self._total)

    def close(self) -> None:
        if self._session:
            self._session.close()
        self._session = None

    def _act(self, reply: Reply) -> list[Message]:
        if not self.tools:
            action = read_action(reply.text, self._server.action_schema)
            return [{"role": "user", "content": shown(self._step(action))}]
        if not reply.calls:
            raise ToolError("Your response did not call a tool.")
        return [self._call(call) for call in self._made(reply)]

    def _call(self, call: ToolCall) -> Message:
        if self.finished:
            return answer(OVER, call["id"], failed=False)
        try:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            seen = self._step({"type": "call_tool", "tool_name": name, "arguments": arguments})
        except ToolError as error:
            return answer(str(error), call["id"], failed=True)
        text, failed = tool_result(seen)
        return answer(text, call["id"], failed)

    def _step(self, action: JsonObject) -> JsonObject:
        if self._session is None:
            self._session = self._server.open_session()
            if self._opened.reset(self._session) != list(self.messages):
                raise RecomposeError(
                    f"the server shows another task than before for {self.task.task_id}",
                    "use a server that repeats a task by its seed or its place",
                )
        try:
            result: Result = self._session.step(action)
        except RuntimeError as error:
            if str(error).endswith(DOES_NOT_FIT):
                raise ToolError("Your response could not be parsed: the action does not fit its schema.") from error
            if str(error).endswith(RAISED):
                raise ToolError(f"Error: the server refused the action: {error}") from error
            raise RecomposeError(f"the server broke off {self.task.task_id}: {error}", "look at its log") from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise RecomposeError(f"the server is gone at {self.task.task_id}: {error}", "start it again") from error
        self._total += float(result.reward or 0.0)
        self.finished = bool(result.done)
        return {**result.observation, "metadata": result.metadata or {}}


class OpenEnvEnvironment(ForeignEnvironment[OpenEnvTask]):
    name = "openenv"
    settings = ("tasks", "token_variable")

    def _open(self, section: EnvironmentConfig) -> list[OpenEnvTask]:
        if not section.url:
            raise UsageError("openenv needs the address of a server", 'set url = "http://127.0.0.1:8765"')
        self._server = OpenEnvServer(section.url, section.settings.get("token_variable"), section.step_timeout_s)
        told = self._server.tasks(int(section.settings.get("tasks", DEFAULT_SEEDS)))
        by_server = {task.kind for task in told} > {TRAIN}

        def split(task: ServerTask) -> str:
            if not by_server:
                return self._split_of(task.task_id)
            return TRAIN if task.kind == TRAIN else task.split

        return [OpenEnvTask(self._server, task, split(task)) for task in told]

    def _begin(self, task: OpenEnvTask) -> OpenEnvEpisode:
        return OpenEnvEpisode(self, self._server, task)


def action_format(server: OpenEnvServer) -> str:
    if server.tools:
        return ""
    fields = _fields(server.action_schema)
    if len(fields) == 1:
        return f"Answer with `{next(iter(fields))}` alone: {canonical_json(fields)}"
    return f"Answer with one JSON object with these fields: {canonical_json(fields)}"


def read_action(text: str, schema: JsonObject) -> JsonObject:
    """One JSON object, fenced or not; plain text where the action has one field."""
    plain = text.strip()
    if plain.startswith("```") and plain.endswith("```") and "\n" in plain:
        plain = "\n".join(plain.splitlines()[1:-1]).strip()
    try:
        value: Any = read_json(plain)
    except ValueError:
        value = plain
    if isinstance(value, dict):
        return cast(JsonObject, value)
    fields = _fields(schema)
    if len(fields) != 1:
        raise ToolError(f"Your response could not be parsed: answer with one JSON object with {', '.join(fields)}.")
    name, described = next(iter(fields.items()))
    return {name: plain if described.get("type") == "string" else value}


def _fields(schema: JsonObject) -> dict[str, JsonObject]:
    """Choices that the schema keeps in its definitions are put in their place."""

    def whole(told: JsonObject) -> JsonObject:
        defined = schema.get("$defs", {}).get(str(told.get("$ref")).rpartition("/")[2], {})
        return {key: value for key, value in {**defined, **told}.items() if key != "$ref"}

    return {name: whole(told) for name, told in schema.get("properties", {}).items() if name != "metadata"}


def shown(observation: JsonObject) -> str:
    """Its one text, or its fields as JSON. `metadata` is for trainers."""
    fields = {name: value for name, value in observation.items() if name != "metadata" and value is not None}
    if len(fields) == 1 and isinstance(only := next(iter(fields.values())), str):
        return only
    return canonical_json(fields) if fields else ""


def tool_result(observation: JsonObject) -> tuple[str, bool]:
    """The text, and whether the call failed."""
    if error := observation.get("error"):
        return f"Error: {error['message']}", True
    result: Any = observation.get("result")
    failed = bool(observation["metadata"].get("is_error"))
    if isinstance(result, dict) and isinstance(parts := cast(JsonObject, result).get("content"), list):
        failed = failed or bool(cast(JsonObject, result).get("is_error"))
        texts = [part["text"] for part in cast(list[Any], parts) if isinstance(part, dict) and "text" in part]
        return "\n".join(texts), failed
    return result if isinstance(result, str) else canonical_json(result), failed
