"""The ledger keeps every attempt; the client makes one and says what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.errors import UsageError
from composer_replication.llm import transport as transport_module
from composer_replication.llm.addresses import PublicResolver, is_openrouter, require_allowed, require_loopback
from composer_replication.llm.client import Call, Endpoint, attempt
from composer_replication.llm.keys import ApiKey, key_from_environment
from composer_replication.llm.ledger import Ending, Ledger, Reservation, Settled
from composer_replication.llm.owners import is_alive, this_owner
from composer_replication.llm.pricing import Prices
from composer_replication.llm.transport import Ambiguous, HttpTransport, NotSent
from composer_replication.llm.writer import LedgerError
from composer_replication.records import Usage

GOOD = Ending("settled", 120, body='{"é": 1}'.encode(), latency_s=0.5)
ANSWER = Settled('{"é": 1}', 120, 0.5)
DEAD = "1:never"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.sqlite"


def rows(path) -> list[tuple]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return db.execute("SELECT key, state, cost_micros, exact, reason FROM attempts ORDER BY id").fetchall()


def reserved(ledger: Ledger, key: str = "k", worst: int = 0) -> int:
    reservation = ledger.reserve(key, "teacher", worst)
    assert reservation.status == "reserved"
    return reservation.attempt


def test_a_settled_call_is_there_after_reopening(path):
    ledger = Ledger(path)
    assert ledger.settled("k") is None
    number = reserved(ledger)
    assert ledger.settled("k") is None
    ledger.finish(number, GOOD)
    ledger.close()
    again = Ledger(path)
    assert again.settled("k") == ANSWER
    assert again.settled_keys() == {"k"}


def test_an_answer_is_found_by_an_index(path, monkeypatch):
    """A ledger of fifty thousand answers is read in seconds."""
    ledger, plans = Ledger(path), []
    fetch = ledger._fetch
    monkeypatch.setattr(
        ledger, "_fetch", lambda query, *args: plans.extend(fetch(f"EXPLAIN QUERY PLAN {query}", *args))
    )
    ledger.settled("k")
    assert plans
    assert not [plan for plan in plans if "SCAN" in plan[-1]]


def test_a_settled_call_is_never_reserved_or_changed_again(path):
    ledger = Ledger(path)
    number = reserved(ledger)
    ledger.finish(number, GOOD)
    ledger.finish(number, Ending("failed", 999, reason="late"))
    assert ledger.reserve("k", "teacher") == Reservation("settled")
    assert rows(path) == [("k", "settled", 120, 1, None)]
    assert ledger.spent_micros() == 120


def test_a_key_is_in_flight_once(path):
    first, second = Ledger(path), Ledger(path)
    number = reserved(first)
    assert second.reserve("k", "teacher").status == "busy"
    first.finish(number, Ending("refused", reason="HTTP 429"))
    assert second.reserve("k", "teacher").status == "reserved"


@pytest.mark.parametrize(
    ("ending", "charged", "exact"),
    [
        (Ending("failed", 70), 70, 1),
        (Ending("refused"), 0, 1),
        (Ending("in_doubt"), 500, 0),
        (Ending("settled", 500, exact=False, body=b"{}"), 500, 0),
    ],
)
def test_what_each_end_costs(path, ending, charged, exact):
    ledger = Ledger(path)
    ledger.set_cap(1000)
    number = reserved(ledger, worst=500)
    assert ledger.totals()[:2] == (0, 500)
    ledger.finish(number, ending)
    assert ledger.totals()[:2] == (charged, 0)
    assert rows(path)[0][1:4] == (ending.state, charged, exact)
    if ending.state != "settled":
        assert ledger.reserve("k", "teacher", 1).status == "reserved"


def test_a_reservation_that_could_pass_the_cap_is_refused(path):
    ledger, other = Ledger(path), Ledger(path)
    assert ledger.reserve("x", "teacher", 1).status == "over_cap"
    ledger.set_cap(1000)
    first, _ = reserved(ledger, "a", 400), reserved(other, "b", 600)
    assert other.reserve("c", "teacher", 1).status == "over_cap"
    assert other.reserve("free", "teacher", 0).status == "reserved"
    ledger.finish(first, Ending("settled", 100, body=b"{}"))
    assert other.reserve("c", "teacher", 301).status == "over_cap"
    assert other.reserve("c", "teacher", 300).status == "reserved"


def test_a_doubt_can_be_reconciled_once(path):
    ledger = Ledger(path)
    ledger.set_cap(1000)
    number = reserved(ledger, worst=500)
    ledger.finish(number, Ending("in_doubt", reason="timeout", generation="gen-1"))
    ledger.reconcile(number, 80)
    ledger.reconcile(number, 10)
    assert rows(path) == [("k", "failed", 80, 1, "timeout")]
    assert ledger.totals()[:2] == (80, 0)


KILLED = """
import os, sys
from pathlib import Path
from composer_replication.llm.ledger import Ending, Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.set_cap(1000)
ledger.finish(ledger.reserve("paid", "teacher", 60).attempt, Ending("settled", 50, body=b"{}"))
ledger.reserve("open", "teacher", 70)
os._exit(9)
"""


def test_what_a_killed_process_had_open_is_in_doubt_at_its_worst(path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30).returncode == 9
    assert rows(path)[1][1:3] == ("reserved", 0)
    ledger = Ledger(path)
    assert rows(path)[1] == ("open", "in_doubt", 70, 0, "the process ended")
    assert ledger.totals()[:2] == (120, 0)
    assert ledger.settled("paid") == Settled("{}", 50, 0.0)
    assert ledger.reserve("open", "teacher", 70).status == "reserved"


def test_an_attempt_that_was_taken_for_dead_can_still_be_settled(path):
    ledger = Ledger(path)
    ledger.set_cap(1000)
    number = reserved(ledger, worst=70)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE attempts SET owner = ?", (DEAD,))
        db.commit()
    other = Ledger(path)
    assert other.totals()[:2] == (70, 0)
    ledger.finish(number, Ending("settled", 50, body=b"{}"))
    assert other.totals()[:2] == (50, 0)
    assert other.settled("k") is not None


def test_of_two_late_results_one_is_kept_and_both_are_charged(path):
    ledger = Ledger(path)
    ledger.set_cap(1000)
    first = reserved(ledger, worst=70)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE attempts SET owner = ?", (DEAD,))
        db.commit()
    other = Ledger(path)
    other.finish(reserved(other, worst=70), Ending("settled", 40, body=b"second"))
    ledger.finish(first, Ending("settled", 50, body=b"first"))
    assert [row[1:3] for row in rows(path)] == [("failed", 50), ("settled", 40)]
    assert other.settled("k").body == "second"
    assert other.totals()[:2] == (90, 0)


def test_this_process_lives_and_another_of_its_number_does_not():
    assert is_alive(this_owner())
    assert not is_alive(f"{os.getpid()}:0")
    assert not is_alive(DEAD)


def test_three_kinds_of_useless_answers_poison_a_question(path):
    ledger = Ledger(path)
    for reason in ("bad JSON", "bad JSON", "empty choices"):
        ledger.finish(reserved(ledger), Ending("failed", reason=reason, unusable=True))
    ledger.finish(reserved(ledger), Ending("refused", reason="HTTP 429"))
    assert ledger.poisoned_keys() == set()
    ledger.finish(reserved(ledger), Ending("failed", reason="no message", unusable=True))
    assert ledger.poisoned_keys() == {"k"}


def test_closing_leaves_open_attempts_in_doubt(path):
    ledger = Ledger(path)
    ledger.set_cap(100)
    reserved(ledger, worst=70)
    ledger.close()
    assert rows(path) == [("k", "in_doubt", 70, 0, "left open")]


def test_a_ledger_of_the_first_version_keeps_its_settled_calls(path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE calls (key TEXT PRIMARY KEY, teacher TEXT NOT NULL, status TEXT NOT NULL, body TEXT, "
            "failure TEXT, cost_micros INTEGER NOT NULL DEFAULT 0, latency_s REAL, "
            "attempts INTEGER NOT NULL DEFAULT 0) STRICT"
        )
        values = [("a", "settled", '{"é": 1}', 120, 0.5), ("b", "failed", None, 0, None)]
        db.executemany("INSERT INTO calls VALUES (?1, 't', ?2, ?3, NULL, ?4, ?5, 1)", values)
        db.commit()
    ledger = Ledger(path)
    assert ledger.settled("a") == ANSWER
    assert ledger.settled_keys() == {"a"}
    assert ledger.spent_micros() == 120


def test_many_threads_share_one_writer(path):
    ledger = Ledger(path)

    def work(number: int) -> None:
        for one in range(20):
            ledger.finish(reserved(ledger, f"{number}-{one}"), Ending("settled", 1, body=b"{}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spent_micros() == 160


def test_a_file_that_is_no_ledger_is_an_error_one_can_act_on(path):
    path.parent.mkdir()
    path.write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(path)


LOOPBACK = [
    "http://localhost:8000/v1",
    "http://LOCALHOST",
    "http://127.0.0.1:1/v1",
    "http://127.9.9.9",
    "http://[::1]/v1",
]
ELSEWHERE = [
    "http://127.0.0.1.example.com", "http://localhost.example.com", "http://10.0.0.1", "http://0.0.0.0",
    "https://example.com/127.0.0.1", "http://localhost@example.com", "http://127.0.0.1:80@example.com",
    "http://example.com#@127.0.0.1", "http://example.com?@localhost", "http://[2001:db8::1]", "http://192.168.0.1",
    "127.0.0.1:8000", "localhost", "http://", "", "http://[::1",
]  # fmt: skip


@pytest.mark.parametrize("url", LOOPBACK)
def test_loopback_hosts_are_accepted(url):
    require_loopback(url)
    require_allowed(url)


@pytest.mark.parametrize("url", ELSEWHERE)
def test_other_hosts_are_not_this_machine(url):
    with pytest.raises(UsageError, match="is not on this machine") as caught:
        require_loopback(url)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "url",
    [
        *(url for url in ELSEWHERE if url != "https://example.com/127.0.0.1"), "https://10.1.2.3/v1", "https://[fd00::1]",
        "https://169.254.169.254/latest", "https://user:word@example.com/v1", "ftp://example.com", "https://example.com:99999",
        "https://example.com/v1?x=1",
    ],
)  # fmt: skip
def test_where_nothing_is_ever_sent(url):
    with pytest.raises(UsageError):
        require_allowed(url)


def test_public_hosts_need_https():
    require_allowed("https://openrouter.ai/api/v1")
    assert is_openrouter("https://openrouter.ai/api/v1")
    assert not is_openrouter("https://openrouter.ai.example.com/api/v1")


@pytest.mark.parametrize(
    ("host", "address", "good"),
    [
        ("llm.example", "93.184.216.34", True), ("llm.example", "10.0.0.7", False), ("llm.example", "127.0.0.1", False),
        ("llm.example", "169.254.169.254", False), ("llm.example", "::1", False), ("localhost", "127.0.0.1", True),
        ("localhost", "93.184.216.34", False),
    ],
)  # fmt: skip
def test_names_are_checked_after_they_are_resolved(host, address, good, monkeypatch):
    async def ask() -> list:
        resolver = PublicResolver()

        async def found(*args):
            return [{"host": address}]

        monkeypatch.setattr(resolver._resolver, "resolve", found)
        return await resolver.resolve(host, 443)

    if good:
        assert asyncio.run(ask()) == [{"host": address}]
    else:
        with pytest.raises(OSError, match="private address"):
            asyncio.run(ask())


def test_a_key_cannot_be_seen(monkeypatch):
    monkeypatch.setenv("SOME_KEY", " secret-value \n")
    key = key_from_environment("SOME_KEY")
    assert key.header() == "Bearer secret-value"
    for text in (repr(key), str(key), f"{key}", f"{key!r:>9}", repr(Endpoint("m", "u", None, key)), repr([key])):
        assert "secret" not in text
    for spill in (pickle.dumps, json.dumps):
        with pytest.raises(TypeError):
            spill(key)
    assert key_from_environment(None) is None
    for bad in ("", "two\nlines", "é"):
        monkeypatch.setenv("SOME_KEY", bad)
        with pytest.raises(UsageError, match="SOME_KEY holds no API key"):
            key_from_environment("SOME_KEY")


LIMIT = 1 << 16
PAYLOADS = {"large": b"x" * (LIMIT + 1), "full": b"x" * LIMIT, "bytes": b"\xff{}"}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        self.requests: list[tuple[str, dict, dict]] = []
        self.release = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, dict(self.headers)))
        case = self.path.split("/")[1]
        if case == "slow":
            self.server.release.wait(5)
        status = {"broken": 500, "refused": 429, "redirect": 307}.get(case, 200)
        payload = PAYLOADS.get(case, '{"é": 1, "choices": [{"message": {"content": "x"}}]}'.encode())
        self.send_response(status)
        if case == "redirect":
            self.send_header("Location", self.server.url("ok") + "/chat/completions")
        self.send_header("X-Generation-Id", "gen-7")
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


def post(url: str, timeout_s: float = 5.0, key: ApiKey | None = None):
    async def ask():
        async with HttpTransport(timeout_s) as transport:
            return await transport.post(f"{url}/chat/completions", b'{"model": "m"}', key)

    return asyncio.run(ask())


def test_one_request_and_its_answer(server):
    got = post(server.url("ok"), key=ApiKey("abc"))
    assert (got.status, got.generation) == (200, "gen-7")
    assert json.loads(got.body)["é"] == 1
    path, body, headers = server.requests[-1]
    assert (path, body) == ("/ok/chat/completions", {"model": "m"})
    assert (headers["Authorization"], headers["Accept-Encoding"]) == ("Bearer abc", "identity")
    post(server.url("ok"))
    assert "Authorization" not in server.requests[-1][2]


@pytest.mark.parametrize(("case", "status"), [("broken", 500), ("refused", 429), ("redirect", 307)])
def test_any_other_status_is_told_and_nothing_is_tried_again(server, case, status):
    before = len(server.requests)
    assert post(server.url(case)).status == status
    assert [path for path, _, _ in server.requests[before:]] == [f"/{case}/chat/completions"]


def test_a_slow_server_times_out(server):
    started = time.monotonic()
    with pytest.raises(Ambiguous, match="timeout"):
        post(server.url("slow"), timeout_s=0.2)
    assert time.monotonic() - started < 3


def test_an_answer_that_is_too_large_is_not_kept(server, monkeypatch):
    monkeypatch.setattr(transport_module, "MAX_RESPONSE_BYTES", LIMIT)
    assert len(post(server.url("full")).body) == LIMIT
    with pytest.raises(Ambiguous, match="response too large") as caught:
        post(server.url("large"))
    assert caught.value.generation == "gen-7"


def test_a_broken_connection_may_have_been_paid(server):
    with pytest.raises(Ambiguous, match="connection broke"):
        post(server.url("cut"))


def test_a_server_that_is_not_there_was_not_paid():
    with Server() as gone:
        url = gone.url("ok")
    with pytest.raises(NotSent, match="ClientConnectorError"):
        post(url)


def test_proxies_of_the_environment_are_not_used(server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert post(server.url("ok")).status == 200


def test_a_request_with_a_secret_is_not_sent(server, path):
    """The second gate: whatever came past redaction stops here, before a socket is opened."""
    key = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 9 + "abcAA"
    request = {"model": "m", "messages": [{"role": "user", "content": f"use {key} please"}]}
    before, ledger = len(server.requests), Ledger(path)

    async def ask():
        async with HttpTransport(5.0) as transport:
            endpoint = Endpoint("m", server.url("ok"), Prices(0, 0))
            return await attempt(Call("k", 100, 10, lambda: request), endpoint, ledger, transport)

    got = asyncio.run(ask())
    assert got.action == "retry_never"
    assert (got.verdict.reason or "").startswith("not sent: the request holds a secret")
    assert key not in (got.verdict.reason or "")
    assert len(server.requests) == before
    assert [row[1:3] for row in rows(path)] == [("refused", 0)]


def test_an_attempt_from_reservation_to_settlement(server, path):
    ledger = Ledger(path)
    ledger.set_cap(10_000)
    request = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}

    async def ask(case: str):
        async with HttpTransport(5.0) as transport:
            endpoint = Endpoint("m", server.url(case), Prices(1_000_000, 0))
            return await attempt(Call("k", 100, 10, lambda: request), endpoint, ledger, transport)

    worst = 100 + 1024
    assert asyncio.run(ask("broken")).action == "retry_soon"
    assert rows(path)[-1] == ("k", "in_doubt", worst, 0, "HTTP 500")
    assert asyncio.run(ask("refused")).action == "retry_soon"
    assert rows(path)[-1] == ("k", "refused", 0, 1, "HTTP 429")
    assert asyncio.run(ask("redirect")).action == "retry_never"
    done = asyncio.run(ask("ok"))
    assert (done.action, done.charge.exact, done.charge.usage) == ("done", False, Usage())
    assert rows(path)[-1] == ("k", "settled", worst, 0, None)
    assert asyncio.run(ask("ok")).action == "done"
    assert len(rows(path)) == 4
