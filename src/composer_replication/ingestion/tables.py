"""Tables as JSON lines, so that every reader of rows takes them: Parquet, and what `Dataset.save_to_disk` writes.

Arrow gives all objects of a column the same keys and fills them up with nulls. Nobody wrote those, so they are dropped.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

TABLE_SUFFIXES = (".parquet", ".arrow")
ROWS_AT_ONCE = 64
ARROW_FILE = b"ARROW1"
"""How a file begins that is no stream of Arrow."""


def open_table(path: Path) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(cast(Any, _Lines(_lines(path)))))


class _Lines(io.RawIOBase):
    """Chunks as a file that is read once, from its beginning."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._left = self._left or next(self._chunks, b"")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _lines(path: Path) -> Iterator[bytes]:
    for batch in _batches(path):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            for row in batch.slice(start, ROWS_AT_ONCE).to_pylist():
                yield orjson.dumps(without_nulls(row), default=_plain) + b"\n"


def _batches(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        yield from parquet.ParquetFile(path).iter_batches(batch_size=ROWS_AT_ONCE)
        return
    import pyarrow as pa

    with path.open("rb") as file:
        is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    with pa.memory_map(str(path)) as mapped:
        if is_file:
            reader = pa.ipc.open_file(mapped)
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            yield from pa.ipc.open_stream(mapped)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {key: without_nulls(inner) for key, inner in entries.items() if inner is not None}
    return [without_nulls(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _plain(value: Any) -> str | None:
    """Times and decimals as text. Pictures and other bytes say nothing to a reader."""
    return None if isinstance(value, bytes) else str(value)
