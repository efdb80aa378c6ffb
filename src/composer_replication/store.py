"""Records at rest: JSON lines in one zstd file, in shards that are made, kept and read apart.

    records.jsonl.zst     a zstd frame per shard, so any zstd tool reads the whole
    shards.jsonl          for each frame what it was made from, its length, its hash and what its stage counts in it
    unfinished/           the same two files of attempts that were killed: their whole shards are not made again

Files without `shards.jsonl` are one shard. Hashes are over uncompressed bytes, so they depend neither on the compressor
nor on where shards end. Files appear whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec
import zstandard
from pydantic import BaseModel

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)
RECORDS = "records.jsonl.zst"
SHARDS = "shards.jsonl"
UNFINISHED = "unfinished"
CHUNK_BYTES = 1 << 16
DAMAGED = (ValueError, zstandard.ZstdError)
"""What adding a shard raises where it cannot be read or is not what was written."""


def hash_of(files: Iterable[Path]) -> str:
    """The sha256 of the bytes of these files on disk, one after the other."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb", buffering=0) as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


class Written(NamedTuple):
    """How many `records`; `sha256` is over the uncompressed bytes, so it does not depend on the compressor."""

    sha256: str
    records: int


class Shard(NamedTuple):
    """Records that lie together in a file and can be read alone."""

    path: Path
    key: str = ""
    """Names what it was made from. A shard without a key is never used again."""
    start: int = 0
    """Byte of the file at which it begins."""
    size: int | None = None
    """Compressed bytes; None up to the end of the file."""
    records: int = 0
    """How many."""
    sha256: str | None = None
    """Of the uncompressed bytes; None: unchecked."""
    about: bytes = b"null"
    """JSON of its stage."""

    def read(self, record_type: type[AnyRecord]) -> Iterator[AnyRecord]:
        return map(record_type.model_validate_json, self.lines())

    def lines(self) -> Iterator[bytes]:
        """A `ValueError` or a `ZstdError` where the bytes are not those that were written, at the latest at the end."""
        begun, digest = list[bytes](), hashlib.sha256()
        for chunk in () if self.size == 0 else _decompressed(self._raw()):
            digest.update(chunk)
            for piece in io.BytesIO(chunk):
                begun.append(piece)
                if piece.endswith(b"\n"):
                    yield b"".join(begun)
                    begun.clear()
        if begun:
            yield b"".join(begun)
        if self.sha256 is not None and digest.hexdigest() != self.sha256:
            raise ValueError(f"{self.path} is not what was written")

    def _raw(self) -> Iterator[bytes]:
        left = self.size
        with self.path.open("rb") as raw:
            raw.seek(self.start)
            while chunk := raw.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)):
                left = None if left is None else left - len(chunk)
                yield chunk

    def copy_to(self, out: io.FileIO, digest: Any) -> None:
        """Append the compressed bytes to a file and the plain ones to a hash. An `OSError` is of that file."""
        own = hashlib.sha256()

        def copied() -> Iterator[bytes]:
            chunks = self._raw()
            while True:
                try:
                    chunk = next(chunks, None)
                except OSError as error:
                    raise ValueError(f"{self.path} cannot be read") from error
                if chunk is None:
                    return
                _write_whole(out, chunk)
                yield chunk

        for chunk in _decompressed(copied()):
            own.update(chunk)
            digest.update(chunk)
        if own.hexdigest() != self.sha256:
            raise ValueError(f"{self.path} is not what was written")


class _Entry(msgspec.Struct):
    key: str
    size: int
    records: int
    sha256: str
    about: msgspec.Raw


_ENTRIES = msgspec.json.Decoder(_Entry)


def shards_of(records: Path, index: Path) -> Iterator[Shard]:
    """As far as index and records were written."""
    start, end = 0, records.stat().st_size
    with index.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            entry = _ENTRIES.decode(line)
            if start + entry.size > end:
                return
            yield Shard(records, entry.key, start, entry.size, entry.records, entry.sha256, bytes(entry.about))
            start += entry.size


def kept_shards(folder: Path) -> dict[str, Shard]:
    """By key what a stage that is done or was killed has made; the newest last."""
    sources = [(folder / RECORDS, folder / SHARDS)]
    sources += [(index.with_suffix(".zst"), index) for index in sorted((folder / UNFINISHED).glob("*.jsonl"))]
    there = [(records, index) for records, index in sources if records.exists() and index.exists()]
    return {shard.key: shard for records, index in there for shard in shards_of(records, index) if shard.key}


