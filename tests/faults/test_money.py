"""Money under faults: every call ends, the ledger never says less than the bill, no cap is passed, no answer is lost.

`RECOMPOSE_FAULTS=full` (`make faults`) does it at the size of the published figures; `make test` at a small one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.llm.calls import Calls
from composer_replication.llm.client import Endpoint
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import Prices, worst_micros
from composer_replication.llm.reconcile import note_usage, reconcile
from composer_replication.llm.transport import HttpTransport, Response
from tests.faults.fault_server import FAULTS, NOT_BUSY, serving
from tests.faults.money_client import MAX_TOKENS, ask, call

FULL = os.environ.get("RECOMPOSE_FAULTS") == "full"
ROOT = Path(__file__).parents[2]


def query(path: Path, text: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(text).fetchall()


def check_books(path: Path) -> None:
    """The file is whole, its totals are the sums of its rows, and no key has two results."""
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    held = "COALESCE(SUM(CASE state WHEN 'reserved' THEN worst_micros END), 0)"
    sums = query(path, f"SELECT COALESCE(SUM(cost_micros), 0), {held} FROM attempts")
    assert query(path, "SELECT charged_micros, held_micros FROM totals") == sums
    assert query(path, "SELECT key FROM attempts WHERE state = 'settled' GROUP BY key HAVING COUNT(*) > 1") == []
    assert (
        query(path, "SELECT id FROM attempts WHERE state = 'settled' AND id NOT IN (SELECT attempt FROM bodies)") == []
    )


def charged(path: Path) -> Counter[str]:
    return Counter(dict(query(path, "SELECT key, SUM(cost_micros) FROM attempts GROUP BY key")))


def start(path: Path, base_url: str, *options: object, before: tuple[str, ...] = ()) -> subprocess.Popen:
    command = [*before, sys.executable, "-m", "tests.faults.money_client", path, base_url, *options]
    return subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(process: subprocess.Popen, timeout_s: float = 400) -> dict:
    out, err = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("rate_limits", [True, False] if FULL else [True])
def test_every_call_ends_and_the_ledger_agrees_with_the_bill(tmp_path, rate_limits):
    """A fifth of all requests goes wrong, in 34 ways. Rate limits slow us down; without them all places are taken."""
    path, number, at_a_time = tmp_path / "ledger.sqlite", *((10_000, 256) if FULL else (600, 64))
    only, latency_s = (FAULTS, 0.02) if rate_limits else (NOT_BUSY, 0.3)
    with serving(seed=1, rate=0.2, latency_s=latency_s, only=only) as provider:
        started = time.monotonic()
        Ledger(path).remember_teacher("m", provider.base_url, None)
        note_start(path, provider.base_url)
        client = start(path, provider.base_url, "--questions", number, "--concurrency", at_a_time, "--timeout", 2)
        ended = result(client)
        seconds = time.monotonic() - started
        books = provider.books()
        assert rate_limits or books["most_in_flight"] > 0.9 * at_a_time
        assert ended["done"] + ended["failed"] == number
        assert ended["done"] >= 0.999 * number
        assert ended["grown_bytes"] < 150 << 20
        assert open_attempts(path) == 0
        assert query(path, "SELECT COUNT(*) FROM attempts") == [(books["requests"],)]
        check_books(path)
        bill = {key: sum(costs) for key, costs in books["bill"].items()}
        exact = query(path, "SELECT key, SUM(cost_micros) FROM attempts GROUP BY key HAVING MIN(exact)")
        assert len(exact) > number / 2
        assert [key for key, micros in exact if bill.get(key, 0) != micros] == []
        told = charged(path)
        assert [key for key, micros in bill.items() if told[key] < micros] == []
        before = sum(told.values())
        ledger = Ledger(path)
        looked_up = reconcile(ledger)
        by_generation = ledger.spent_micros()
        reconcile(ledger, by_key_usage=True)
        assert before > by_generation > books["total"]
        assert ledger.spent_micros() == books["total"]
        ledger.close()
        check_books(path)
    print(
        f"\n{number} calls, {at_a_time} at a time: {seconds:.0f} s, {ended}, {books['requests']} requests, at most "
        f"{books['most_in_flight']} in flight; bill {books['total']}, ledger {before}, {by_generation} after "
        f"{looked_up} look-ups"
    )


def note_start(path: Path, base_url: str) -> None:
    async def note() -> None:
        async with HttpTransport(5) as transport:
            await note_usage(Ledger(path), transport, base_url, None)

    asyncio.run(note())


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path):
    """kill -9 at random points. What was told is there; what was billed twice was in flight."""
    kills, at_a_time = (200, 32) if FULL else (3, 32)
    path, told, rng = tmp_path / "ledger.sqlite", tmp_path / "told", random.Random(0)
    faults = ("429 now",)
    questions = kills * 120
    options = ("--questions", questions, "--concurrency", at_a_time, "--told", told)
    worst_extra = left_open = 0
    with serving(seed=2, rate=0.1, latency_s=0.1, only=faults) as provider:
        extra_before = 0
        for _ in range(kills):
            before = provider.books()["requests"]
            client = start(path, provider.base_url, *options)
            assert client.stdout.readline() == "ready\n"
            wait_for(lambda before=before: provider.books()["requests"] > before)
            left_open += kill_with_calls_in_flight(client, path, rng)
            check_kill(path, told)
            extra = sum(len(costs) - 1 for costs in provider.books()["bill"].values())
            worst_extra, extra_before = max(worst_extra, extra - extra_before), extra
        ended = result(start(path, provider.base_url, *options))
        books = provider.books()
    check_kill(path, told)
    check_books(path)
    extra = sum(len(costs) - 1 for costs in books["bill"].values())
    assert ended["failed"] == 0
    assert query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'settled'") == [(questions,)]
    # A second payment shows when the call is made again, which may be after the next kill.
    assert extra <= kills * at_a_time
    assert worst_extra <= 2 * at_a_time
    ledger = charged(path)
    assert [key for key, costs in books["bill"].items() if ledger[key] < sum(costs)] == []
    doubts = query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'in_doubt'")[0][0]
    assert doubts == left_open >= kills
    print(
        f"\n{kills} kills, {questions} calls: {extra} billed twice ({extra / kills:.1f} a kill, bound {at_a_time}), "
        f"{doubts} in doubt, ledger {sum(ledger.values())} >= bill {books['total']}"
    )


def kill_with_calls_in_flight(client: subprocess.Popen, path: Path, rng: random.Random) -> int:
    """How many it left open. A lane that waits out a 429 has none for a moment: that moment would test nothing."""
    while client.poll() is None:
        time.sleep(rng.uniform(0.0, 0.35))
        client.send_signal(signal.SIGSTOP)
        client.send_signal(signal.SIGKILL if open_attempts(path) else signal.SIGCONT)
    client.communicate(timeout=30)
    return open_attempts(path)


def open_attempts(path: Path) -> int:
    return query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'reserved'")[0][0]


def check_kill(path: Path, told: Path) -> None:
    said = {int(line) for line in told.read_text().split()} if told.exists() else set()
    kept = {attempt for (attempt,) in query(path, "SELECT id FROM attempts WHERE state = 'settled'")}
    assert said <= kept
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("processes", [2, 8] if FULL else [2])
def test_processes_share_a_run_and_its_cap(tmp_path, processes):
    path, number = tmp_path / "ledger.sqlite", 4000 if FULL else 300
    cap = number * 100
    options = ("--questions", number, "--concurrency", 16, "--cap", cap, "--timeout", 5)
    with serving(seed=3, rate=0.1, latency_s=0.01, only=("429 now", "503", "empty choices", "reset")) as provider:
        clients = [start(path, provider.base_url, *options) for _ in range(processes)]
        ended = [result(client) for client in clients]
        books = provider.books()
    check_books(path)
    assert {end["error"] for end in ended} <= {None, "BudgetError"}
    assert books["total"] <= sum(charged(path).values()) <= cap
    assert sum(charged(path).values()) > cap - 1400 * 16 * processes
    more_than_once = {key for key, costs in books["bill"].items() if len(costs) > 1}
    explained = {key for (key,) in query(path, "SELECT key FROM attempts WHERE state IN ('failed', 'in_doubt')")}
    assert more_than_once <= explained
    owners = query(path, "SELECT owner, COUNT(*) FROM attempts GROUP BY owner")
    print(
        f"\n{processes} processes: {sorted(count for _, count in owners)} attempts, bill {books['total']} of cap {cap}"
    )


def test_a_process_takes_over_from_one_that_was_killed(tmp_path):
    path = tmp_path / "ledger.sqlite"
    options = ("--questions", 400, "--concurrency", 16)
    with serving(latency_s=0.05) as provider:
        first, second = (start(path, provider.base_url, *options) for _ in range(2))
        assert [first.stdout.readline(), second.stdout.readline()] == ["ready\n"] * 2
        time.sleep(0.3)
        first.kill()
        first.communicate(timeout=30)
        ended = result(second)
        books = provider.books()
    check_books(path)
    assert ended["failed"] == 0
    assert query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'settled'") == [(400,)]
    assert sum(len(costs) - 1 for costs in books["bill"].values()) <= 16
    assert sum(charged(path).values()) >= books["total"]


CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Process ids of its own, as in a container: number 1 is the client."""


