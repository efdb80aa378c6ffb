"""The server under load: many sessions at once, and many clients that connect and say nothing.

Small by default; `RECOMPOSE_FAULTS=full` opens 64 sessions with real grading, and 1,000 half-open clients.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import time

import httpx
import pytest
from websockets.asyncio.client import connect

from composer_replication.environments.code.episodes import session as session_module
from composer_replication.environments.code.serving.openenv_client import CodeTaskClient
from composer_replication.environments.code.tasks.task import Grade
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task
from tests.unit.test_openenv import active, eventually, serving

FULL = os.environ.get("RECOMPOSE_FAULTS") == "full"
SESSIONS, HALF_OPEN = (64, 1000) if FULL else (12, 60)
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
FIRST_BYTES = {
    "nothing": b"",
    "half a request": b"GET /ws HTTP/1.1\r\nHost: 127.0",
    "a body that never comes": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    "a socket": UPGRADE,
    "half a frame": UPGRADE + b"\x81",
    "a frame of which the rest is missing": UPGRADE + b"\x81\xfe\x01\x00\x00\x00\x00\x00{",
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("load") / "task")


@pytest.fixture
def light(monkeypatch):
    """Grading costs two runs of pytest; the full size does it for real."""
    if not FULL:
        monkeypatch.setattr(
            session_module, "_grade", lambda task, given, backend: Grade(float(SPANS in given.written), (), (), ())
        )


async def play(url, number, everyone_is_in):
    """Half of them solve the task; each leaves marks and looks for those of others."""
    solves = number % 2 == 0
    async with CodeTaskClient(base_url=url, message_timeout_s=600) as client:
        began = await client.reset(index=0)
        mark = f"mark-{number}-end"
        await client.call("bash", command=f"echo {mark} | tee mark.txt /tmp/mark.txt > {mark}")
        await everyone_is_in.wait()
        seen = (await client.call("bash", command="cat mark.txt /tmp/mark.txt; ls; ls /tmp; ps ax")).observation.result
        if solves:
            await client.call("write_file", path=SPANS, content=SPANS_GOLD)
        state = await client.state()
        last = await client.call("submit")
        return number, seen, state.episode_id, state.step_count, last.done, last.reward, began.observation.task_id


def test_many_sessions_at_once_do_not_mix(task, light):
    async def play_all(url):
        barrier = asyncio.Barrier(SESSIONS)
        began = time.monotonic()
        results = await asyncio.gather(*(play(url, number, barrier) for number in range(SESSIONS)))
        return results, time.monotonic() - began

    with serving([task], max_sessions=SESSIONS) as url:
        results, seconds = asyncio.run(play_all(url))
        assert eventually(lambda: active(url) == 0)
    print(f"{SESSIONS} sessions in {seconds:.1f} s")
    for number, seen, _, steps, done, reward, _ in results:
        assert seen.count(f"mark-{number}-end") == 3
        assert sum(f"mark-{other}-end" in seen for other in range(SESSIONS)) == 1
        assert (done, reward, steps) == (True, float(number % 2 == 0), 3 if number % 2 == 0 else 2)
    assert len({episode for _, _, episode, *_ in results}) == SESSIONS


def half_open(port, first_bytes):
    """The socket is kept, so that the client does not hang up."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(first_bytes)
    return client


def hung_up(client):
    """Whether the server has closed the connection."""
    client.settimeout(0.01)
    try:
        while True:
            if not client.recv(4096):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_places_of_silent_clients_come_back(task, light, many_files):
    async def solve(url):
        return await play(url, 0, asyncio.Barrier(1))

    kinds = list(FIRST_BYTES.values())
    with serving([task], max_sessions=4, idle_s=4.0, hello_s=4.0) as url:
        port = int(url.rpartition(":")[2])
        clients = [half_open(port, UPGRADE) for _ in range(4)]
        try:
            assert eventually(lambda: active(url) == 4), "silent sockets hold places, or this test shows nothing"
            clients += [half_open(port, kinds[number % len(kinds)]) for number in range(HALF_OPEN)]
            last = time.monotonic()
            assert eventually(lambda: active(url) == 0, seconds=60)
            recovered_s = time.monotonic() - last
            assert asyncio.run(solve(url))[5] == 1.0
            assert eventually(lambda: all(map(hung_up, clients)), seconds=60)
            assert active(url) == 0
        finally:
            for client in clients:
                client.close()
        print(f"{HALF_OPEN} half-open clients; all places free {recovered_s:.1f} s after the last")


def test_clients_that_vanish_in_the_middle_leave_nothing(task, light, tmp_path):
    async def vanish(url, count):
        sockets = [await connect(f"{url.replace('http', 'ws')}/ws") for _ in range(count)]
        for each in sockets:
            await each.send('{"type": "reset", "data": {"index": 0}}')
        for each in sockets:
            await each.recv()
            await each.send('{"type": "step", "data": {"type": "call_tool", "tool_name": "bash", '
                            '"arguments": {"command": "sleep 1"}}}')  # fmt: skip
        for each in sockets:
            raw = each.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.transport.abort()

    with serving([task], max_sessions=6) as url:
        asyncio.run(vanish(url, 6))
        assert eventually(lambda: active(url) == 0, seconds=30)
        assert httpx.get(f"{url}/health").status_code == 200


def test_a_session_that_was_taken_away_cannot_open_another_sandbox(task, light, monkeypatch):
    """OpenEnv's own timer ends sessions behind their socket's back; the socket may speak again later."""
    from openenv.core.env_server import http_server

    reap = http_server.HTTPEnvServer._reap_idle_sessions
    servers = []
    monkeypatch.setattr(
        http_server.HTTPEnvServer, "_reap_idle_sessions", lambda self: servers.append(self) or reap(self)
    )

    async def play_on(url):
        async with connect(f"{url.replace('http', 'ws')}/ws") as ws:
            await ws.send('{"type": "reset", "data": {"index": 0}}')
            await ws.recv()
            (session,) = servers[0]._sessions
            taken = servers[0]._destroy_session(session)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(taken, servers[0]._reaper_task.get_loop()))
            assert active(url) == 0
            await ws.send('{"type": "reset", "data": {"index": 0}}')
            return await ws.recv()

    with serving([task]) as url:
        assert "this session has ended" in asyncio.run(play_on(url))
