"""Votes of people about a run's sites: reads and writes `RUN/annotations/human.jsonl`.

One line per vote, added at the end; nothing that stands there is changed. Also reads the lines of other files that may
still be written. What the trainer and the monitor say of records is read through the cache, see `filling`.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import orjson

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

HUMAN = "annotations/human.jsonl"
MAX_NOTE_CHARS = 2000
NOT_A_REPLY = ("actor", "none", "tie")


def json_lines(path: Path) -> Iterator[JsonObject]:
    """Objects of a file that may still be written; a torn line is left out.

    Links are not followed: a run may come from anybody.
    """
    if path.is_symlink() or not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                value: Any = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict):
                yield cast("JsonObject", value)


def all_votes(run: Path) -> dict[str, dict[str, JsonObject]]:
    """By site the last vote of each person. A line that names no site or no choice is left out."""
    found: dict[str, dict[str, JsonObject]] = {}
    for line in json_lines(run / HUMAN):
        target, value = line.get("target"), line.get("value")
        if line.get("label") != "vote" or not isinstance(target, dict) or not isinstance(value, dict):
            continue
        where, vote = cast("JsonObject", target), cast("JsonObject", value)
        if where.get("kind") == "site" and "choice" in vote:
            found.setdefault(str(where.get("id")), {})[str(line.get("who"))] = vote
    return found


def votes_on(run: Path, site_id: str) -> dict[str, JsonObject]:
    return all_votes(run).get(site_id, {})


def tally(votes: dict[str, JsonObject]) -> dict[str, int]:
    return dict(Counter(str(vote["choice"]) for vote in votes.values()))


def add_vote(run: Path, site_id: str, choice: str, who: str, blind: bool, note: str = "") -> None:
    if len(note) > MAX_NOTE_CHARS:
        raise UsageError("the note is too long", f"keep it below {MAX_NOTE_CHARS} characters")
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "producer": "human",
        "target": {"kind": "site", "id": site_id},
        "label": "vote",
        "value": {"choice": choice, "blind": blind, "note": note},
        "who": who,
    }
    path = run / HUMAN
    if path.parent.is_symlink():
        raise UsageError(f"{path.parent} is a link", "put a folder in its place")
    path.parent.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o644)
    try:
        _append(descriptor, orjson.dumps(line) + b"\n")
    finally:
        os.close(descriptor)


def _append(descriptor: int, line: bytes) -> None:
    """On a line of its own, also after one that was torn, by a full disk for example."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    size = os.fstat(descriptor).st_size
    left = line if not size or os.pread(descriptor, 1, size - 1) == b"\n" else b"\n" + line
    while left:
        left = left[os.write(descriptor, left) :]