def has_containers() -> bool:
    return bool(shutil.which("unshare")) and not subprocess.run([*CONTAINER, "true"], check=False).returncode


@pytest.mark.skipif(not has_containers(), reason="this machine does not allow `unshare --pid`")
def test_two_containers_share_a_run_and_its_cap(tmp_path):
    """Neither sees the other's processes, and neither takes the other for dead."""
    path, number = tmp_path / "ledger.sqlite", 4000 if FULL else 300
    options = ("--questions", number, "--concurrency", 16, "--cap", 10**9)
    with serving(latency_s=0.05) as provider:
        clients = [start(path, provider.base_url, *options, before=CONTAINER) for _ in range(2)]
        ended = [result(client) for client in clients]
        books = provider.books()
    check_books(path)
    assert [end["error"] for end in ended] == [None, None]
    states = query(path, "SELECT state, COUNT(*) FROM attempts GROUP BY state")
    assert states == [("settled", number)]
    owners = query(path, "SELECT COUNT(*) FROM attempts GROUP BY owner")
    assert len(owners) == 2, "both worked"
    assert {len(costs) for costs in books["bill"].values()} == {1}
    assert sum(charged(path).values()) == books["total"]
    print(f"\n2 containers: {sorted(count for (count,) in owners)} of {number} questions, each billed once")


