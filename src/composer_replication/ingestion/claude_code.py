"""The origin's interface to Claude Code sessions; `recompose ingest` reads them by the same reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from composer_replication.records import TraceState

from .readers.claude_code import read
from .reading import InputFile, ReadingReport

__all__ = ["ClaudeCodeIngester"]


class ClaudeCodeIngester:
    def __init__(self, redact: bool = True) -> None:
        self.redact = redact

    def ingest(self, path: Path) -> Iterator[TraceState]:
        for session in read(InputFile(path, ReadingReport(), self.redact)):
            yield from session.trace().states()
