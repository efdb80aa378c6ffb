"""One thread per process that writes the ledger. What waits while a commit is on its way goes into the next one, so
that full durability costs one flush for many calls. Nobody hears of a change before its commit.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from composer_replication.errors import RecomposeError

from .ledger_schema import VERSION, prepare

T = TypeVar("T")
MAX_BATCH = 512
BUSY_TIMEOUT_S = 60.0


class LedgerError(RecomposeError):
    """The ledger cannot be read or written: a full disk, a read-only folder, a damaged file."""


@dataclass
class Books:
    """The open transaction: the database and the totals of all processes. The cap is None until one is set."""

    db: sqlite3.Connection
    charged_micros: int
    held_micros: int
    cap_micros: int | None


Work = Callable[[Books], Any]


def connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA trusted_schema=OFF")
        prepare(db, BUSY_TIMEOUT_S)
    except (sqlite3.Error, OSError) as error:
        raise ledger_error(path, error) from error
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes no file. One without tables gets them first."""
    log = path.with_name(f"{path.name}-wal")
    # Without a log all is in the file, and the files beside it, which a reader would make, are not needed.
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    try:
        db = sqlite3.connect(
            f"{path.absolute().as_uri()}?{how}",
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA temp_store=MEMORY")
        is_current = db.execute("PRAGMA user_version").fetchone()[0] >= VERSION
    except (sqlite3.Error, OSError) as error:
        raise ledger_error(path, error) from error
    if is_current:
        return db
    db.close()
    return connect(path)


def ledger_error(path: Path, error: Exception) -> LedgerError:
    return LedgerError(
        f"the ledger {path} cannot be used: {error}; calls that were settled are kept",
        "make room or mend the folder, then run the same command again",
    )


class Writer:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[tuple[Work, Future[Any] | asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[Books], T]) -> T:
        """Run `work` in a transaction and wait for its commit."""
        done: Future[T] = Future()
        self._put(work, done)
        return done.result()

    async def ado(self, work: Callable[[Books], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(work, done)
        return await done

    def close(self) -> None:
        if self._thread:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _put(self, work: Work, done: Future[Any] | asyncio.Future[Any]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="ledger", daemon=True)
            self._thread.start()
        self._queue.put((work, done))

    def _serve(self) -> None:
        db: sqlite3.Connection | None = None
        going = True
        while going:
            batch = [self._queue.get()]
            while len(batch) < MAX_BATCH:
                try:
                    batch.append(self._queue.get_nowait())
                except Empty:
                    break
            going = None not in batch
            waiting = [item for item in batch if item]
            try:
                db = db or connect(self._path)
                results = commit(db, [work for work, _ in waiting]) if waiting else []
            except Exception as error:
                # The thread must outlive any failure, or those who wait would wait for ever.
                known = error if isinstance(error, LedgerError) else ledger_error(self._path, error)
                results = [known] * len(waiting)
            _deliver([done for _, done in waiting], results)
        if db:
            db.close()


def commit(db: sqlite3.Connection, works: Sequence[Work]) -> list[Any]:
    try:
        db.execute("BEGIN IMMEDIATE")
        before = db.execute("SELECT charged_micros, held_micros, cap_micros FROM totals").fetchone()
        books = Books(db, *before)
        results = [work(books) for work in works]
        after = (books.charged_micros, books.held_micros, books.cap_micros)
        if after != before:
            db.execute("UPDATE totals SET charged_micros = ?, held_micros = ?, cap_micros = ?", after)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return results


def _deliver(waiting: Sequence[Future[Any] | asyncio.Future[Any]], results: Sequence[Any]) -> None:
    """Wake every loop once, whatever the number of its calls in the batch."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = defaultdict(list)
    for done, result in zip(waiting, results, strict=True):
        if isinstance(done, asyncio.Future):
            by_loop[done.get_loop()].append((done, result))
        else:
            _resolve(done, result)
    for loop, items in by_loop.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve_all, items)


def _resolve_all(items: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, result in items:
        if not done.done():
            _resolve(done, result)


def _resolve(done: Future[Any] | asyncio.Future[Any], result: object) -> None:
    if isinstance(result, Exception):
        done.set_exception(result)
    else:
        done.set_result(result)
