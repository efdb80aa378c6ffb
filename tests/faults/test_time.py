"""Time that does not pass as it should: a laptop that sleeps, a clock that is set while calls wait."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from composer_replication.llm import http_answers
from composer_replication.llm.calls import Calls
from composer_replication.llm.client import Endpoint
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import Prices
from composer_replication.llm.transport import Response
from tests.faults.fault_server import serving
from tests.faults.money_client import call
from tests.faults.test_money import Shop, charged, check_books, open_attempts, query, result, start, wait_for


def sleeps(process, path):
    """With calls in flight and between two commits: one that sleeps inside a commit holds the file, as it must."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    try:
        with closing(sqlite3.connect(path, timeout=0)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.rollback()
        if open_attempts(path):
            return True
    except sqlite3.OperationalError:
        pass
    process.send_signal(signal.SIGCONT)
    return False


def settled(path):
    return query(path, "SELECT COUNT(*) FROM attempts WHERE state = 'settled'")[0][0]


def test_a_process_that_slept_is_not_taken_for_dead(tmp_path):
    """Others go on, nobody pays for what it has in flight, and it ends well when it wakes."""
    path, options = tmp_path / "ledger.sqlite", ("--questions", 120, "--concurrency", 8, "--timeout", 300)
    with serving(latency_s=0.1) as provider:
        sleeper = start(path, provider.base_url, *options)
        assert sleeper.stdout.readline() == "ready\n"
        wait_for(lambda: sleeps(sleeper, path))
        asleep = open_attempts(path)
        other = start(path, provider.base_url, *options)
        assert other.stdout.readline() == "ready\n"
        wait_for(lambda: settled(path) >= 120 - asleep)
        assert (open_attempts(path), settled(path)) == (asleep, 120 - asleep)
        sleeper.send_signal(signal.SIGCONT)
        ended = [result(sleeper), result(other)]
        books = provider.books()
    check_books(path)
    assert [end["failed"] for end in ended] == [0, 0]
    assert query(path, "SELECT state, COUNT(*) FROM attempts GROUP BY state") == [("settled", 120)]
    assert [key for key, costs in books["bill"].items() if len(costs) > 1] == []
    assert sum(charged(path).values()) == books["total"]


def test_a_clock_that_jumps_neither_hurries_nor_holds_a_call(tmp_path, monkeypatch):
    """The provider says when to come back by its own clock; ours is a day off, each time on another side."""
    days = 1

    class Jumping(datetime):
        @classmethod
        def now(cls, tz=None):
            nonlocal days
            days = -days
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(http_answers, "datetime", Jumping)
    monkeypatch.setattr(time, "time", lambda: Jumping.now(UTC).timestamp())
    sent: list[float] = []

    class Window(Shop):
        async def post(self, url, body, key, headers=None) -> Response:
            sent.append(time.monotonic())
            if len(sent) > 2:
                return await super().post(url, body, key)
            now = datetime(2026, 11, 1, tzinfo=UTC)
            later = format_datetime(now + timedelta(seconds=1), usegmt=True)
            return Response(429, b"{}", retry_after=later, date=format_datetime(now, usegmt=True))

    ledger = Ledger(tmp_path / "ledger.sqlite")
    lane = Lane(Endpoint("m", "http://127.0.0.1:9", Prices(0, 0)), 1)
    lane.add(call(number) for number in range(4))
    started = time.monotonic()
    asyncio.run(Calls([lane], ledger, Window([1], 0), 3, lambda live: None).run())
    assert len(sent) == 6
    assert min(sent[1] - sent[0], sent[2] - sent[1]) >= 1
    assert time.monotonic() - started < 60
    ledger.close()
