"""A cache of a run for quick lookups: `RUN/cache/viewer.sqlite`, in a temporary folder where that cannot be written.

Reads finished stages as streams, and files of a training that may still run; holds one trace in memory. A stage whose
manifest has another hash, or a file of another size or time, is read again. The cache may be deleted at any time.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

from composer_replication.errors import MAKE_ROOM, RecomposeError
from composer_replication.records import JsonObject
from composer_replication.runs import Run

VERSION = 6
CHUNK = 64
"""Messages, or turns, that are stored and read together."""
BUSY_TIMEOUT_S = 600.0
PRIMARY_CODE = 0xFF
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""SQLITE_ERROR: its tables have other columns than ours."""
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_TABLES = """
CREATE TABLE IF NOT EXISTS sources (name TEXT PRIMARY KEY, mark TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
    trace_id TEXT, turn INTEGER, state_id TEXT, parent TEXT, facts TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_id ON records (kind, id);
CREATE INDEX IF NOT EXISTS by_any_id ON records (id);
CREATE INDEX IF NOT EXISTS by_trace ON records (trace_id, kind);
CREATE INDEX IF NOT EXISTS by_state ON records (state_id, kind);
CREATE INDEX IF NOT EXISTS by_parent ON records (parent, kind);
CREATE INDEX IF NOT EXISTS by_source ON records (source, number);
CREATE TABLE IF NOT EXISTS parts (
    trace_id TEXT, what TEXT, first INTEGER, body BLOB NOT NULL, PRIMARY KEY (trace_id, what, first)
) WITHOUT ROWID;
"""


class CacheEntry(NamedTuple):
    """One record as the cache keeps it. `facts` are what lists show and filter by."""

    kind: str
    id: str
    facts: JsonObject
    body: JsonObject
    trace_id: str | None = None
    turn: int | None = None
    state_id: str | None = None
    parent: str | None = None
    parts: tuple[tuple[str, Sequence[Any]], ...] = ()
    """Long lists of a trace, kept in chunks."""


class Cache:
    """One connection per thread. Whoever fills it holds SQLite's write lock, so two processes do not both do so."""

    def __init__(self, run: Run) -> None:
        self.path = _place(run.path)
        self._local = threading.local()
        with self._room():
            self._prepare()

    @property
    def db(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            found = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            found.execute("PRAGMA trusted_schema=OFF")
            found.execute("PRAGMA journal_mode=WAL")
            found.execute("PRAGMA synchronous=OFF")  # it can be made again
            found.execute("PRAGMA temp_store=MEMORY")
            self._local.db = found
        return found

    def close(self) -> None:
        """Of this thread."""
        if getattr(self._local, "db", None) is not None:
            self._local.db.close()
            self._local.db = None

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        with self._room():
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
            except BaseException:
                if self.db.in_transaction:  # SQLite itself ends one that finds no room
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    @contextmanager
    def _room(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & PRIMARY_CODE not in NO_ROOM:
                raise
            raise RecomposeError(f"{self.path} cannot be written: {error}", MAKE_ROOM) from error

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.db.execute(query, values).fetchall()

    def marks(self) -> dict[str, str]:
        return dict(self.rows("SELECT name, mark FROM sources"))

    def replace(self, source: str, mark: str | None, entries: Iterable[CacheEntry]) -> None:
        """What the source holds now; `mark` None where it is gone."""
        with self.writing() as db:
            if self.marks().get(source) == mark:
                return  # another process was quicker
            db.execute(
                "DELETE FROM parts WHERE trace_id IN (SELECT id FROM records WHERE source = ? AND kind = 'trace')",
                (source,),
            )
            db.execute("DELETE FROM records WHERE source = ?", (source,))
            db.execute("DELETE FROM sources WHERE name = ?", (source,))
            if mark is None:
                return
            for entry in entries:
                _insert(db, source, entry)
            db.execute("INSERT INTO sources VALUES (?, ?)", (source, mark))

    def part(self, trace_id: str, what: str, start: int, end: int) -> list[Any]:
        """Entries `start` to `end` of a long list."""
        found: list[Any] = []
        first = start - start % CHUNK
        query = "SELECT body FROM parts WHERE trace_id = ? AND what = ? AND first >= ? AND first < ? ORDER BY first"
        for (body,) in self.db.execute(query, (trace_id, what, first, end)):
            found += unpacked(body)
        return found[start - first : end - first]

    def _prepare(self) -> None:
        for file in _files(self.path):
            if file.is_symlink():
                file.unlink()  # a run may come from anybody, and the link may lead to another program's database
        if not self._is_usable():
            self.close()
            for file in _files(self.path):
                file.unlink(missing_ok=True)
            self.db.executescript(_TABLES)
        self.db.execute(f"PRAGMA user_version={VERSION}")

    def _is_usable(self) -> bool:
        """Not where it is damaged or of another version. A lock says neither: another process uses the cache."""
        try:
            if self.rows("PRAGMA user_version")[0][0] not in (0, VERSION):
                return False
            self.db.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & PRIMARY_CODE not in DAMAGED:
                raise
            return False
        return True


def packed(value: Any) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(orjson.dumps(value))


def unpacked(body: bytes) -> Any:
    return orjson.loads(zstandard.ZstdDecompressor().decompress(body))


def _insert(db: sqlite3.Connection, source: str, entry: CacheEntry) -> None:
    for what, values in entry.parts:
        for first in range(0, len(values), CHUNK):
            chunk = values[first : first + CHUNK]
            db.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)", (entry.id, what, first, packed(chunk)))
    facts = orjson.dumps(entry.facts).decode()
    links = (entry.trace_id, entry.turn, entry.state_id, entry.parent)
    row = (source, entry.kind, entry.id, *links, facts, packed(entry.body))
    db.execute("INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _files(path: Path) -> list[Path]:
    return [Path(f"{path}{ending}") for ending in ("", "-wal", "-shm")]


def _place(run: Path) -> Path:
    folder = run / "cache"
    if not folder.is_symlink() and os.access(folder if folder.exists() else run, os.W_OK):
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / "viewer.sqlite"
    temporary = Path(tempfile.mkdtemp(prefix="recompose-view-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary / "viewer.sqlite"
