"""Where requests may go, what never shows, and what one attempt sends, gets and writes down."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from composer_replication.errors import UsageError
from composer_replication.llm import transport as transport_module
from composer_replication.llm.addresses import PublicResolver, is_openrouter, require_allowed, require_loopback
from composer_replication.llm.calls import Calls
from composer_replication.llm.chat import ChatFailure
from composer_replication.llm.chat_client import LedgerChatClient
from composer_replication.llm.client import Endpoint, PaidCall, attempt
from composer_replication.llm.keys import ApiKey, key_from_environment
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ending, Ledger, Totals
from composer_replication.llm.pricing import Charge, Prices, dollars
from composer_replication.llm.transport import Ambiguous, HttpTransport, NotSent
from composer_replication.records import Usage
from tests.unit.test_llm_ledger import rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.sqlite"


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
    assert key.headers() == {"Authorization": "Bearer secret-value"}
    assert key_from_environment("SOME_KEY", "x-api-key").headers() == {"x-api-key": "secret-value"}
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
FULL, LARGE = b"x" * LIMIT, b"x" * (LIMIT + 1)
PAYLOADS = {"large": LARGE, "full": FULL, "bytes": b"\xff{}", "unsized-full": FULL, "unsized-large": LARGE}


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
        if not case.startswith("unsized"):
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


@pytest.mark.parametrize("told", ["", "unsized-"])
def test_an_answer_that_is_too_large_is_not_kept(server, monkeypatch, told):
    monkeypatch.setattr(transport_module, "MAX_RESPONSE_BYTES", LIMIT)
    assert len(post(server.url(f"{told}full")).body) == LIMIT
    with pytest.raises(Ambiguous, match="response too large") as caught:
        post(server.url(f"{told}large"))
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
            return await attempt(PaidCall("k", 100, 10, lambda: request), endpoint, ledger, transport)

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
            return await attempt(PaidCall("k", 100, 10, lambda: request), endpoint, ledger, transport)

    worst = 100 + 1024
    assert asyncio.run(ask("broken")).action == "retry_soon"
    assert rows(path)[-1] == ("k", "in_doubt", worst, 0, "HTTP 500")
    assert asyncio.run(ask("refused")).action == "retry_soon"
    assert rows(path)[-1] == ("k", "refused", 0, 1, "HTTP 429")
    assert asyncio.run(ask("redirect")).action == "retry_never"
    broken = asyncio.run(ask("cut"))
    assert (broken.action, broken.charge) == ("retry_soon", Charge(worst, False, Usage()))
    assert rows(path)[-1] == ("k", "in_doubt", worst, 0, "connection broke: ClientPayloadError")
    assert ledger.rows("SELECT generation FROM attempts ORDER BY id DESC LIMIT 1") == [("gen-7",)]
    done = asyncio.run(ask("ok"))
    assert (done.action, done.charge.exact, done.charge.usage) == ("done", False, Usage())
    assert rows(path)[-1] == ("k", "settled", worst, 0, None)
    assert asyncio.run(ask("ok")).action == "done"
    assert len(rows(path)) == 5


def test_an_attempt_that_is_cancelled_is_in_doubt_at_its_worst(server, path):
    ledger = Ledger(path)
    ledger.set_cap(10_000)

    async def ask():
        async with HttpTransport(5.0) as transport:
            call = PaidCall("k", 100, 10, lambda: {"model": "m"})
            await attempt(call, Endpoint("m", server.url("slow"), Prices(1_000_000, 0)), ledger, transport)

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(ask(), 0.3))
    assert rows(path) == [("k", "in_doubt", 100 + 1024, 0, "cancelled")]
    assert ledger.totals()[:2] == (100 + 1024, 0)


def test_a_call_of_a_process_that_died_meanwhile_is_taken_over(server, path):
    ledger = Ledger(path)
    ledger.reserve("k", "m")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE attempts SET owner = 'dead'")
    lane = Lane(Endpoint("m", server.url("ok")), 1)
    lane.add([PaidCall("k", 100, 10, lambda: {"model": "m"})])

    async def ask():
        async with HttpTransport(5.0) as transport:
            calls = Calls([lane], ledger, transport, 1, lambda live: None)
            await asyncio.wait_for(calls.run(), 5)
            return calls.live

    live = asyncio.run(ask())
    assert (live.done, live.failed, live.attempts) == (1, 0, 1)
    assert [row[1] for row in rows(path)] == ["in_doubt", "settled"]


def test_a_cap_of_less_than_a_cent_is_told_as_it_is():
    assert "the cap of $0.0015 leaves no room" in str(Totals(0, 0, 1_500).no_room("call"))
    assert [dollars(micros) for micros in (0, 50_000, 1_500_000, 5_000_000_000, 1, 12_345)] == [
        "$0.00", "$0.05", "$1.50", "$5,000.00", "$0.000001", "$0.012345",
    ]  # fmt: skip


@pytest.mark.parametrize("prices", [Prices(1_000_000_000, 0), Prices(0, 0)])
def test_a_cap_without_room_stops_what_costs_and_says_what_was_spent(server, path, prices):
    ledger = Ledger(path)
    ledger.set_cap(1_500_000)
    ledger.finish(ledger.reserve("paid", "m", 600_000).attempt, Ending("settled", 600_000, body=b"{}"))
    lane = Lane(Endpoint("m", server.url("ok"), prices), 1)
    lane.add([PaidCall("k", 100, 10, lambda: {"model": "m"})])

    async def ask():
        async with HttpTransport(5.0) as transport:
            calls = Calls([lane], ledger, transport, 1, lambda live: None)
            await calls.run()
            return calls

    calls = asyncio.run(ask())
    if prices.prompt_micros:
        assert "cap of $1.50 leaves no room" in str(calls.error) and "; $0.600000 is charged" in str(calls.error)
    assert (calls.error is None, calls.live.done) == ((False, 0) if prices.prompt_micros else (True, 1))


def test_a_judges_request_with_a_secret_or_without_a_server_fails_and_costs_nothing(server, path):
    key = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 9 + "abcAA"
    before, ledger = len(server.requests), Ledger(path)
    with pytest.raises(ChatFailure, match="the request holds a secret") as caught:
        LedgerChatClient(server.url("ok"), ledger, 5.0)({"model": "m", "messages": [{"content": key}]}, "k")
    assert key not in str(caught.value)
    with Server() as gone:
        url = gone.url("ok")
    with pytest.raises(ChatFailure, match="ClientConnectorError"):
        LedgerChatClient(url, ledger, 5.0)({"model": "m"}, "k")
    with pytest.raises(ChatFailure, match="HTTP 429"):
        LedgerChatClient(server.url("refused"), ledger, 5.0)({"model": "m"}, "k")
    assert [row[1:4] for row in rows(path)] == [("refused", 0, 1)] * 3
    assert len(server.requests) == before + 1
