"""What every reader returns, and JSON lines that survive torn and broken input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from composer_replication.records import JsonObject, Trace

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Quarantined:
    """Input that was set aside: the file's name, where in it, and why."""

    file: str
    byte_offset: int
    reason: str


@dataclass(frozen=True)
class ReadResult:
    traces: list[Trace] = field(default_factory=list[Trace])
    quarantined: list[Quarantined] = field(default_factory=list[Quarantined])
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Rows left out on purpose, by reason."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """sha256 of every file that was read, by path as given."""


class Line(NamedTuple):
    record: JsonObject
    start: int
    end: int


def read_lines(path: Path, result: ReadResult) -> Iterator[Line]:
    """Objects of a JSON-lines file with their byte ranges. A broken line is quarantined in `result`.

    A last line without a newline that does not parse is a write in progress, which is normal: it is counted only.
    """
    end = 0
    with path.open("rb") as handle:
        for raw in handle:
            start, end = end, end + len(raw)
            if not raw.strip():
                continue
            try:
                value = parse_line(raw)
            except ValueError as error:
                if raw.endswith(b"\n"):
                    result.quarantined.append(Quarantined(path.name, start, f"not JSON: {error}"))
                else:
                    result.skipped["torn_last_line"] += 1
                continue
            if isinstance(value, dict):
                yield Line(cast(JsonObject, value), start, end)
            else:
                result.quarantined.append(Quarantined(path.name, start, "not a JSON object"))


def parse_line(raw: bytes) -> Any:
    text = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # Agents written in JavaScript cut strings inside an emoji; orjson refuses the half that is left.
        if b"\\ud" not in text.lower():
            raise
        try:
            return orjson.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise error from None
