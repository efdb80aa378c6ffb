"""Examples on disk, decoded when they are taken: there may be more of them than fit in memory.

Writes a file without a name, which is gone with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, overload

import msgspec

from .examples import TraceExample

_EXAMPLES = msgspec.msgpack.Decoder(TraceExample)


class _Kept(NamedTuple):
    trace_id: str
    start: int
    size: int
    longest_row: int


class StoredExamples(Sequence[TraceExample]):
    """`change` is applied to each example that is taken."""

    def __init__(
        self,
        file: BinaryIO,
        kept: list[_Kept] | None = None,
        change: Callable[[TraceExample], TraceExample] = lambda example: example,
    ) -> None:
        self._file, self._kept, self._change = file, kept or [], change

    @classmethod
    def in_folder(cls, folder: Path) -> StoredExamples:
        folder.mkdir(parents=True, exist_ok=True)
        return cls(tempfile.TemporaryFile(dir=folder))

    def add(self, examples: Sequence[TraceExample]) -> None:
        self._file.seek(0, 2)
        for example in examples:
            start = self._file.tell()
            size = self._file.write(msgspec.msgpack.encode(example))
            self._kept.append(_Kept(example.trace_id, start, size, example.longest_row))

    def by_trace(self) -> StoredExamples:
        """In the order of their traces' ids; those of one trace stay as they were added."""
        return StoredExamples(self._file, sorted(self._kept, key=lambda kept: kept.trace_id), self._change)

    def changed(self, change: Callable[[TraceExample], TraceExample]) -> StoredExamples:
        return StoredExamples(self._file, self._kept, change)

    @property
    def longest_rows(self) -> list[int]:
        return [kept.longest_row for kept in self._kept]

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> TraceExample: ...
    @overload
    def __getitem__(self, index: slice) -> list[TraceExample]: ...
    def __getitem__(self, index: int | slice) -> TraceExample | list[TraceExample]:
        wanted = self._kept[index]
        return list(map(self._read, wanted)) if isinstance(wanted, list) else self._read(wanted)

    def __iter__(self) -> Iterator[TraceExample]:
        return map(self._read, self._kept)

    def _read(self, kept: _Kept) -> TraceExample:
        self._file.seek(kept.start)
        return self._change(_EXAMPLES.decode(self._file.read(kept.size)))
