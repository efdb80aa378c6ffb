"""The bytes of the session file that a turn was read from. Only a file that is still what ingestion read is shown.

What stands there is not redacted, unlike everything else in a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.errors import RecomposeError
from composer_replication.records import JsonObject

from .lookup import RunView

if TYPE_CHECKING:
    from composer_replication.ingestion.reading import InputFile

MAX_BYTES, BLOCK_BYTES = 1 << 20, 1 << 18
EMBEDDED = "claude_code_session.jsonl"


def source_bytes(view: RunView, trace_id: str, turn: int) -> JsonObject:
    from composer_replication.ingestion.reading import InputFile, ReadingReport

    trace = view.get("trace", trace_id)
    found = view.cache.part(trace_id, "t", turn, turn + 1)
    if not found:
        raise view.missing(f"turn {trace_id}:{turn}")
    name, place = trace.body["source"]["file"], found[0].get("byte_range")
    answer: JsonObject = {"file": name, "byte_range": place, "text": "", "found": False, "unredacted": True}
    if name is None or place is None:
        return {**answer, "why": "it was played, not read from a file"}
    promised = (view.run.stage("ingestion").require()["inputs"]).get
    with suppress(OSError, RecomposeError):  # a file that cannot be read is as good as gone
        for path, key in _candidates(view, name):
            file = InputFile(path, ReadingReport())
            if path.exists() and file.sha256() == promised(key):
                return {**answer, "text": _read(file, *place).decode("utf-8", "replace"), "found": True, "why": ""}
    return {**answer, "why": "the file is gone, was moved, or has changed since it was ingested"}


def _candidates(view: RunView, name: str) -> Iterator[tuple[Path, str]]:
    """Paths with the key of their hash; the quick guesses first. Names may be redacted, so the last way reads all."""
    from composer_replication.ingestion import find_inputs

    config = view.run.config.ingestion
    paths = [Path(path) for path in config.paths]
    if config.embedded_session and name == EMBEDDED:
        yield Path(str(files("composer_replication") / "data" / EMBEDDED)), ""
    for path in paths:
        yield (path / name if path.is_dir() else path), name
    if there := [path for path in paths if path.exists()]:
        for each in find_inputs(there, config.format, config.subagents).files:
            if each.name == name:
                yield each.path, name


def _read(file: InputFile, start: int, end: int) -> bytes:
    end = min(end, start + MAX_BYTES)
    if file.path.is_dir():
        return b"".join(line.raw for line in file.lines() if line.start >= start and line.end <= end)
    with file.open() as handle:
        skipped = 0
        while skipped < start and (block := handle.read(min(BLOCK_BYTES, start - skipped))):
            skipped += len(block)  # a compressed file cannot be sought
        return handle.read(end - start)