@pytest.mark.skipif(not has_containers(), reason="this machine does not allow `unshare --pid`")
def test_a_container_takes_over_from_one_that_was_killed(tmp_path):
    path, options = tmp_path / "ledger.sqlite", ("--questions", 160, "--concurrency", 16)
    with serving(latency_s=0.3) as provider:
        first, second = (start(path, provider.base_url, *options, before=CONTAINER) for _ in range(2))
        assert [first.stdout.readline(), second.stdout.readline()] == ["ready\n"] * 2
        wait_for(lambda: len(query(path, "SELECT DISTINCT owner FROM attempts WHERE state = 'reserved'")) == 2)
        first.kill()
        first.communicate(timeout=30)
        ended = result(second)
        books = provider.books()
    check_books(path)
    assert ended["failed"] == 0
    assert query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'settled'") == [(160,)]
    assert 1 <= query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'in_doubt'")[0][0] <= 16
    assert sum(len(costs) - 1 for costs in books["bill"].values()) <= 16
    assert sum(charged(path).values()) >= books["total"]


class Shop:
    """A transport without a network: each answer costs what the case says."""

    def __init__(self, costs: list[int], seed: int) -> None:
        self.costs, self.rng = itertools.cycle(costs), random.Random(seed)
        self.bill: list[int] = []

    async def post(self, url, body, key, headers=None) -> Response:
        micros = next(self.costs)
        self.bill.append(micros)
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
        usage = {"prompt_tokens": 40, "completion_tokens": 12, "cost": micros / 1e6}
        return Response(200, orjson.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage}))

    async def get(self, url, key, headers=None) -> Response:
        raise AssertionError


cases = itertools.count()