class ShardWriter:
    """Writes the records of a stage shard by shard. What an earlier attempt or version of the stage made is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.scratch, self._kept = folder, folder / UNFINISHED, kept_shards(folder)
        self.scratch.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(8)
        # Without buffers, because what a buffer could not write cannot be taken back.
        self._records = (self.scratch / f"{name}.zst").open("xb", buffering=0)
        self._index = (self.scratch / f"{name}.jsonl").open("xb", buffering=0)
        self._digest, self._number = hashlib.sha256(), 0

    def kept(self) -> Iterator[Shard]:
        return iter(self._kept.values())

    def find(self, key: str) -> Shard | None:
        return self._kept.get(key)

    def add(self, shard: Shard) -> None:
        """Copy it from the file where it is. Where that fails nothing is added: one of `DAMAGED` where the shard is, an
        `OSError` where it cannot be written."""
        digest, ends = self._digest.copy(), (self._records.tell(), self._index.tell())
        entry = _Entry(shard.key, shard.size or 0, shard.records, shard.sha256 or "", msgspec.Raw(shard.about))
        try:
            if shard.size:
                shard.copy_to(self._records, digest)
            _write_whole(self._index, msgspec.json.encode(entry) + b"\n")
        except BaseException:
            for file, end in zip((self._records, self._index), ends, strict=True):
                file.seek(end)
                file.truncate()
            raise
        self._digest, self._number = digest, self._number + shard.records

    def close(self) -> Written:
        """Put what was written into the place of what was there. The stage is not done until its next manifest."""
        if not self._records.tell():
            _write_whole(self._records, zstandard.ZstdCompressor().compress(b""))
        for file in (self._records, self._index):
            os.fsync(file.fileno())
            file.close()
        _remove_left_behind(self._folder / RECORDS)
        (self._folder / "manifest.json").unlink(missing_ok=True)
        Path(self._records.name).rename(self._folder / RECORDS)
        Path(self._index.name).rename(self._folder / SHARDS)
        shutil.rmtree(self.scratch)
        return Written(self._digest.hexdigest(), self._number)


def write_shard(path: Path, key: str, chunks: Iterable[bytes], about: object) -> Shard:
    """A shard in a file of its own, for a `ShardWriter` to add. Nothing is written where there is no record."""
    with path.open("wb") as raw:
        written = _compress(raw, chunks)
        size = raw.tell() if written.records else 0
    return Shard(path, key, 0, size, written.records, written.sha256, msgspec.json.encode(about))


def encoded(records: Iterable[BaseModel]) -> Iterator[bytes]:
    """Records as JSON lines."""
    return (record.model_dump_json().encode() + b"\n" for record in records)


def write_records(path: Path, records: Iterable[BaseModel]) -> Written:
    """Write `records` compressed, as one shard. The file appears whole or not at all."""
    return write_lines(path, encoded(records))


def write_lines(path: Path, chunks: Iterable[bytes]) -> Written:
    """JSON lines in pieces of any size, compressed, as one shard. The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(path)
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as raw:
            fcntl.flock(raw, fcntl.LOCK_SH)
            written = _compress(raw, chunks)
            raw.flush()
            os.fsync(raw.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return written


def read_records(path: Path, record_type: type[AnyRecord]) -> Iterator[AnyRecord]:
    """The records of a file, one at a time."""
    return Shard(path).read(record_type)


def write_atomically(path: Path, text: str) -> None:
    """Write `text` so that the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    with temporary.open("x", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(path)


def _write_whole(out: io.FileIO, content: bytes) -> None:
    """A disk that is nearly full takes a part."""
    left = memoryview(content)
    while left:
        left = left[out.write(left) :]


def _compress(raw: BinaryIO, chunks: Iterable[bytes]) -> Written:
    digest, number = hashlib.sha256(), 0
    with zstandard.ZstdCompressor(level=1).stream_writer(raw, closefd=False) as out:
        for chunk in chunks:
            digest.update(chunk)
            out.write(chunk)
            number += chunk.count(b"\n")
    return Written(digest.hexdigest(), number)


def _decompressed(raw: Iterable[bytes]) -> Iterator[bytes]:
    """A file that was cut off is an error; the stream readers of zstandard take it for a shorter one."""
    decompressor = zstandard.ZstdDecompressor()
    decoder, is_whole = decompressor.decompressobj(), False
    for chunk in raw:
        while chunk:
            if is_whole:
                decoder = decompressor.decompressobj()
            yield decoder.decompress(chunk)
            is_whole, chunk = decoder.eof, decoder.unused_data
    if not is_whole:
        raise zstandard.ZstdError("the file was cut off")


def _temporary(path: Path) -> Path:
    """Process ids are no names: two containers on one run may both be number 1."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _remove_left_behind(path: Path) -> None:
    """What writers that died did not finish. One that lives, in any container, holds a lock on its file."""
    for file in path.parent.glob(f".{path.name}.*"):
        with suppress(OSError), file.open("rb") as raw:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
