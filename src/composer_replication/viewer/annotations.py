"""What was said about a run's records afterwards: one append-only stream per producer, joined when it is read.

    training/token_weights/step_*.jsonl.zst   the trainer's: weights of tokens (read through the cache)
    monitor/records.jsonl.zst                 the monitor's: findings (read through the cache)
    annotations/human.jsonl                   people's: votes

Only the human's is written here: one line per vote, in one write, and nothing that stands there is changed.
"""

from __future__ import annotations

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


def human_lines(run: Path) -> Iterator[JsonObject]:
    """Every whole line; one that was torn is left out."""
    return (line for line in json_lines(run / HUMAN) if "target" in line)


def json_lines(path: Path) -> Iterator[JsonObject]:
    """Objects of a file that may still be written. Links are not followed: a run may come from anybody."""
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


def votes_on(run: Path, site_id: str) -> dict[str, JsonObject]:
    """The last vote of each person."""
    return {
        str(line.get("who")): line["value"]
        for line in human_lines(run)
        if line.get("label") == "vote" and line["target"] == {"kind": "site", "id": site_id}
    }


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
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, orjson.dumps(line) + b"\n")
    finally:
        os.close(descriptor)
