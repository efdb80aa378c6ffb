"""From files that agents left behind to traces. Reads session files, writes `Trace` records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from composer_replication.records import Trace, TraceState

from .formats import TRACE_READERS, detect_format
from .ingest import Ingestion
from .inputs import Inputs, find_inputs
from .reading import InputFile, Quarantined, ReadingReport

__all__ = [
    "TRACE_READERS", "Ingestion", "InputFile", "Inputs", "Quarantined", "ReadingReport", "TraceIngester",
    "detect_format", "find_inputs", "read_traces",
]  # fmt: skip


class TraceIngester(Protocol):
    """The origin's interface of a reader."""

    def ingest(self, path: Path) -> Iterator[TraceState]:
        """The states of one file."""
        ...


def read_traces(path: Path, format_name: str | None = None, redact: bool = True) -> list[Trace]:
    """The traces of one file or event folder, in memory; for corpora use `recompose ingest`.

    Args:
        format_name: A name of `TRACE_READERS`; without it the file is recognised by what it holds.
        redact: Whether secrets and personal data are taken out.
    """
    chosen = find_inputs([path], format_name).files[0]
    file = InputFile(chosen.path, ReadingReport(), redact)
    return [session.trace() for session in TRACE_READERS[chosen.format].read(file) if session.turns]
