"""The ledger keeps every call; the client makes one attempt and says what came back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.errors import UsageError
from composer_replication.llm.client import MAX_RESPONSE_BYTES, Attempt, complete, open_client, require_loopback
from composer_replication.llm.ledger import Ledger, Settled

ANSWER = Settled('{"é": 1}', 120, 0.5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.sqlite"


def rows(path) -> dict[str, tuple]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT key, status, attempts, failure, cost_micros FROM calls").fetchall()
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return {key: rest for key, *rest in found}


def test_a_settled_call_is_there_after_reopening(path):
    ledger = Ledger(path)
    assert ledger.settled("k") is None
    ledger.reserve("k", "teacher")
    assert ledger.settled("k") is None
    ledger.settle("k", ANSWER)
    ledger.close()
    assert Ledger(path).settled("k") == ANSWER


def test_another_connection_sees_a_call_as_soon_as_it_is_settled(path):
    writer, reader = Ledger(path), Ledger(path)
    writer.reserve("k", "teacher")
    assert rows(path)["k"] == ["reserved", 1, None, 0]
    writer.settle("k", ANSWER)
    assert reader.settled("k") == ANSWER


def test_a_settled_call_is_never_reserved_failed_or_paid_again(path):
    ledger = Ledger(path)
    ledger.reserve("k", "teacher")
    ledger.settle("k", ANSWER)
    ledger.reserve("k", "teacher")
    ledger.fail("k", "late")
    ledger.settle("k", Settled("other", 999, 9.0))
    assert ledger.settled("k") == ANSWER
    assert ledger.spent_micros() == 120
    assert rows(path)["k"] == ["settled", 1, None, 120]


def test_a_failed_call_may_be_tried_again(path):
    ledger = Ledger(path)
    ledger.reserve("k", "teacher")
    ledger.fail("k", "HTTP 500")
    assert ledger.settled("k") is None
    assert rows(path)["k"] == ["failed", 1, "HTTP 500", 0]
    ledger.reserve("k", "teacher")
    ledger.settle("k", ANSWER)
    assert ledger.settled("k") == ANSWER
    assert rows(path)["k"] == ["settled", 2, None, 120]


def test_what_was_spent_is_the_sum_of_settled_calls(path):
    ledger = Ledger(path)
    assert ledger.spent_micros() == 0
    for key, cost in (("a", 1), ("b", 20), ("c", 300)):
        ledger.reserve(key, "teacher")
        ledger.settle(key, Settled("{}", cost, 0.1))
    ledger.reserve("d", "teacher")
    ledger.fail("d", "HTTP 500")
    ledger.reserve("e", "teacher")
    assert ledger.spent_micros() == 321


KILLED = """
import os, sys
from pathlib import Path
from composer_replication.llm.ledger import Ledger, Settled
ledger = Ledger(Path(sys.argv[1]))
ledger.reserve("paid", "teacher")
ledger.settle("paid", Settled("{}", 50, 0.1))
ledger.reserve("open", "teacher")
os._exit(9)
"""


def test_a_process_killed_between_reserve_and_settle_loses_nothing_settled(path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30).returncode == 9
    assert rows(path) == {"paid": ["settled", 1, None, 50], "open": ["reserved", 1, None, 0]}
    ledger = Ledger(path)
    assert ledger.settled("paid") == Settled("{}", 50, 0.1)
    assert ledger.settled("open") is None
    ledger.reserve("open", "teacher")
    ledger.settle("open", ANSWER)
    assert ledger.settled("open") == ANSWER
    assert ledger.spent_micros() == 170


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1", "http://LOCALHOST", "http://127.0.0.1:1/v1", "http://127.9.9.9", "http://[::1]/v1",
        "http://[::1]:8000",
    ],
)  # fmt: skip
def test_loopback_hosts_are_accepted(url):
    require_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1.example.com", "http://localhost.example.com", "http://10.0.0.1", "http://0.0.0.0",
        "https://example.com/127.0.0.1", "http://localhost@example.com", "http://127.0.0.1:80@example.com",
        "http://example.com#@127.0.0.1", "http://example.com?@localhost", "http://[2001:db8::1]", "http://192.168.0.1",
        "127.0.0.1:8000", "localhost", "http://", "",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(url):
    with pytest.raises(UsageError, match="is not on this machine") as caught:
        require_loopback(url)
    assert caught.value.exit_code == 2


def test_a_url_that_cannot_be_read_is_refused():
    with pytest.raises(UsageError):
        require_loopback("http://[::1")


PAYLOADS = {"large": b"x" * (MAX_RESPONSE_BYTES + 1), "full": b"x" * MAX_RESPONSE_BYTES, "bytes": b"\xff{}"}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        self.requests: list[tuple[str, dict]] = []
        self.release = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        case = self.path.split("/")[1]
        if case == "slow":
            self.server.release.wait(5)
        status = {"broken": 500, "refused": 429, "redirect": 307}.get(case, 200)
        payload = PAYLOADS.get(case, '{"é": 1}'.encode())
        self.send_response(status)
        if case == "redirect":
            self.send_header("Location", self.server.url("ok") + "/chat/completions")
        self.send_header("Content-Length", str(len(payload) + 9 * (case == "cut")))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(payload)

    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


def attempt(url: str, timeout_s: float = 5.0):
    async def ask():
        async with open_client(1, timeout_s) as client:
            return await complete(client, url, {"model": "m", "messages": []})

    return asyncio.run(ask())


def test_a_good_answer_is_returned_as_it_came(server):
    got = attempt(server.url("ok"))
    assert (got.body, got.failure) == ('{"é": 1}', None)
    assert got.latency_s > 0
    assert server.requests[-1] == ("/ok/chat/completions", {"model": "m", "messages": []})


def test_a_body_that_is_not_utf8_is_kept_readable(server):
    assert attempt(server.url("bytes")).body == "\ufffd{}"


@pytest.mark.parametrize(
    ("case", "failure"), [("broken", "HTTP 500"), ("refused", "HTTP 429"), ("redirect", "HTTP 307")]
)
def test_any_other_status_is_a_failure_and_no_retry(server, case, failure):
    before = len(server.requests)
    got = attempt(server.url(case))
    assert (got.body, got.failure) == (None, failure)
    assert [path for path, _ in server.requests[before:]] == [f"/{case}/chat/completions"]


def test_a_slow_server_times_out(server):
    started = time.monotonic()
    got = attempt(server.url("slow"), timeout_s=0.2)
    assert got.body is None
    assert "Timeout" in got.failure
    assert 0.1 < got.latency_s <= time.monotonic() - started < 3


def test_an_answer_that_is_too_large_is_not_kept(server):
    assert attempt(server.url("large"))[:2] == (None, "response too large")
    assert len(attempt(server.url("full")).body) == MAX_RESPONSE_BYTES


def test_a_broken_connection_is_a_failure(server):
    got = attempt(server.url("cut"))
    assert got.body is None
    assert got.failure


def test_a_server_that_is_not_there_is_a_failure():
    with Server() as gone:
        url = gone.url("ok")
    assert attempt(url).failure.startswith("ConnectError")


def test_the_client_never_asks_another_machine():
    with pytest.raises(UsageError):
        attempt("http://10.0.0.1/v1", timeout_s=0.1)


def test_proxies_of_the_environment_are_not_used(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert attempt(server.url("ok")).failure is None


@pytest.mark.parametrize("port", ["99999", "x"])
def test_an_impossible_port_is_a_failure(port):
    assert attempt(f"http://127.0.0.1:{port}").body is None


def test_a_request_with_a_secret_is_not_sent():
    """The second gate: whatever came past redaction stops here, before a socket is opened."""
    key = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 9 + "abcAA"
    request = {"model": "m", "messages": [{"role": "user", "content": f"use {key} please"}]}

    async def ask() -> Attempt:
        async with open_client(1, 5.0) as client:
            return await complete(client, "http://127.0.0.1:9/v1", request)

    attempt = asyncio.run(ask())
    assert attempt.body is None
    assert (attempt.failure or "").startswith("not sent: the request holds a secret")
    assert key not in (attempt.failure or "")
