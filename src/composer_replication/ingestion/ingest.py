"""Session files to traces, on every core. Output does not depend on the number of processes.

Each process reads whole files and leaves the encoded traces of a file in a shard; shards are put together in the order
of the files. A file that is as it was keeps its shard. Resumed and forked sessions copy turns of other files: such a
file is read again without them, so that a turn is never counted twice while its successors keep their history.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from composer_replication import __version__
from composer_replication.parallel import in_order, workers_for
from composer_replication.progress import Progress
from composer_replication.records import content_id
from composer_replication.store import DAMAGED, Shard, ShardWriter, write_shard

from .formats import TRACE_READERS
from .inputs import Input, Inputs
from .reading import BUFFER_BYTES, InputFile, Quarantined, ReadingReport
from .session import Session

BYTES_PER_PROCESS = 16 << 20
SHARD_CHUNK_BYTES = 1 << 20
NOT_READ = "not read to its end"
"""In place of the state of a file that could not be: no file has it, so it is read again."""


@dataclass(frozen=True)
class FileJob:
    input: Input
    shard: Path
    redact: bool
    subagents: bool = False
    known: frozenset[int] = frozenset()
    """Keys of turns and of traces that earlier files have given."""

    @property
    def key(self) -> str:
        return _key(self.input.name, self.input.state)


def _key(name: str, state: str) -> str:
    return content_id(__version__, name, state)


class FileRead(msgspec.Struct):
    """What came out of one file; its traces are the records of its shard."""

    name: str
    state: str
    format: str
    sha256: str = ""
    traces: int = 0
    turns: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    keys: list[int] = []
    known: list[int] = []
    """Keys that it holds too and that earlier files have given."""
    quarantined: list[tuple[int, str]] = []
    skipped: dict[str, int] = {}
    redactions: dict[str, int] = {}
    left_as_is: dict[str, int] = {}
    unknown: dict[str, dict[str, int]] = {}
    place: str = ""

    def take(self, report: ReadingReport) -> None:
        self.quarantined = [(item.byte_offset, item.reason) for item in report.quarantined]
        self.skipped, self.redactions = dict(+report.skipped), dict(report.redactions)
        self.left_as_is = dict(report.left_as_is)
        self.unknown = {version: dict(kinds) for version, kinds in report.unknown.items()}


_READ = msgspec.json.Decoder(FileRead)


def file_read(shard: Shard) -> FileRead:
    return _READ.decode(shard.about)


def read_file(job: FileJob) -> Shard:
    """Read one file into its shard. Whatever goes wrong inside, the file is quarantined and others are not harmed. An
    `OSError` is of the folder of shards."""
    file = InputFile(job.input.path, ReadingReport(), job.redact, job.input.licence, job.input.name, job.subagents)
    found = FileRead(job.input.name, job.input.state, job.input.format, known=sorted(job.known), place=job.input.place)
    trace_ids: set[str] = set()
    with tempfile.TemporaryFile(buffering=BUFFER_BYTES, dir=job.shard.parent) as plain:
        try:
            for session in _sessions(file, found):
                own = session.without({key for key in session.keys if _number(key) in job.known} if job.known else ())
                if not own.turns or own.trace_id in trace_ids or _number(own.trace_id) in job.known:
                    file.report.skipped["duplicate_session" if session.turns else "session_without_turns"] += 1
                    continue
                whole = plain.tell()
                try:
                    plain.writelines(own.encoded())
                except BaseException:
                    plain.truncate(whole)
                    plain.seek(whole)
                    raise
                file.report.skipped["turn_in_another_file"] += len(session.turns) - len(own.turns)
                trace_ids.add(own.trace_id)
                found.keys += map(_number, (*own.keys, own.trace_id))
                found.turns += len(own.turns)
                found.tool_calls += own.calls
                found.tool_results += own.results
        except OSError:
            raise
        except Exception as error:
            file.quarantine(0, f"reader failed: {type(error).__name__}")
            found.state = NOT_READ if isinstance(error, MemoryError) else found.state
        found.traces = len(trace_ids)
        found.take(file.report)
        plain.seek(0)
        chunks = iter(partial(plain.read, SHARD_CHUNK_BYTES), b"")
        return write_shard(job.shard, _key(found.name, found.state), chunks, found)


def _sessions(file: InputFile, found: FileRead) -> Iterator[Session]:
    """As far as the disk gives the file."""
    try:
        yield from TRACE_READERS[found.format].read(file)
        found.sha256 = file.sha256()
    except OSError as error:
        file.quarantine(0, f"reader failed: {type(error).__name__}")
        found.state = NOT_READ


def _number(key: str) -> int:
    """Eight bytes in place of a text: there are as many as turns."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).digest())


