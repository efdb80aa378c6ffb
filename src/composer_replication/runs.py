"""The run directory: the contract between stages.

    RUN/config.json                       the resolved config; another config is refused
    RUN/manifest.json                     where and with which version the run began
    RUN/<noun>/records.jsonl.zst          what the stage wrote
    RUN/<noun>/manifest.json              written last: the stage is done; counts, hashes (also of files beside the
                                          records), inputs

A crash leaves a stage without its manifest, and the stage is done again. Files appear whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import platform
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import zstandard
from pydantic import BaseModel

from . import __version__
from .config import Config, parse_config
from .errors import RecomposeError, UsageError, quoted

AnyRecord = TypeVar("AnyRecord", bound=BaseModel)
RECORDS = "records.jsonl.zst"
CHUNK_BYTES = 1 << 16


class Run:
    """One run directory and the config that owns it."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.config = config

    @classmethod
    def start(cls, path: Path, config: Config) -> Run:
        """Create the directory, or resume it when its config is the same."""
        if (path / "config.json").exists():
            run = cls.open(path)
            if run.config.hash != config.hash:
                change = _first_difference(run.config.model_dump(mode="json"), config.model_dump(mode="json"))
                raise UsageError(f"{path} belongs to another config ({change})", "choose another --run folder")
            return run
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists and is not a run", "choose another --run folder")
        origin = {
            "version": __version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "config_hash": config.hash,
        }
        write_atomically(path / "config.json", json.dumps(config.model_dump(mode="json"), indent=2) + "\n")
        write_atomically(path / "manifest.json", json.dumps(origin, indent=2) + "\n")
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> Run:
        try:
            values = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            wrong = "is not a run" if path.exists() else "does not exist"
            raise UsageError(f"{path} {wrong}", "recompose ingest PATH --run DIR") from error
        return cls(path, parse_config(values, str(path / "config.json")))

    def stage(self, noun: str) -> StageFolder:
        return StageFolder(self.path / noun)

    def done_stages(self) -> list[StageFolder]:
        """In the order of the pipeline."""
        return [stage for noun in NEXT_COMMAND if (stage := self.stage(noun)).is_done]

    def discard_if_empty(self) -> None:
        """Remove the files of `start` from a run in which no stage was finished, and the folder if that empties it."""
        if any((folder / "manifest.json").exists() for folder in self.path.iterdir() if folder.is_dir()):
            return
        for name in ("config.json", "manifest.json", ".lock"):
            (self.path / name).unlink(missing_ok=True)
        for folder in [*(item for item in self.path.iterdir() if item.is_dir()), self.path]:
            if not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def lock(self) -> Generator[None]:
        """One writer per run."""
        with (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(f"{self.path} is in use by another process", "wait for it to end") from error
            yield


class StageFolder:
    """Records and manifest of one stage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.noun = path.name

    @property
    def manifest(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise self._damaged() from error

    @property
    def is_done(self) -> bool:
        return self.manifest is not None

    @property
    def counts(self) -> dict[str, Any]:
        return self.require()["counts"]

    @property
    def sha256(self) -> str:
        return self.require()["sha256"]

    def read(self, record_type: type[AnyRecord]) -> list[AnyRecord]:
        """All records of a finished stage; a file that is not what the manifest says is refused."""
        return list(self.stream(record_type))

    def stream(self, record_type: type[AnyRecord]) -> Iterator[AnyRecord]:
        """The same one by one; whether the file is what the manifest says is known at its end."""
        return _checked(self.path / RECORDS, record_type, self.require()["sha256"], self._damaged())

    def stream_beside(self, name: str, record_type: type[AnyRecord], remedy: str) -> Iterator[AnyRecord]:
        """Records of a file beside them, none where there is no such file. What the manifest says of the file, if it
        says anything, is held against it in the same way; `remedy` is what to do about a file that is damaged."""
        path, promised = self.path / name, self.require().get("beside", {}).get(name)
        if promised is None and not path.exists():
            return iter(())
        damaged = RecomposeError(f"{path} is damaged", remedy)
        return _checked(path, record_type, promised and promised["sha256"], damaged)

    def finish(
        self,
        records: Iterable[BaseModel],
        counts: Mapping[str, Any],
        inputs: Iterable[StageFolder],
        started: float,
        files: Mapping[str, str] | None = None,
        beside: Mapping[str, Written] | None = None,
    ) -> None:
        """Write the records, then the manifest that makes the stage done. `files` are hashes of outside input, `beside`
        is what else was written into the stage's folder."""
        self.seal(write_records(self.path / RECORDS, records), counts, inputs, started, files, beside)

    def write_lines(self, chunks: Iterable[bytes]) -> Written:
        """Write records that are encoded already; `seal` then makes the stage done."""
        return write_lines(self.path / RECORDS, chunks)

    def seal(
        self,
        written: Written,
        counts: Mapping[str, Any],
        inputs: Iterable[StageFolder],
        started: float,
        files: Mapping[str, str] | None = None,
        beside: Mapping[str, Written] | None = None,
    ) -> None:
        manifest = {
            "stage": self.noun,
            "version": __version__,
            "records": written.records,
            "sha256": written.sha256,
            "inputs": {folder.noun: folder.sha256 for folder in inputs} | dict(files or {}),
            "counts": dict(counts),
            "seconds": round(time.monotonic() - started, 3),
        }
        if beside:
            manifest["beside"] = {name: each._asdict() for name, each in beside.items()}
        write_atomically(self.path / "manifest.json", json.dumps(manifest, indent=2) + "\n")

    def require(self) -> dict[str, Any]:
        """The manifest of a finished stage; an error that names the verb to run otherwise."""
        manifest = self.manifest
        if manifest is None:
            command = NEXT_COMMAND[self.noun].replace("RUN", quoted(self.path.parent))
            raise UsageError(f"{self.path.parent} has no finished {self.noun} stage", command)
        return manifest

    def refuse_stale(self, nouns: Iterable[str]) -> None:
        """Those of the named stages that are there must be what this one, if it is done, was made from."""
        made_from: dict[str, str] = (self.manifest or {}).get("inputs", {})
        for noun in nouns:
            current = StageFolder(self.path.parent / noun).manifest
            if noun in made_from and current and current["sha256"] != made_from[noun]:
                raise UsageError(
                    f"{self.path} was made from another {noun}",
                    f"delete {quoted(self.path)} and what comes after, then run the same command",
                )

    def _damaged(self) -> RecomposeError:
        return RecomposeError(
            f"{self.path} is damaged", f"delete {quoted(self.path)} and what comes after, then do the stage again"
        )


NEXT_COMMAND = {
    "policy": "recompose train RUN",
    "ingestion": "recompose ingest PATH --run RUN",
    "sites": "recompose sites RUN",
    "hints": "recompose hint RUN",
    "samples": "recompose replay RUN --policy MODEL",
    "replay": "recompose replay RUN",
    "pairs": "recompose pair RUN",
    "training": "recompose train RUN",
    "evaluation": "recompose evaluate RUN",
    "monitor": "recompose monitor RUN",
}


class Written(NamedTuple):
    """The hash is over the uncompressed bytes, so it does not depend on the compressor."""

    sha256: str
    records: int


def encoded(records: Iterable[BaseModel]) -> Iterator[bytes]:
    return (record.model_dump_json().encode() + b"\n" for record in records)


def write_records(path: Path, records: Iterable[BaseModel]) -> Written:
    return write_lines(path, encoded(records))


def write_lines(path: Path, chunks: Iterable[bytes]) -> Written:
    """JSON lines in pieces of any size, compressed. The file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, number = hashlib.sha256(), 0
    _remove_left_behind(path)
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as raw:
            fcntl.flock(raw, fcntl.LOCK_SH)
            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as out:
                for chunk in chunks:
                    digest.update(chunk)
                    out.write(chunk)
                    number += chunk.count(b"\n")
            raw.flush()
            os.fsync(raw.fileno())
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Written(digest.hexdigest(), number)


def _temporary(path: Path) -> Path:
    """Process ids are no names: two containers on one run may both be number 1."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _remove_left_behind(path: Path) -> None:
    """What writers that died did not finish. One that lives, in any container, holds a lock on its file."""
    for file in path.parent.glob(f".{path.name}.*"):
        with suppress(OSError), file.open("rb") as raw:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()


def read_records(path: Path, record_type: type[AnyRecord]) -> Iterator[AnyRecord]:
    return map(record_type.model_validate_json, _lines(path))


def _checked(
    path: Path, record_type: type[AnyRecord], sha256: str | None, damaged: RecomposeError
) -> Iterator[AnyRecord]:
    """Records one by one; `damaged` where they cannot be decoded or, at the end, have another hash than the given."""
    lines, digest = _lines(path), hashlib.sha256()
    while True:
        try:
            line = next(lines, None)
            record = None if line is None else record_type.model_validate_json(line)
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise damaged from error
        if line is None or record is None:
            break
        digest.update(line)
        yield record
    if sha256 is not None and digest.hexdigest() != sha256:
        raise damaged


def _lines(path: Path) -> Iterator[bytes]:
    """A file that was cut off is an error; the stream readers of zstandard take it for a shorter one."""
    decoder, begun = zstandard.ZstdDecompressor().decompressobj(), list[bytes]()
    with path.open("rb") as raw:
        while chunk := raw.read(CHUNK_BYTES):
            for piece in io.BytesIO(decoder.decompress(chunk)):
                begun.append(piece)
                if piece.endswith(b"\n"):
                    yield b"".join(begun)
                    begun.clear()
    if not decoder.eof:
        raise zstandard.ZstdError(f"{path} was cut off")
    if begun:
        yield b"".join(begun)


def write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    with temporary.open("x", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(path)


def _first_difference(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> str:
    for key in new:
        if isinstance(new[key], dict) and new[key] != old.get(key):
            return _first_difference(old.get(key, {}), new[key], f"{prefix}{key}.")
        if old.get(key) != new[key]:
            return f"{prefix}{key}: {old.get(key)} there, {new[key]} now"
    return "no difference"
