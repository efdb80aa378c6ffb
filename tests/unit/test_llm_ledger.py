"""The ledger keeps every attempt: once in flight, once settled, never cheaper than it was, whoever dies."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from composer_replication.llm.bill import bills
from composer_replication.llm.leases import is_alive
from composer_replication.llm.ledger import Ending, Ledger, Reservation, Settled
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
    fetch = ledger.rows
    monkeypatch.setattr(ledger, "rows", lambda query, *args: plans.extend(fetch(f"EXPLAIN QUERY PLAN {query}", *args)))
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


LOOKS = "import sys; from pathlib import Path; from composer_replication.llm.leases import is_alive; "
LOOKS += "sys.exit(is_alive(Path(sys.argv[1]), sys.argv[2]))"


def seen_alive(path, owner: str, *before: str) -> bool:
    """By another process."""
    done = subprocess.run([*before, sys.executable, "-c", LOOKS, str(path), owner], check=False, timeout=30)
    return bool(done.returncode)


def owner_of(path) -> str:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT owner FROM attempts ORDER BY id DESC").fetchone()[0]


def leases(path) -> list[str]:
    return [file.name for file in path.parent.glob("*.lease")]


def test_a_ledger_is_alive_until_it_is_closed(path):
    ledger = Ledger(path)
    assert leases(path) == [], "nothing is reserved"
    ledger.finish(reserved(ledger), GOOD)
    owner = owner_of(path)
    assert is_alive(path, owner) and seen_alive(path, owner)
    ledger.close()
    assert leases(path) == []
    assert not is_alive(path, owner) and not seen_alive(path, owner)
    assert not is_alive(path, DEAD)


def test_asking_whether_an_owner_is_alive_holds_nothing(path):
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30)
    [lease] = path.parent.glob("*.lease")
    assert not is_alive(path, owner_of(path))
    with lease.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lease_can_be_looked_at_by_the_user_of_another_container(path):
    before = os.umask(0o022)
    try:
        ledger = Ledger(path)
        reserved(ledger)
    finally:
        os.umask(before)
    [lease] = path.parent.glob("*.lease")
    assert lease.stat().st_mode & 0o777 == 0o644
    ledger.close()


def test_what_a_killed_process_leaves_is_removed_by_who_takes_over(path):
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30)
    assert len(leases(path)) == 1
    Ledger(path, read_only=True).close()
    assert len(leases(path)) == 1
    Ledger(path).close()
    assert leases(path) == []


def test_three_kinds_of_useless_answers_poison_a_question(path):
    ledger = Ledger(path)
    for reason in ("bad JSON", "bad JSON", "empty choices"):
        ledger.finish(reserved(ledger), Ending("failed", reason=reason, unusable=True))
    ledger.finish(reserved(ledger), Ending("refused", reason="HTTP 429"))
    assert ledger.poisoned_keys() == set()
    ledger.finish(reserved(ledger), Ending("failed", reason="no message", unusable=True))
    assert ledger.poisoned_keys() == {"k"}


def test_a_bill_adds_up_what_all_attempts_used(path):
    ledger = Ledger(path)
    ledger.set_cap(1000)
    for key, state in (("a", "settled"), ("b", "settled"), ("c", "failed"), ("d", "in_doubt")):
        used = Usage(prompt_tokens=10, completion_tokens=3)
        ledger.finish(reserved(ledger, key, 100), Ending(state, 20, usage=used, latency_s=0.5))
    [bill] = bills(ledger)
    assert (bill.prompt_tokens, bill.completion_tokens) == (40, 12)
    assert {state: micros for state, micros in bill.micros.items() if micros} == {
        "settled": 40,
        "failed": 20,
        "in_doubt": 100,
    }
    assert (bill.spent_micros, bill.latency_s) == (160, {"p50": 0.5, "p95": 0.5, "p99": 0.5})


def test_what_a_closed_ledger_could_not_finish_does_not_block_the_next_one(path, monkeypatch):
    """A full disk, in a notebook: the process lives on."""
    first = Ledger(path)
    first.set_cap(1000)
    reserved(first, worst=70)
    with monkeypatch.context() as patched:
        patched.setattr(first, "finish", lambda *_: 1 / 0)
        first.close()
    assert rows(path)[0][1] == "reserved"
    second = Ledger(path)
    assert rows(path) == [("k", "in_doubt", 70, 0, "the process ended")]
    assert second.reserve("k", "teacher", 70).status == "reserved"


def test_closing_leaves_open_attempts_in_doubt(path):
    ledger = Ledger(path)
    ledger.set_cap(100)
    reserved(ledger, worst=70)
    ledger.close()
    assert rows(path) == [("k", "in_doubt", 70, 0, "left open")]


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
