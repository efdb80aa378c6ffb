"""Code tasks for verifiers 0.4: a taskset, the harness that plays it, and an environment that needs no container.

The harness runs our agent loop in this process; every call of the model goes through verifiers' interception, and every
command of the model runs in our sandbox. The reward is the grade, computed before verifiers asks for it. verifiers
finds a taskset by the name of a top-level package, so `composer_code_tasks` (integrations/verifiers) re-exports this.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Message

from ..episodes.endpoint import read_reply
from ..episodes.loop import AgentLimits, NoReply, attempt_task
from ..episodes.session import SessionLimits
from ..episodes.tools import SYSTEM
from ..episodes.transcript import under_server_ids, wire
from ..episodes.turns import Reply
from ..tasks.store import read_task, read_tasks

TASKSET = "composer-code-tasks"
SECONDS_PER_CALL = 600.0


class CodeTaskData(vf.TaskData):
    folder: str
    """Of the task, on the machine that grades."""


class CodeTaskState(vf.State):
    reward: float | None = None
    ended: str = ""
    steps: int = 0
    canary_hits: int = 0


class CodeTasksetConfig(vf.TasksetConfig):
    tasks: str = ""
    """What `recompose env make` wrote."""


class VerifiersCodeTask(vf.Task[CodeTaskData, CodeTaskState, vf.TaskConfig]):
    @property
    def key(self) -> str:
        return str(self.data.id)

    @vf.reward
    async def solved(self, trace: Any) -> float:
        """Share of the units of hidden tests that pass, 0 where something else broke."""
        if trace.state.reward is None:
            raise UsageError("the attempt was not graded", "use the harness composer-code-tasks")
        return trace.state.reward

    @vf.metric
    async def steps(self, trace: Any) -> float:
        return float(trace.state.steps)

    @vf.metric
    async def canary_hits(self, trace: Any) -> float:
        """How often a decoy was read: evidence of looking where no honest work looks."""
        return float(trace.state.canary_hits)


class CodeTaskset(vf.Taskset[VerifiersCodeTask, CodeTasksetConfig]):
    def load(self) -> Iterator[VerifiersCodeTask]:
        if not self.config.tasks:
            raise UsageError("no tasks were named", "--env.taskset.tasks FOLDER")
        for task in read_tasks(Path(self.config.tasks).resolve()):
            known = task.code_task.task
            data = CodeTaskData(
                id=known.task_id,
                name=task.folder.name,
                prompt=known.statement,
                system_prompt=SYSTEM,
                folder=str(task.folder),
            )
            yield VerifiersCodeTask(data, self.config.task)


class CodeHarnessConfig(vf.HarnessConfig):
    id: str = TASKSET
    steps: int = 60
    """Tool calls of one attempt."""
    wall_s: float = 1800.0
    backend: str = "auto"
    """Which sandbox."""


class CodeHarness(vf.Harness[CodeHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False  # not in verifiers' runtime: commands run in our own sandbox
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
        **options: Any,
    ) -> vf.ProgramResult:
        system, prompt = self.resolve_prompt(data)
        if not isinstance(prompt, str):
            raise UsageError("a code task begins with its statement", "leave the prompt of the task as it is")
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        limits = AgentLimits(SessionLimits(steps=self.config.steps, wall_s=self.config.wall_s), turns=self.config.steps)
        task = read_task(Path(data.folder))
        with httpx.Client(timeout=SECONDS_PER_CALL, headers={"Authorization": f"Bearer {secret}"}) as client:
            model = _Intercepted(ctx.model, endpoint, client)
            made = await asyncio.to_thread(attempt_task, task, model, 0, limits, self.config.backend, messages)
        state = trace.state
        state.reward, state.ended, state.steps = made.reward, made.ended, made.steps
        state.canary_hits = len(made.canary_hits)
        trace.info["ended"] = made.ended
        if made.ended.startswith("no_reply") and not made.trace.turns and trace.stop_condition is None:
            return vf.ProgramResult(exit_code=1, stdout="", stderr=made.ended)
        return vf.ProgramResult(exit_code=0, stdout=made.ended, stderr="")


class _Intercepted:
    """A `ChatModel` behind verifiers' own server, which adds sampling settings and keeps the record.

    For one attempt: it remembers how verifiers named the calls of each turn. verifiers takes a prompt for the next turn
    of its record only if the ids are the same, and its client for training begins with `call_0` in every turn."""

    def __init__(self, name: str, endpoint: str, client: httpx.Client) -> None:
        self.name, self._endpoint, self._client = name, endpoint.rstrip("/"), client
        self._named: list[list[str | None]] = []

    def reply(self, messages: Sequence[Message], tools: Sequence[JsonObject], asked: str) -> Reply:
        sent = wire(under_server_ids(messages, self._named))
        request = {"model": self.name, "messages": sent, "tools": list(tools)}
        try:
            answer = self._client.post(f"{self._endpoint}/chat/completions", json=request)
        except httpx.HTTPError as error:
            raise NoReply(type(error).__name__) from error
        if answer.status_code != 200:
            raise NoReply(f"HTTP {answer.status_code}")
        reply = read_reply(answer.text)
        self._named.append([call.call_id for call in reply.calls])
        return reply


class CodeTaskEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The runtime only holds the harness's own files."""


class CodeTaskEnv(vf.Env[CodeTaskEnvConfig]):
    async def run(self, task: Any, agents: Any) -> None:
        await agents.agent.run(task)


def load_environment(tasks: str, **agent: Any) -> vf.Env:
    """The environment over a folder of tasks. Keywords are settings of the harness, such as `steps`."""
    raw = {"taskset": {"id": TASKSET, "tasks": tasks}, "agent": {"harness": {"id": TASKSET, **agent}}}
    return vf.load_environment(vf.resolve_env_config(raw))
