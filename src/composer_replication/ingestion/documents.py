"""Documents of a file and the rows in them: one session per row, and what the columns of such tables mean."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from composer_replication.records import JsonObject

from .reading import Document, InputFile, RawLine, parse_json
from .session import Session
from .values import as_list, as_object, as_text

_RUN_KEYS = frozenset({"messages", "trajectory", "history", "steps", "attempts"})
OPENHANDS_RUN = re.compile(r"(.+?)_maxiter_\d+")

Make = Callable[[InputFile, Document], Iterable[Session]]


def runs(value: Any) -> list[Any]:
    """A list of objects that hold messages is a list of runs."""
    rows = as_list(value)
    return rows if any(_RUN_KEYS & as_object(row).keys() for row in rows) else [value]


def read_rows(file: InputFile, make: Make, rows: Callable[[Any], Iterable[Any]] = runs) -> Iterator[Session]:
    """The sessions of each row, which `make` gets as a document at the place of its own."""
    for document in file.documents():
        for row in rows(document.value):
            yield from read_row(file, make, document._replace(value=row))


def read_row(file: InputFile, make: Make, row: Document) -> Iterator[Session]:
    try:
        found = list(make(file, row))
    except RecursionError:
        file.quarantine(row.start, "nested too deeply")
        return
    for session in found:
        if session.turns:
            yield session
        else:
            file.report.skipped["session_without_turns"] += 1


def feed(file: InputFile, add: Callable[[RawLine, JsonObject], None]) -> None:
    """Hands over the records of a log one by one."""
    for record, line in file.records():
        try:
            add(line, record)
        except RecursionError:
            file.quarantine(line.start, "nested too deeply")


def maybe_json(value: Any) -> Any:
    """Some tables hold nested values as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode("utf-8", "replace"))
    except ValueError:
        return None


def outcome_of(*values: Any) -> float | None:
    """The first that is a reward: a number, or 1 and 0 for true and false, also where a table made strings of them."""
    for value in values:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower())
        if isinstance(value, bool | int | float) and math.isfinite(value):
            return float(value)
    return None


def model_of_run(run_id: Any) -> str | None:
    """OpenHands' evaluation names a run after its model."""
    run = OPENHANDS_RUN.match(as_text(run_id))
    return run.group(1) if run else None
