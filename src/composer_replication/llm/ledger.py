"""Every paid attempt in one SQLite file of the run, written down before it is sent. A settled call is never made again.

    reserved (worst case held) ──▶ settled (body and cost, one commit)
                               ├─▶ failed   (no use, cost known)
                               ├─▶ refused  (nothing was charged)
                               └─▶ in_doubt (timeout, reset, kill: charged at worst case until reconciled)

A reservation is refused when what is charged, what is held and its own worst case would pass the cap. The cap belongs
to the file, so processes that share a run share it. The raw body of every answer is kept, so that a parser's mistake
costs nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import zstandard

from composer_replication.errors import BudgetError
from composer_replication.records import Usage

from .leases import Lease, clear, is_alive
from .pricing import dollars
from .writer import Books, Writer, commit, connect, connect_to_read, ledger_error

State = Literal["settled", "failed", "refused", "in_doubt"]
POISON_WAYS = 3
"""A question that was answered uselessly in this many different ways is not asked again."""
MAX_BODY_BYTES = 1 << 26
_INHERITING = (
    # Useless answers are kept too: a question that nobody can answer is not paid for again.
    "DELETE FROM attempts WHERE state != 'settled' AND NOT unusable",
    "DELETE FROM bodies WHERE attempt NOT IN (SELECT id FROM attempts)",
    # Leases have names of another form than this owner.
    "UPDATE attempts SET owner = 'inherited', worst_micros = 0, cost_micros = 0, exact = 1",
    "UPDATE totals SET charged_micros = 0, held_micros = 0, cap_micros = NULL",
    "UPDATE teachers SET usage_micros = NULL",
)


class Settled(NamedTuple):
    body: str
    cost_micros: int
    latency_s: float


class Reservation(NamedTuple):
    """`busy`: another call with this key is in flight. `over_cap`: it was not admitted."""

    status: Literal["reserved", "settled", "busy", "over_cap"]
    attempt: int = 0


class Ending(NamedTuple):
    """How an attempt ended. `exact` is False where the cost is a worst case that could still be reconciled."""

    state: State
    cost_micros: int = 0
    exact: bool = True
    reason: str | None = None
    unusable: bool = False
    body: bytes | None = None
    generation: str | None = None
    usage: Usage = Usage()
    latency_s: float | None = None
    words: str | None = None
    """What the provider says about it."""


class Totals(NamedTuple):
    """`charged_micros` includes what is in doubt; `held_micros` is reserved by calls in flight."""

    charged_micros: int
    held_micros: int
    cap_micros: int | None

    def no_room(self, asked: str) -> BudgetError:
        return BudgetError(
            f"the cap of {dollars(self.cap_micros or 0)} leaves no room for the next {asked}'s worst case; "
            f"${self.charged_micros / 1e6:.6f} is charged and all answers are saved",
            "run the same command with a higher --max-usd",
        )


class Ledger:
    """Opening it takes over the attempts of processes that died: they are in doubt from then on. Opened to be read
    only, it says the same and leaves the files as they are."""

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self._db = connect_to_read(path) if read_only else connect(path)
        self._writer = Writer(path)
        self._lease = Lease(path)
        self._open: set[int] = set()
        self._compress = zstandard.ZstdCompressor(level=3).compress  # only the writer's thread calls it
        if self._dead_owners():
            self.reap()

    def settled(self, key: str) -> Settled | None:
        # SQLite uses the index `one_live` only where the query repeats its condition.
        query = (
            "SELECT zstd, cost_micros, latency_s FROM attempts JOIN bodies ON attempt = id "
            "WHERE key = ? AND state IN ('reserved', 'settled') AND state = 'settled'"
        )
        row = self.rows(query, key)
        if not row:
            return None
        body, cost_micros, latency_s = row[0]
        return Settled(
            zstandard.ZstdDecompressor().decompress(body, MAX_BODY_BYTES).decode("utf-8", "replace"),
            cost_micros,
            latency_s or 0.0,
        )

    def settled_keys(self) -> set[str]:
        return {key for (key,) in self.rows("SELECT key FROM attempts WHERE state = 'settled'")}

    def poisoned_keys(self) -> set[str]:
        query = "SELECT key FROM attempts WHERE unusable GROUP BY key HAVING COUNT(DISTINCT reason) >= ?"
        return {key for (key,) in self.rows(query, POISON_WAYS)}

    def totals(self) -> Totals:
        return Totals(*self.rows("SELECT charged_micros, held_micros, cap_micros FROM totals")[0])

    def spent_micros(self) -> int:
        """All that was or may have been charged."""
        return self.totals().charged_micros

    def set_cap(self, cap_micros: int | None) -> None:
        def work(books: Books) -> None:
            books.cap_micros = cap_micros

        self._writer.do(work)

    def reserve(self, key: str, teacher: str, worst_micros: int = 0, prompt_bytes: int = 0) -> Reservation:
        return self._writer.do(self._reserving(key, teacher, worst_micros, prompt_bytes))

    async def areserve(self, key: str, teacher: str, worst_micros: int, prompt_bytes: int) -> Reservation:
        return await self._writer.ado(self._reserving(key, teacher, worst_micros, prompt_bytes))

    def finish(self, attempt: int, ending: Ending) -> None:
        self._writer.do(lambda books: self._finish(books, attempt, ending))

    async def afinish(self, attempt: int, ending: Ending) -> None:
        await self._writer.ado(lambda books: self._finish(books, attempt, ending))

    def reconcile(self, attempt: int, cost_micros: int) -> None:
        """What the provider says that an attempt did cost, in place of its worst case."""

        def work(books: Books) -> None:
            row = books.db.execute("SELECT cost_micros FROM attempts WHERE id = ? AND NOT exact", (attempt,)).fetchone()
            if row:
                books.charged_micros += cost_micros - row[0]
                books.db.execute(
                    "UPDATE attempts SET cost_micros = ?, exact = 1, "
                    "state = CASE state WHEN 'in_doubt' THEN 'failed' ELSE state END WHERE id = ?",
                    (cost_micros, attempt),
                )

        self._writer.do(work)

    def reap(self) -> None:
        """Attempts of processes that ended without a word may have been paid: they are in doubt."""
        dead = self._dead_owners()

        def work(books: Books) -> None:
            for owner in dead:
                query = "SELECT COALESCE(SUM(worst_micros), 0) FROM attempts WHERE state = 'reserved' AND owner = ?"
                held = books.db.execute(query, (owner,)).fetchone()[0]
                books.held_micros -= held
                books.charged_micros += held
                books.db.execute(
                    "UPDATE attempts SET state = 'in_doubt', cost_micros = worst_micros, exact = 0, "
                    "reason = 'the process ended' WHERE state = 'reserved' AND owner = ?",
                    (owner,),
                )

        if dead and self._read_only:
            self._db.execute("CREATE TEMP TABLE attempts AS SELECT * FROM main.attempts")
            self._db.execute("CREATE TEMP TABLE totals AS SELECT * FROM main.totals")
            commit(self._db, [work])
        elif dead:
            self._writer.do(work)
            for owner in dead:
                clear(self.path, owner)

    def remember_teacher(self, name: str, base_url: str, key_variable: str | None) -> None:
        """Where a teacher is asked, so that its bill can be looked up later. The variable's name, never its value."""
        statement = (
            "INSERT INTO teachers (name, base_url, key_variable) VALUES (?1, ?2, ?3) "
            "ON CONFLICT DO UPDATE SET base_url = ?2, key_variable = ?3"
        )
        self._writer.do(lambda books: books.db.execute(statement, (name, base_url, key_variable)) and None)

    def note_usage(self, base_url: str, usage_micros: int) -> None:
        """What a key had spent before the run's first call to a server; only the first figure stays."""
        statement = "UPDATE teachers SET usage_micros = ? WHERE base_url = ? AND usage_micros IS NULL"
        self._writer.do(lambda books: books.db.execute(statement, (usage_micros, base_url)) and None)

    def close(self) -> None:
        """Attempts of this ledger that nobody finished are in doubt."""
        for attempt in sorted(self._open):
            with suppress(Exception):
                self.finish(attempt, Ending("in_doubt", reason="left open"))
        self._writer.close()
        self._db.close()
        self._lease.end()

    def rows(self, query: str, *parameters: str | int) -> list[tuple[Any, ...]]:
        """Of a query that reads."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise ledger_error(self.path, error) from error

    def _dead_owners(self) -> list[str]:
        owners = self.rows("SELECT DISTINCT owner FROM attempts WHERE state = 'reserved'")
        return [owner for (owner,) in owners if not is_alive(self.path, owner)]

    def _reserving(
        self, key: str, teacher: str, worst_micros: int, prompt_bytes: int
    ) -> Callable[[Books], Reservation]:
        def work(books: Books) -> Reservation:
            # What is free needs no cap, and is let in when the money has run out.
            if worst_micros and books.charged_micros + books.held_micros + worst_micros > (books.cap_micros or 0):
                return self._live(books, key) or Reservation("over_cap")
            self._lease.take()
            try:
                inserted = books.db.execute(
                    "INSERT INTO attempts (key, teacher, state, owner, worst_micros, prompt_bytes) "
                    "VALUES (?, ?, 'reserved', ?, ?, ?)",
                    (key, teacher, self._lease.owner, worst_micros, prompt_bytes),
                )
            except sqlite3.IntegrityError:
                return self._live(books, key) or Reservation("busy")
            books.held_micros += worst_micros
            attempt = inserted.lastrowid or 0
            self._open.add(attempt)
            return Reservation("reserved", attempt)

        return work

    def _live(self, books: Books, key: str) -> Reservation | None:
        query = "SELECT state FROM attempts WHERE key = ? AND state IN ('reserved', 'settled')"
        row = books.db.execute(query, (key,)).fetchone()
        return Reservation("settled" if row[0] == "settled" else "busy") if row else None

    def _finish(self, books: Books, attempt: int, ending: Ending) -> None:
        """An attempt that was taken for dead and comes back late is still settled, unless its key has a result."""
        self._open.discard(attempt)
        query = "SELECT state, worst_micros, cost_micros FROM attempts WHERE id = ?"
        state, worst_micros, charged_micros = books.db.execute(query, (attempt,)).fetchone()
        if state not in ("reserved", "in_doubt"):
            return
        cost_micros = worst_micros if ending.state == "in_doubt" else ending.cost_micros
        values = (
            cost_micros, ending.exact and ending.state != "in_doubt", ending.reason, ending.unusable, ending.generation,
            ending.usage.prompt_tokens, ending.usage.completion_tokens, ending.latency_s, ending.words, attempt,
        )  # fmt: skip
        update = (
            "UPDATE attempts SET state = '{}', cost_micros = ?, exact = ?, reason = ?, unusable = ?, generation = ?, "
            "prompt_tokens = ?, completion_tokens = ?, latency_s = ?, words = ? WHERE id = ?"
        )
        try:
            books.db.execute(update.format(ending.state), values)
        except sqlite3.IntegrityError:
            books.db.execute(update.format("failed"), values)
        if ending.body is not None:
            books.db.execute("INSERT OR REPLACE INTO bodies VALUES (?, ?)", (attempt, self._compress(ending.body)))
        books.charged_micros += cost_micros - charged_micros
        books.held_micros -= worst_micros if state == "reserved" else 0


class Inherited(NamedTuple):
    """What a ledger begins with. A useless answer is none, but it is not paid for again."""

    answers: int
    useless: int


def inherit(parent: Path, child: Path) -> Inherited:
    """Begin a ledger with the answers of another, which may be in use: they cost nothing and are counted as
    inherited."""
    try:
        with closing(connect_to_read(parent)) as source, closing(sqlite3.connect(child)) as copy:
            source.backup(copy)
        with closing(connect(child)) as own:
            own.execute("BEGIN IMMEDIATE")
            for statement in _INHERITING:
                own.execute(statement)
            own.execute("COMMIT")
            own.execute("VACUUM")
            counted = "SELECT COALESCE(SUM(state = 'settled'), 0), COALESCE(SUM(state != 'settled'), 0) FROM attempts"
            return Inherited(*own.execute(counted).fetchone())
    except sqlite3.Error as error:
        raise ledger_error(parent, error) from error
