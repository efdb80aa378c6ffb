"""Session files to traces, on every core. Output does not depend on the number of processes.

Each process reads whole files and leaves the encoded traces of a file in a shard; shards are put together in the order
of the files. Resumed and forked sessions copy turns of other files: such a file is read again without them, so that a
turn is never counted twice while its successors keep their history.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from composer_replication.errors import RecomposeError
from composer_replication.progress import Progress

from .formats import TRACE_READERS
from .inputs import Input, Inputs
from .reading import InputFile, Quarantined, ReadingReport

BYTES_PER_PROCESS = 16 << 20
"""Starting a process costs about as much as reading this."""
SHARD_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileJob:
    input: Input
    shard: Path
    redact: bool
    subagents: bool = False
    known: frozenset[str] = frozenset()
    """Keys of turns and ids of traces that earlier files have given."""


@dataclass
class FileRead:
    """What came out of one file; its traces lie in the shard."""

    report: ReadingReport
    sha256: str
    trace_ids: set[str] = field(default_factory=set[str])
    turn_keys: list[str] = field(default_factory=list[str])
    turns: int = 0
    tool_calls: int = 0
    tool_results: int = 0


def read_file(job: FileJob) -> FileRead:
    """Read one file into its shard. Whatever goes wrong inside, the file is quarantined and others are not harmed."""
    file = InputFile(job.input.path, ReadingReport(), job.redact, job.input.licence, job.input.name, job.subagents)
    found = FileRead(file.report, "")
    with job.shard.open("wb") as out:
        try:
            for session in TRACE_READERS[job.input.format].read(file):
                own = session.without(job.known)
                if not own.turns or own.trace_id in job.known or own.trace_id in found.trace_ids:
                    file.report.skipped["duplicate_session" if session.turns else "session_without_turns"] += 1
                    continue
                whole = out.tell()
                try:
                    out.writelines(own.encoded())
                except BaseException:
                    out.truncate(whole)
                    raise
                file.report.skipped["turn_in_another_file"] += len(session.turns) - len(own.turns)
                found.trace_ids.add(own.trace_id)
                found.turn_keys += own.keys
                found.turns += len(own.turns)
                found.tool_calls += own.calls
                found.tool_results += own.results
            found.sha256 = file.sha256()
        except Exception as error:
            file.quarantine(0, f"reader failed: {type(error).__name__}")
    return found


class Ingestion:
    """Reads inputs when `chunks` is consumed; after that the totals are known."""

    def __init__(self, inputs: Inputs, redact: bool, jobs: int | None = None) -> None:
        self._inputs = inputs
        self._redact = redact
        self._jobs = jobs
        self._known: set[str] = set()
        self.quarantined: list[Quarantined] = list(inputs.unreadable)
        self.hashes: dict[str, str] = {}
        self.totals: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter(inputs.skipped)
        self.redactions: Counter[str] = Counter()
        self.left_as_is: Counter[str] = Counter()
        self.unknown: dict[str, Counter[str]] = {}

    def counts(self) -> dict[str, Any]:
        reasons = Counter(item.reason.split(":")[0] for item in self.quarantined)
        return {
            "files": len(self._inputs.files),
            "formats": dict(Counter(item.format for item in self._inputs.files)),
            **{name: self.totals[name] for name in ("traces", "turns", "tool_calls", "tool_results")},
            "skipped": dict(+self.skipped),
            "quarantined": dict(reasons),
            "redactions": dict(self.redactions),
            "left_as_is": dict(self.left_as_is),
            "unknown_types": {version: dict(kinds) for version, kinds in self.unknown.items()},
        }

    def chunks(self, scratch: Path, progress: Progress) -> Iterator[bytes]:
        """JSON lines of traces, in pieces."""
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        jobs = [
            FileJob(item, scratch / f"{number}.jsonl", self._redact, self._inputs.subagents)
            for number, item in enumerate(self._inputs.files)
        ]
        for done, (job, found) in enumerate(self._read_all(jobs), start=1):
            overlap = {key for key in (*found.turn_keys, *found.trace_ids) if key in self._known}
            if overlap:
                found = read_file(replace(job, known=frozenset(overlap)))
            self._add(job, found)
            with job.shard.open("rb") as shard:
                while chunk := shard.read(SHARD_CHUNK_BYTES):
                    yield chunk
            job.shard.unlink()
            progress.step(done, len(jobs), f"{self.totals['turns']} turns")
        shutil.rmtree(scratch, ignore_errors=True)

    def _add(self, job: FileJob, found: FileRead) -> None:
        report = found.report
        self._known.update(found.turn_keys, found.trace_ids)
        self.hashes[job.input.name] = found.sha256
        self.quarantined += report.quarantined
        self.skipped += report.skipped
        self.redactions += report.redactions
        self.left_as_is += report.left_as_is
        for version, kinds in report.unknown.items():
            self.unknown.setdefault(version, Counter()).update(kinds)
        self.totals["traces"] += len(found.trace_ids)
        for name in ("turns", "tool_calls", "tool_results"):
            self.totals[name] += getattr(found, name)

    def _read_all(self, jobs: Sequence[FileJob]) -> Iterator[tuple[FileJob, FileRead]]:
        enough = 1 + sum(_size(job) for job in jobs) // BYTES_PER_PROCESS
        processes = self._jobs or min(len(os.sched_getaffinity(0)), len(jobs), enough)
        if processes <= 1:
            yield from ((job, read_file(job)) for job in jobs)
            return
        with ProcessPoolExecutor(processes, _context(), _end_with_parent) as pool:
            futures: list[tuple[FileJob, Future[FileRead]]] = [(job, pool.submit(read_file, job)) for job in jobs]
            try:
                yield from ((job, future.result()) for job, future in futures)
            except BrokenProcessPool as error:
                raise RecomposeError("a reading process was killed, perhaps for memory", "run it again") from error
            finally:
                pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """Processes forked from one that has imported this module and nothing else runs in."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _end_with_parent() -> None:
    """In each process: ends it when the one that started it is gone, also by a signal that nobody can catch."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _size(job: FileJob) -> int:
    try:
        return job.input.path.stat().st_size
    except OSError:
        return 0
