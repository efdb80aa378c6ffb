"""A ledger that begins with the answers of another: they are there and cost nothing, and are counted as inherited."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from .writer import connect, connect_to_read, ledger_error

# Leases have names of another form than this owner.
_STATEMENTS = (
    # Useless answers are kept too: a question that nobody can answer is not paid for again.
    "DELETE FROM attempts WHERE state != 'settled' AND NOT unusable",
    "DELETE FROM bodies WHERE attempt NOT IN (SELECT id FROM attempts)",
    "UPDATE attempts SET owner = 'inherited', worst_micros = 0, cost_micros = 0, exact = 1",
    "UPDATE totals SET charged_micros = 0, held_micros = 0, cap_micros = NULL",
    "UPDATE teachers SET usage_micros = NULL",
)


def inherit(parent: Path, child: Path) -> int:
    """Copy a ledger that may be in use; tells the number of answers."""
    try:
        with closing(connect_to_read(parent)) as source, closing(sqlite3.connect(child)) as copy:
            source.backup(copy)
        with closing(connect(child)) as own:
            own.execute("BEGIN IMMEDIATE")
            for statement in _STATEMENTS:
                own.execute(statement)
            own.execute("COMMIT")
            own.execute("VACUUM")
            return own.execute("SELECT COUNT(*) FROM attempts WHERE state = 'settled'").fetchone()[0]
    except sqlite3.Error as error:
        raise ledger_error(parent, error) from error
