"""Two processes that make one ledger at the same moment: neither is refused."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest

from composer_replication.llm.writer import LedgerError, connect


def refusing(times, code):
    """As SQLite refuses a change to a write-ahead log at once, whatever its timeout, while another process makes it."""

    class Refusing(sqlite3.Connection):
        left = times

        def execute(self, statement, *values):
            if "journal_mode" in statement and Refusing.left:
                Refusing.left -= 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = code
                raise error
            return super().execute(statement, *values)

    return partial(sqlite3.connect, factory=Refusing)


def test_a_ledger_that_another_process_is_making_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "connect", refusing(2, sqlite3.SQLITE_BUSY))
    db = connect(tmp_path / "ledger.sqlite")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


def test_what_no_waiting_mends_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "connect", refusing(1, sqlite3.SQLITE_READONLY))
    with pytest.raises(LedgerError):
        connect(tmp_path / "ledger.sqlite")
