"""Every call in one SQLite file, written down before it is sent. A settled call is never made again.

    reserved ──▶ settled (body and cost, one commit) | failed (may be tried again)

The raw body is kept, so that a parser's mistake never costs a second call.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY, teacher TEXT NOT NULL, status TEXT NOT NULL, body TEXT, failure TEXT,
    cost_micros INTEGER NOT NULL DEFAULT 0, latency_s REAL, attempts INTEGER NOT NULL DEFAULT 0
) STRICT
"""


class Settled(NamedTuple):
    body: str
    cost_micros: int
    latency_s: float


class Ledger:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(_SCHEMA)

    def settled(self, key: str) -> Settled | None:
        query = "SELECT body, cost_micros, latency_s FROM calls WHERE key = ? AND status = 'settled'"
        row = self._db.execute(query, (key,)).fetchone()
        return Settled(*row) if row else None

    def reserve(self, key: str, teacher: str) -> None:
        self._db.execute(
            "INSERT INTO calls (key, teacher, status, attempts) VALUES (?, ?, 'reserved', 1) "
            "ON CONFLICT (key) DO UPDATE SET status = 'reserved', attempts = attempts + 1 WHERE status != 'settled'",
            (key, teacher),
        )

    def settle(self, key: str, result: Settled) -> None:
        self._db.execute(
            "UPDATE calls SET status = 'settled', body = ?, cost_micros = ?, latency_s = ?, failure = NULL "
            "WHERE key = ? AND status = 'reserved'",
            (result.body, result.cost_micros, result.latency_s, key),
        )

    def fail(self, key: str, reason: str) -> None:
        self._db.execute(
            "UPDATE calls SET status = 'failed', failure = ? WHERE key = ? AND status = 'reserved'", (reason, key)
        )

    def spent_micros(self) -> int:
        return self._db.execute("SELECT COALESCE(SUM(cost_micros), 0) FROM calls").fetchone()[0]

    def close(self) -> None:
        self._db.close()