class Ingestion:
    """Reads inputs when `write` is called; after that the totals are known."""

    def __init__(self, inputs: Inputs, redact: bool, workers: int | None = None) -> None:
        self._inputs = inputs
        self._redact = redact
        self._workers = workers
        self._known: set[int] = set()
        self.quarantined: list[Quarantined] = list(inputs.unreadable)
        self.hashes: dict[str, str] = {}
        self.formats: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter(inputs.skipped)
        self.redactions: Counter[str] = Counter()
        self.left_as_is: Counter[str] = Counter()
        self.unknown: dict[str, Counter[str]] = {}

    def counts(self) -> dict[str, Any]:
        reasons = Counter(item.reason.split(":")[0] for item in self.quarantined)
        return {
            "files": self.formats.total(),
            "formats": dict(self.formats),
            **{name: self.totals[name] for name in ("traces", "turns", "tool_calls", "tool_results")},
            "skipped": dict(+self.skipped),
            "quarantined": dict(reasons),
            "redactions": dict(self.redactions),
            "left_as_is": dict(self.left_as_is),
            "unknown_types": {version: dict(kinds) for version, kinds in self.unknown.items()},
        }

    def write(self, writer: ShardWriter, progress: Progress) -> None:
        """Add a shard per file. Files of an earlier reading that are gone come first, as they were read then."""
        names = {item.name for item in self._inputs.files}
        places = {item.place for item in self._inputs.files if item.place}
        earlier = {found.name: (shard, found) for shard in writer.kept() for found in [file_read(shard)]}
        for name, (shard, found) in earlier.items():
            if name not in names and found.place not in places:
                self._keep(writer, shard, found)
        jobs = [
            FileJob(item, writer.scratch / f"{number}.shard", self._redact, self._inputs.subagents)
            for number, item in enumerate(self._inputs.files)
        ]
        size = sum(item.size for item in self._inputs.files)
        workers = min(workers_for(size, BYTES_PER_PROCESS, self._workers), len(jobs))
        found = in_order(read_file, jobs, workers, lambda job: writer.find(job.key))
        for done, (job, shard) in enumerate(found, start=1):
            self._put(writer, job, shard)
            progress.step(done, len(jobs), f"{self.totals['turns']} turns")

    def _keep(self, writer: ShardWriter, shard: Shard, found: FileRead) -> None:
        try:
            self._add(writer, shard, found)
        except DAMAGED:
            self.quarantined.append(Quarantined(found.name, 0, "lost: the file is gone and its shard is damaged"))

    def _put(self, writer: ShardWriter, job: FileJob, shard: Shard) -> None:
        """A shard that was kept may be damaged, or lack what another file no longer gives."""
        found = file_read(shard)
        overlap = {key for key in found.keys if key in self._known}
        if overlap or not self._known.issuperset(found.known):
            shard, found = self._again(job, frozenset(overlap.union(found.known) & self._known))
        try:
            self._add(writer, shard, found)
        except DAMAGED:
            self._add(writer, *self._again(job, frozenset(self._known.intersection(found.known))))
        job.shard.unlink(missing_ok=True)

    def _again(self, job: FileJob, known: Set[int]) -> tuple[Shard, FileRead]:
        shard = read_file(replace(job, known=frozenset(known)))
        found = file_read(shard)
        left = self._known.intersection(found.keys)
        return self._again(job, left | known) if left else (shard, found)

    def _add(self, writer: ShardWriter, shard: Shard, found: FileRead) -> None:
        writer.add(shard)
        self._known.update(found.keys)
        self.hashes[found.name] = found.sha256
        self.formats[found.format] += 1
        self.quarantined += (Quarantined(found.name, *item) for item in found.quarantined)
        for name in ("skipped", "redactions", "left_as_is"):
            getattr(self, name).update(getattr(found, name))
        for version, kinds in found.unknown.items():
            self.unknown.setdefault(version, Counter()).update(kinds)
        for name in ("traces", "turns", "tool_calls", "tool_results"):
            self.totals[name] += getattr(found, name)