@settings(max_examples=1000 if FULL else 25)
@given(
    cap=st.integers(0, 2_000_000),
    prices=st.tuples(st.integers(0, 30_000_000), st.integers(1, 120_000_000)),
    at_a_time=st.integers(1, 512),
    number=st.integers(1, 120),
    noise=st.floats(0, 1.3),
    seed=st.integers(0, 1 << 30),
)
def test_no_cap_is_passed(tmp_path_factory, cap, prices, at_a_time, number, noise, seed):
    path = tmp_path_factory.getbasetemp() / f"cap-{os.getpid()}-{next(cases)}.sqlite"
    rng, worst = random.Random(seed), worst_micros(Prices(*prices), 200, MAX_TOKENS)
    shop = Shop([max(1, round(worst * noise * rng.uniform(0.5, 1))) for _ in range(number)], seed)
    ledger = Ledger(path)
    ledger.set_cap(cap)
    lane = Lane(Endpoint("m", "http://127.0.0.1:9", Prices(*prices)), at_a_time)
    lane.add(call(one) for one in range(number))
    calls = Calls([lane], ledger, shop, 3, lambda live: None)
    asyncio.run(calls.run())
    over = sum(max(0, micros - worst) for micros in shop.bill)
    assert sum(shop.bill) <= cap + over
    assert ledger.spent_micros() >= sum(shop.bill) and ledger.totals().held_micros == 0
    assert calls.live.done == len(shop.bill)
    if calls.error is None:
        assert calls.live.done == number
    else:
        assert ledger.spent_micros() + worst > cap
    ledger.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def test_a_price_that_only_answers_tell_keeps_the_cap_too(tmp_path):
    """The first call goes alone; what it cost prices the next ones."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap(20_000)
    with serving(latency_s=0.01, fixed=500) as provider:
        calls = ask(ledger, provider.base_url, range(200), 64, prices=None)
        books = provider.books()
    assert type(calls.error).__name__ == "BudgetError"
    assert 5_000 < books["total"] <= 20_000
    assert ledger.spent_micros() == books["total"]
    ledger.close()


def test_a_teacher_that_asks_to_wait_long_does_not_hold_the_others(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")

    class Split(Shop):
        async def post(self, url, body, key, headers=None) -> Response:
            if b'"parked"' in body:
                return Response(429, b"{}", retry_after="86400")
            return await super().post(url, body, key)

    lanes = [Lane(Endpoint(name, "http://127.0.0.1:9", Prices(0, 0)), 4) for name in ("parked", "m")]
    for lane in lanes:
        lane.add(call(number, lane.endpoint.name) for number in range(20))
    calls = Calls(lanes, ledger, Split([1], 0), 3, lambda live: None)
    started = time.monotonic()
    asyncio.run(calls.run())
    assert time.monotonic() - started < 10
    assert lanes[0].parked == "it asks to wait 1440 minutes"
    assert (calls.live.done, calls.live.failed) == (20, 20)
    assert len(query(ledger.path, "SELECT id FROM attempts WHERE teacher = 'parked'")) <= 8
    ledger.close()


def test_nothing_is_sent_inside_the_window_of_retry_after(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    sent: list[float] = []

    class Window(Shop):
        async def post(self, url, body, key, headers=None) -> Response:
            sent.append(time.monotonic())
            if len(sent) == 1:
                await asyncio.sleep(0.05)
                return Response(429, b"{}", retry_after="0.8")
            return await super().post(url, body, key)

    lane = Lane(Endpoint("m", "http://127.0.0.1:9", Prices(0, 0)), 1)
    lane.add(call(number) for number in range(10))
    asyncio.run(Calls([lane], ledger, Window([1], 0), 3, lambda live: None).run())
    assert len(sent) == 11
    assert sent[1] - sent[0] >= 0.85
    ledger.close()


def test_a_full_disk_is_an_error_and_no_damage(tmp_path, monkeypatch):
    from composer_replication.llm import writer

    path, real = tmp_path / "ledger.sqlite", writer.connect
    Ledger(path).close()

    def small(where):
        db = real(where)
        db.execute("PRAGMA max_page_count = 30")
        return db

    ledger = Ledger(path)
    ledger.set_cap(10**9)
    with serving(latency_s=0.0) as provider:
        with monkeypatch.context() as patched:
            patched.setattr(writer, "connect", small)
            full = Ledger(path)
            calls = ask(full, provider.base_url, range(2000), 16)
            assert "disk is full" in str(calls.error)
            assert "settled are kept" in str(calls.error)
        full.close()
        check_kill(path, tmp_path / "nothing")
        settled = len(query(path, "SELECT id FROM attempts WHERE state = 'settled'"))
        assert settled > 0
        again = ask(ledger, provider.base_url, range(300), 16)
        books = provider.books()
    assert again.error is None
    ledger.close()
    check_books(path)
    assert sum(charged(path).values()) >= books["total"]


def test_interrupts(tmp_path):
    """The first lets calls in flight end: none is in doubt. The second leaves them in doubt."""
    from tests.faults.test_money_cli import make_run, teachers_of

    rng = random.Random(1)
    with serving(latency_s=0.4) as provider:
        for case in range(50 if FULL else 1):
            for number, twice, code in ((signal.SIGINT, False, 130), (signal.SIGTERM, True, 143)):
                run = make_run(tmp_path / f"{case}-{number}", 12)
                process = replay_process(run, teachers_of(provider))
                wait_for(lambda run=run: (run / "ledger.sqlite").exists() and attempts(run) > 0)
                time.sleep(rng.uniform(0, 0.3))
                process.send_signal(number)
                if twice:
                    time.sleep(0.05)
                    process.send_signal(number)
                started = time.monotonic()
                out, err = process.communicate(timeout=60)
                assert (process.returncode, time.monotonic() - started < 30) == (code, True), err
                states = dict(query(run / "ledger.sqlite", "SELECT state, COUNT(*) FROM attempts GROUP BY state"))
                assert "reserved" not in states
                assert twice or set(states) == {"settled"}
                settled = states.get("settled", 0)
                assert json.loads(out)["settled"] == settled
                assert f"{settled} answers are kept; next: run the same command again" in err


def attempts(run: Path) -> int:
    try:
        return query(run / "ledger.sqlite", "SELECT COUNT(*) FROM attempts")[0][0]
    except sqlite3.Error:
        return 0


def wait_for(condition) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def replay_process(run: Path, teachers: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-m", "composer_replication", "replay", str(run), *teachers, "--max-usd", "1", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
