"""Tables of the ledger. Money is in micro-dollars, whole numbers.

`attempts` has one row per paid attempt; the index `one_live` is what makes a second result, or a second call in flight,
for one key impossible. `began_at` is in seconds since 1970; files of earlier versions have no such column. `totals` is
one row that every process updates in the transaction that changes an attempt.
"""

from __future__ import annotations

import sqlite3
import time

VERSION = 3

_TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, teacher TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'refused', 'in_doubt')),
    owner TEXT NOT NULL, worst_micros INTEGER NOT NULL, cost_micros INTEGER NOT NULL DEFAULT 0,
    exact INTEGER NOT NULL DEFAULT 1, reason TEXT, unusable INTEGER NOT NULL DEFAULT 0, generation TEXT,
    prompt_bytes INTEGER NOT NULL DEFAULT 0, prompt_tokens INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0, latency_s REAL, words TEXT,
    began_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER))
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_live ON attempts (key) WHERE state IN ('reserved', 'settled');
CREATE INDEX IF NOT EXISTS open_attempts ON attempts (owner) WHERE state = 'reserved';
CREATE TABLE IF NOT EXISTS bodies (attempt INTEGER PRIMARY KEY, zstd BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS totals (
    one INTEGER PRIMARY KEY CHECK (one = 1), charged_micros INTEGER NOT NULL, held_micros INTEGER NOT NULL,
    cap_micros INTEGER
) STRICT;
INSERT OR IGNORE INTO totals VALUES (1, 0, 0, NULL);
CREATE TABLE IF NOT EXISTS teachers (
    name TEXT PRIMARY KEY, base_url TEXT NOT NULL, key_variable TEXT, usage_micros INTEGER
) STRICT;
"""


def prepare(db: sqlite3.Connection, patience_s: float) -> None:
    """Make the tables where they are not there."""
    _write_ahead(db, patience_s)
    db.execute("PRAGMA synchronous=FULL")
    if db.execute("PRAGMA user_version").fetchone()[0] >= VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    # Another process may have made them in the meantime. executescript would commit, so one statement at a time.
    if db.execute("PRAGMA user_version").fetchone()[0] < VERSION:
        for statement in filter(str.strip, _TABLES.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version={VERSION}")
    db.execute("COMMIT")


def _write_ahead(db: sqlite3.Connection, patience_s: float) -> None:
    """SQLite's own patience does not hold for this change: with two new processes one is refused at once."""
    until = time.monotonic() + patience_s
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
