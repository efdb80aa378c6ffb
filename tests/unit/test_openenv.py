"""Code tasks over OpenEnv, with its own server and clients: trainers reset and are rewarded, agents call tools."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial

import httpx
import pytest
import uvicorn
from openenv import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from composer_replication.cli.env_serve import serve as serve_command
from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.episodes.tools import TOOL_NAMES
from composer_replication.environments.code.serving.openenv_client import CodeTaskClient
from composer_replication.environments.code.serving.server import ServerSettings, build_app, listen, server_config
from composer_replication.errors import UsageError
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task

TOKEN = "a-token-of-some-length"


@contextmanager
def serving(tasks, limits=None, **settings):
    """A server on a free port, in a thread."""
    chosen = ServerSettings(port=0, **settings)
    server = uvicorn.Server(server_config(build_app(tasks, chosen, limits), chosen))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openenv")
    second = code_task().task.model_copy(update={"task_id": "second", "statement": "The second."})
    return [write_sample_task(folder / "first"), write_sample_task(folder / "second", task=second)]


def active(url):
    return httpx.get(f"{url}/capacity").json()["active_sessions"]


def eventually(question, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not question() and time.monotonic() < deadline:
        time.sleep(0.02)
    return question()


def test_an_episode_through_the_real_grader(tasks):
    async def play(url):
        async with CodeTaskClient(base_url=url) as client:
            began = await client.reset(task_id="spanbook-merge")
            assert began.observation.instruction == tasks[0].code_task.task.statement
            assert [message["role"] for message in began.observation.messages] == ["system", "user"]
            missing = await client.call("read_file", path="nope")
            assert missing.observation.metadata == {"is_error": True} and missing.reward is None
            await client.call("write_file", path=SPANS, content=SPANS_GOLD)
            state = await client.state()
            assert (state.task_id, state.step_count, state.ended) == ("spanbook-merge", 2, None)
            assert "reward" not in state.model_dump() and "grade" not in state.model_dump()
            last = await client.call("submit")
            assert (last.done, last.reward, last.observation.result) == (True, 1.0, "The work is handed in.")
            again = await client.call("bash", command="ls")
            assert again.done and again.observation.metadata["is_error"]

    with serving(tasks) as url:
        asyncio.run(play(url))
        assert eventually(lambda: active(url) == 0)


def test_the_untyped_client_and_the_list_of_tasks(tasks, no_grading):
    async def play(url):
        async with GenericEnvClient(base_url=url) as client:
            result = await client.reset(index=1)
            assert result.observation["task_id"] == "second"
            result = await client.step({"type": "call_tool", "tool_name": "submit"})
            assert (result.done, result.reward) == (True, 0.0)
            with pytest.raises(RuntimeError, match="there is no task nothing"):
                await client.reset(task_id="nothing")
            assert (await client.reset(seed=7)).observation["task_id"] == "second"

    with serving(tasks) as url:
        asyncio.run(play(url))
        assert httpx.post(f"{url}/code_tasks/num_tasks", json={"split": "all"}).json() == {"num_tasks": 2}
        told = httpx.post(f"{url}/code_tasks/task", json={"split": "all", "index": 1}).json()["task"]
        assert (told["id"], told["instruction"]) == ("second", "The second.")
        assert httpx.post(f"{url}/code_tasks/task", json={"split": "all", "index": 2}).status_code == 400


def test_agents_get_tools_and_no_reset(tasks, no_grading):
    async def play(url):
        client = MCPToolClient(base_url=url)
        async with client:
            assert [tool.name for tool in await client.list_tools()] == list(TOOL_NAMES)
            early = await client.call_tool("bash", command="ls")
            assert "was not reset" in early["result"]
            await client.reset(index=0)
            assert "spanbook" in (await client.call_tool("bash", command="ls"))["result"]
            for name in ("reset", "step", "state", "close", "_finish"):
                refused = await client.call_tool(name)
                assert refused["metadata"]["is_error"] and "no such tool" in refused["result"]
            assert "spanbook" in (await client.call_tool("bash", command="ls"))["result"]

    with serving(tasks) as url:
        asyncio.run(play(url))
        for path in ("/reset", "/step"):
            assert httpx.post(f"{url}{path}", json={}).status_code == 404
        assert httpx.get(f"{url}/state").status_code == 404


def test_with_a_token_the_agent_has_its_session_and_nothing_else(tasks, no_grading):
    def rpc(url, method, session=None, token=None, **params):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if session:
            asked["params"]["session_id"] = session
        return httpx.post(f"{url}/mcp", json=asked, headers=headers, timeout=20)

    async def reset(url, session, headers):
        async with connect(
            f"{url.replace('http', 'ws')}/ws?session_id={session}", additional_headers=headers
        ) as socket:
            await socket.send('{"type": "reset", "data": {"index": 0}}')
            return await socket.recv()

    with serving(tasks, token=TOKEN) as url:
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.get(f"{url}/metadata").status_code == 401
        assert rpc(url, "openenv/session/create").status_code == 401
        assert rpc(url, "openenv/session/create", token="wrong").status_code == 401
        session = rpc(url, "openenv/session/create", token=TOKEN).json()["result"]["session_id"]
        with pytest.raises(InvalidStatus):
            asyncio.run(reset(url, session, {}))
        assert "instruction" in asyncio.run(reset(url, session, {"Authorization": f"Bearer {TOKEN}"}))
        told = rpc(url, "tools/call", session, name="bash", arguments={"command": "echo hi"}).json()
        assert told["result"]["result"] == "hi"
        assert rpc(url, "tools/list").status_code == 401
        assert rpc(url, "openenv/session/close", session).status_code == 401
        assert "error" in rpc(url, "tools/call", "another", name="bash", arguments={"command": "ls"}).json()


def test_a_client_that_says_nothing_loses_its_session(tasks, no_grading):
    async def play(url):
        async with connect(f"{url.replace('http', 'ws')}/ws") as socket:
            await socket.send('{"type": "reset", "data": {"index": 0}}')
            await socket.recv()
            assert active(url) == 1
            with pytest.raises(ConnectionClosed):
                async with asyncio.timeout(60):
                    await socket.recv()

    with serving(tasks, idle_s=3.0) as url:
        asyncio.run(play(url))
        assert eventually(lambda: active(url) == 0)


HOSTILE_CALLS = (
    '"\\ud800", "arguments": {}',
    '"bash", "arguments": {"command": "", "\\ud800": 1}',
    '"bash", "arguments": {"command": %s}' % ("[" * 100 + "]" * 100),
    '"read_file", "arguments": {"path": "a", "start": %s}' % ("9" * 4000),
    """"bash", "arguments": {"command": "printf '\\\\xff\\\\x00\\\\xed\\\\xa0'"}""",
)


def test_hostile_frames_are_answered_and_the_session_goes_on(tasks, no_grading):
    async def play(url):
        async with connect(f"{url.replace('http', 'ws')}/ws") as socket:
            await socket.send('{"type": "reset", "data": {"index": 0}}')
            await socket.recv()
            for call in (*HOSTILE_CALLS, '"bash", "arguments": {"command": "echo still"}'):
                await socket.send('{"type": "step", "data": {"type": "call_tool", "tool_name": ' + call + "}}")
                told = json.loads(await socket.recv())
                assert told["type"] == "observation", call
            assert told["data"]["observation"]["result"] == "still"

    with serving(tasks) as url:
        asyncio.run(play(url))


def test_a_long_step_is_not_silence(tasks, no_grading):
    async def play(url):
        async with CodeTaskClient(base_url=url) as client:
            await client.reset(index=0)
            assert (await client.call("bash", command="sleep 3; echo awake")).observation.result == "awake"
            assert (await client.call("bash", command="echo still")).observation.result == "still"

    with serving(tasks, idle_s=2.0) as url:
        asyncio.run(play(url))


def test_sessions_are_capped_and_places_come_back(tasks, no_grading):
    async def play(url):
        async with CodeTaskClient(base_url=url) as one, CodeTaskClient(base_url=url) as other:
            await one.reset(index=0)
            await other.reset(index=1)
            with pytest.raises(Exception, match=r"(?i)capacity"):
                async with CodeTaskClient(base_url=url) as third:
                    await third.reset(index=0)
        async with CodeTaskClient(base_url=url) as later:
            await later.reset(index=0)

    with serving(tasks, max_sessions=2) as url:
        asyncio.run(play(url))


def test_steps_and_time_of_a_session_are_limited(tasks, no_grading):
    async def play(url):
        async with CodeTaskClient(base_url=url) as client:
            await client.reset(index=0)
            assert not (await client.call("bash", command="true")).done
            last = await client.call("bash", command="true")
            assert (last.done, last.reward) == (True, 0.0)
            assert (await client.state()).ended == "steps"

    with serving(tasks, SessionLimits(steps=2)) as url:
        asyncio.run(play(url))


@pytest.mark.parametrize(
    "origin, status", [("https://example.com", 403), ("null", 403), ("http://localhost:3000", 200)]
)
def test_pages_of_other_origins_are_refused(tasks, origin, status):
    async def open_socket(url):
        async with connect(f"{url.replace('http', 'ws')}/ws", origin=origin):
            pass

    with serving(tasks) as url:
        assert httpx.get(f"{url}/metadata", headers={"Origin": origin}).status_code == status
        if status == 403:
            with pytest.raises(InvalidStatus):
                asyncio.run(open_socket(url))


def test_other_addresses_need_a_flag_and_a_token(tasks, monkeypatch):
    folder = tasks[0].folder
    with pytest.raises(UsageError, match="--public"):
        serve_command(folder, host="0.0.0.0")
    with pytest.raises(UsageError, match="token"):
        serve_command(folder, host="0.0.0.0", public=True)
    monkeypatch.setenv("RECOMPOSE_SERVE_TOKEN", "short")
    with pytest.raises(UsageError, match="16 characters"):
        serve_command(folder, host="0.0.0.0", public=True)
    with pytest.raises(UsageError, match="above 0"):
        serve_command(folder, max_sessions=0)
    with pytest.raises(UsageError, match="can be reached by others"):
        build_app(tasks, ServerSettings(host="192.0.2.1"))


def test_a_port_that_is_none_or_taken_is_refused_before_anything_is_announced(tasks, capsys):
    for port in (80000, -1):
        with pytest.raises(UsageError, match=f"--port {port} is no TCP port"):
            serve_command(tasks[0].folder, port=port)
    in_use = r"cannot listen at 127\.0\.0\.1:\d+: Address already in use; next: choose another --port"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match=in_use):
        serve_command(tasks[0].folder, port=taken.getsockname()[1])
    with pytest.raises(UsageError, match=r"cannot listen at 127\.9\.9\.9\.9"):
        listen(ServerSettings(host="127.9.9.9.9"))
    with pytest.raises(UsageError, match=r"cannot listen at 192\.0\.2\.1:0: Cannot assign requested address"):
        listen(ServerSettings(host="192.0.2.1", port=0))
    assert capsys.readouterr() == ("", "")


def test_the_announced_server_answers_at_once_and_ends_quietly_with_an_interrupt(tasks):
    command = [sys.executable, "-m", "composer_replication", "env", "serve", tasks[0].folder, "--port", "0", "--json"]
    # A suite in the background of a shell was told to ignore interrupts, and its children would inherit that.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        url = json.loads(server.stdout.readline())["url"]
        assert httpx.get(f"{url}/capacity", timeout=30).json()["active_sessions"] == 0
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=30) == ("", "")
        assert server.returncode == 0
    finally:
        server.kill()
