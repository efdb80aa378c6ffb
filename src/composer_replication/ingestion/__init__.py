"""From files that agents left behind to traces. Reads session files, writes `Trace` records."""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, cast

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Trace, TraceState

from .claude_code import ClaudeCodeIngester
from .reading import Quarantined, ReadResult, parse_line

__all__ = ["TRACE_READERS", "Quarantined", "ReadResult", "TraceIngester", "detect_format", "ingest_paths"]

HEAD_BYTES = 1 << 16
HEAD_LINES = 50
NEXT_COMMAND = "recompose ingest FILE.jsonl --run DIR"


class TraceIngester(Protocol):
    """One file format."""

    def recognises(self, record: JsonObject) -> bool:
        """Whether this JSON line can only come from this format."""
        ...

    def read(self, path: Path) -> ReadResult: ...

    def ingest(self, path: Path) -> Iterator[TraceState]: ...


TRACE_READERS: dict[str, TraceIngester] = {
    "claude_code": ClaudeCodeIngester(),
}


def detect_format(path: Path) -> str | None:
    """The name of the format that the first lines show, or None."""
    with path.open("rb") as handle:
        for _ in range(HEAD_LINES):
            line = handle.readline()
            try:
                value = parse_line(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                record = cast(JsonObject, value)
                for name, reader in TRACE_READERS.items():
                    if reader.recognises(record):
                        return name
    return None


def ingest_paths(paths: Sequence[Path]) -> ReadResult:
    """Read files and folders. What cannot be read is quarantined, unless nothing can: then a `UsageError` says why.

    A path that does not exist is always an error. Of two files with the same session, the one with more turns is kept.
    """
    skipped: Counter[str] = Counter()
    files = list(dict.fromkeys(file for path in paths for file in _session_files(path, skipped)))
    unreadable: list[Quarantined] = []
    broken_lines: list[Quarantined] = []
    traces: dict[str, Trace] = {}
    hashes: dict[str, str] = {}
    for file in files:
        if problem := _why_unreadable(file):
            unreadable.append(Quarantined(file.name, 0, problem))
            continue
        read = TRACE_READERS[cast(str, detect_format(file))].read(file)
        with file.open("rb") as handle:
            hashes[str(file)] = hashlib.file_digest(handle, "sha256").hexdigest()
        broken_lines += read.quarantined
        skipped += read.skipped
        if not read.traces:
            skipped["session_without_turns"] += 1
        for trace in read.traces:
            known = traces.get(trace.trace_id)
            skipped["duplicate_session"] += known is not None
            if known is None or len(known.turns) < len(trace.turns):
                traces[trace.trace_id] = trace
    if not traces:
        raise UsageError(_nothing_readable(paths, files, unreadable), NEXT_COMMAND)
    return ReadResult(list(traces.values()), unreadable + broken_lines, +skipped, hashes)


def _session_files(path: Path, skipped: Counter[str]) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for file in sorted(path.rglob("*.jsonl")):
            if file.name.startswith("agent-") or "subagents" in file.relative_to(path).parts[:-1]:
                skipped["subagent_file"] += 1
            elif file.is_file():
                yield file
    else:
        raise UsageError(f"there is no file or folder {path}", NEXT_COMMAND)


def _why_unreadable(file: Path) -> str | None:
    try:
        with file.open("rb") as handle:
            head = handle.read(HEAD_BYTES)
        if not head.strip():
            return "is empty"
        if b"\0" in head or not _is_utf8(head):
            return "is not text"
        return None if detect_format(file) else f"is in no known format (known: {', '.join(TRACE_READERS)})"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _nothing_readable(paths: Sequence[Path], files: Sequence[Path], unreadable: Sequence[Quarantined]) -> str:
    given = ", ".join(str(path) for path in paths) or "no path"
    if not files:
        return f"no session (*.jsonl) in {given}"
    if not unreadable:
        return f"no turn of a main agent in {given}"
    first = unreadable[0]
    if len(files) == 1:
        return f"{files[0]} {first.reason}"
    return f"none of {len(files)} files in {given} could be read, the first: {first.file} {first.reason}"
