"""Plays a verifiers taskset for another process. Runs under verifiers' own Python and imports nothing of ours.

verifiers asks its model, as always; the model is this process, and the answer to each request is the turn that the
other process sends. Listens at 127.0.0.1 alone and wants a token with every request. Reads one line of settings from
stdin, writes one line to stdout with the port and the tasks, and ends when stdin is closed.

    POST /rollouts {task}                            -> what the model is asked first
    POST /rollouts/ID/turn {content, tool_calls, …}  -> what came back, or that the rollout is over, with its reward
    POST /rollouts/ID/end                            -> over, scored as it stands: every further turn is empty
    DELETE /rollouts/ID
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import sys
import uuid
from contextlib import AsyncExitStack, suppress
from typing import Any, TextIO

import httpx
import verifiers.v1 as vf
from aiohttp import web
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import connect_mcp, mcp_content_to_chat_content
from verifiers.v1.mcp.launch import _PROBE
from verifiers.v1.runtimes.subprocess import SubprocessRuntime

__all__ = ["RecomposePlayer"]

HARNESS = "recompose-player"
TOKEN_VARIABLE = "RECOMPOSE_PLAYER_TOKEN"  # noqa: S105 - the variable's name
MAX_BODY_BYTES = 64 << 20
NO_COMMANDS = (
    "this taskset runs commands on this machine, outside of any sandbox; "
    "where what a model writes may run here, set allow_commands = true"
)


class Rollout:
    """One rollout of verifiers, seen from the process that plays it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.waiting: asyncio.Future[dict[str, Any]] | None = None
        self.seen = 0
        """Messages that the player knows, its own last turn included."""
        self.malformed: str | None = None
        self.failed: set[str] = set()
        """Ids of the calls that failed."""
        self.silent = False
        self.work: asyncio.Task[None] | None = None

    async def ask(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if self.silent:
            return {"content": ""}
        self.waiting = asyncio.get_running_loop().create_future()
        new = messages[self.seen :] or messages[-1:]
        self.seen = len(messages) + 1
        answers = [{**_plain(each), "failed": each.get("tool_call_id") in self.failed} for each in new]
        await self.events.put({"finished": False, "messages": answers, "tools": tools})
        return await self.waiting

    def take(self, turn: dict[str, Any]) -> None:
        self.malformed = turn.get("malformed")
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(turn)

    async def close(self) -> None:
        if self.work:
            self.work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.work


BY_TRACE: dict[str, Rollout] = {}


class RecomposePlayer(vf.Harness[vf.HarnessConfig]):
    """A chat with the taskset's tools. A turn that could not be read is answered, and the chat goes on."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_MCP = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

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
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or ()]
        servers = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
        async with AsyncExitStack() as stack:
            tools, places, connections = await connect_mcp(servers, stack)
            headers = {"Authorization": f"Bearer {secret}"}
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None, headers=headers))  # noqa: S113
            while True:
                request = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
                answer = await client.post(f"{endpoint}/chat/completions", json=request)
                if answer.status_code != 200:
                    return vf.ProgramResult(exit_code=1, stdout="", stderr=answer.text[-2000:])
                said = answer.json()["choices"][0]["message"]
                messages.append({key: value for key, value in said.items() if value is not None})
                rollout = BY_TRACE[trace.id]
                if rollout.malformed:
                    messages.append({"role": "user", "content": rollout.malformed})
                    continue
                if not said.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in said["tool_calls"]:
                    content = await _call(call, places, connections, rollout)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def _call(call: dict[str, Any], places: dict[str, Any], connections: dict[str, Any], rollout: Rollout) -> Any:
    name = call["function"]["name"]
    if name not in places:
        rollout.failed.add(call["id"])
        return f"no such tool: {name[:80]}. The tools are {', '.join(places)}."
    server, tool = places[name]
    arguments = json.loads(call["function"]["arguments"])
    result = await connections[server].run(lambda client: client.call_tool(tool, arguments))
    if result.is_error:
        rollout.failed.add(call["id"])
    return mcp_content_to_chat_content(result.content)


class Player:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._token = os.environ[TOKEN_VARIABLE]
        self._rollouts: dict[str, Rollout] = {}
        taskset = {**settings["taskset_settings"], "id": settings["taskset"]}
        bare = vf.resolve_env_config({"taskset": taskset})
        seats = list(agent_config_fields(bare))
        if len(seats) != 1:
            raise SystemExit(f"{settings['taskset']} has {len(seats)} seats ({', '.join(seats)}); one can be played")
        seat = {
            "harness": {"id": settings["harness"] or HARNESS},
            "runtime": {"type": "subprocess"},
            "max_turns": settings["max_turns"],
        }
        self.environment = vf.load_environment(vf.resolve_env_config({"taskset": taskset, seats[0]: seat}))
        chosen = self.environment.taskset
        tasks = list(chosen if chosen.bounded and not settings["limit"] else chosen.take(settings["limit"] or 256))
        ids = [task.data.id for task in tasks]
        named = None not in ids and len(set(ids)) == len(ids)
        self.tasks = {str(task.data.id) if named else task.key[:16]: task for task in tasks}
        self._context: ModelContext | None = None

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/rollouts", self._begin)
        app.router.add_post("/rollouts/{id}/turn", self._turn)
        app.router.add_post("/rollouts/{id}/end", self._end)
        app.router.add_delete("/rollouts/{id}", self._delete)
        return app

    def listens_at(self, port: int) -> None:
        client = EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var=TOKEN_VARIABLE)
        self._context = ModelContext(model="policy", client=client)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise web.HTTPUnauthorized
        return await handler(request)

    async def _complete(self, request: web.Request) -> web.Response:
        """Asked by verifiers."""
        body = await request.json()
        if body.get("stream"):
            raise web.HTTPNotImplemented(text="a harness that streams cannot be played")
        rollout = BY_TRACE[request.headers["X-Session-ID"]]
        turn = await rollout.ask(body["messages"], body.get("tools") or [])
        message = {"role": "assistant", "content": turn["content"]}
        if turn.get("tool_calls"):
            message["tool_calls"] = turn["tool_calls"]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        about = {"id": uuid.uuid4().hex, "object": "chat.completion", "created": 0, "model": body["model"]}
        return web.json_response({**about, "choices": [choice], "usage": usage})

    async def _begin(self, request: web.Request) -> web.Response:
        task = self.tasks[(await request.json())["task"]]
        name, rollout = uuid.uuid4().hex, Rollout()
        self._rollouts[name] = rollout
        rollout.work = asyncio.create_task(self._play(task, rollout))
        return web.json_response({"rollout": name, **await rollout.events.get()})

    async def _play(self, task: Any, rollout: Rollout) -> None:
        traces: list[str] = []

        def minted(trace: Any) -> None:
            traces.append(trace.id)
            BY_TRACE[trace.id] = rollout

        try:
            assert self._context
            slot = self.environment.slots(task)[0]
            episode = await self.environment.run_slot(slot, self._context, on_trace=minted)
            errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
            over: dict[str, Any] = {"reward": sum(trace.reward for trace in episode.traces)}
            if errors:
                over["error"] = f"{errors[-1].type}: {errors[-1].message}"[-2000:]
        except Exception as error:  # told to the other process
            over = {"error": f"{type(error).__name__}: {error}"}
        finally:
            for trace_id in traces:
                BY_TRACE.pop(trace_id, None)
        await rollout.events.put({"finished": True, "messages": [], **over})

    async def _turn(self, request: web.Request) -> web.Response:
        rollout = self._rollouts[request.match_info["id"]]
        rollout.take(await request.json())
        return web.json_response(await rollout.events.get())

    async def _end(self, request: web.Request) -> web.Response:
        rollout = self._rollouts[request.match_info["id"]]
        rollout.silent = True
        rollout.take({"content": ""})
        while not (event := await rollout.events.get())["finished"]:
            rollout.take({"content": ""})
        return web.json_response(event)

    async def _delete(self, request: web.Request) -> web.Response:
        if rollout := self._rollouts.pop(request.match_info["id"], None):
            await rollout.close()
        return web.json_response({})


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", f"[{part.get('type')}]") for part in content)
    plain = {"role": message["role"], "content": content or ""}
    return {**plain, "tool_call_id": message["tool_call_id"]} if message.get("tool_call_id") else plain


def _refuse_commands() -> None:
    """verifiers' local runtime isolates nothing; only its own question whether a tool server is up may run."""
    run = SubprocessRuntime.run

    async def run_probe_only(self: Any, argv: list[str], env: dict[str, str]) -> Any:
        if argv[:2] != [sys.executable, "-c"] or argv[2] != _PROBE:
            raise PermissionError(NO_COMMANDS)
        return await run(self, argv, env)

    async def refuse(self: Any, argv: list[str], env: dict[str, str]) -> Any:
        raise PermissionError(NO_COMMANDS)

    SubprocessRuntime.run = run_probe_only
    SubprocessRuntime.open_process = refuse


async def _serve(out: TextIO) -> None:
    lines = asyncio.StreamReader(limit=MAX_BODY_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = json.loads(await lines.readline())
    if not settings["allow_commands"]:
        _refuse_commands()
    player = Player(settings)
    runner = web.AppRunner(player.application(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    async with player.environment.serving():
        await site.start()
        port = runner.addresses[0][1]
        player.listens_at(port)
        told = {key: {"name": task.data.name} for key, task in player.tasks.items()}
        out.write(json.dumps({"port": port, "tasks": told}) + "\n")
        out.flush()
        await lines.read()
        await asyncio.gather(*(rollout.close() for rollout in player._rollouts.values()))
    await runner.cleanup()


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    told, sys.stdout = sys.stdout, sys.stderr  # a taskset may print
    asyncio.run(_serve(told))
