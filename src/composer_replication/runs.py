"""The run directory: the contract between stages.

    RUN/config.json                       the resolved config; another config is refused
    RUN/manifest.json                     where and with which version the run began
    RUN/<noun>/records.jsonl.zst          what the stage wrote; see `store.py` for its shards
    RUN/<noun>/manifest.json              written last: the stage is done; counts, hashes (also of files beside the
                                          records), inputs

A crash leaves a stage without its manifest, and the stage is done again, less the shards that are whole. Files appear
whole or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import time
from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import zstandard
from pydantic import BaseModel

from . import __version__
from .config import Config, parse_config
from .errors import RecomposeError, UsageError, quoted
from .objective import SdpoSettings, need_pairs
from .origin import made_with
from .records import content_id, digest_of
from .store import (
    RECORDS,
    SHARDS,
    AnyRecord,
    Shard,
    ShardWriter,
    Written,
    encoded,
    read_records,
    shards_of,
    write_atomically,
    write_lines,
    write_records,
)

__all__ = [
    "IN_ORDER", "LOCK", "NEW_RUN", "NEXT_COMMAND", "RECORDS", "STORED", "Run", "Shard", "ShardWriter", "StageFolder",
    "Written", "encoded", "locked", "needed", "read_records", "write_atomically", "write_lines", "write_records",
]  # fmt: skip

LOCK = ".lock"
NEW_RUN = "recompose ingest PATH --run DIR"
_TRACE_ID = re.compile(rb'\{"schema_version":1,"trace_id":"([^"\\]*)"')


class Run:
    """One run directory and the config that owns it."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.config = config

    @classmethod
    def start(cls, path: Path, config: Config, more: Mapping[str, Any] | None = None, is_dry: bool = False) -> Run:
        """Create the directory, or resume it when its config is the same. `more` is what else its manifest says.
        `is_dry`: write nothing."""
        if (path / "config.json").exists():
            run = cls.open(path)
            if run.config.hash != config.hash:
                change = _first_difference(run.config.model_dump(mode="json"), config.model_dump(mode="json"))
                raise UsageError(
                    f"{path} belongs to another config ({change})",
                    f"choose another folder for the run, or recompose fork {quoted(path)} NEW --set KEY=VALUE",
                )
            return run
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists and is not a run", "choose another folder for the run")
        if is_dry:
            return cls(path, config)
        began = {
            **made_with(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "config_hash": config.hash,
            **(more or {}),
        }
        write_atomically(path / "config.json", json.dumps(config.model_dump(mode="json"), indent=2) + "\n")
        write_atomically(path / "manifest.json", json.dumps(began, indent=2) + "\n")
        return cls(path, config)

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run that is there already. One whose config was edited by hand is refused."""
        try:
            values = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            wrong = "is not a run" if path.exists() else "does not exist"
            raise UsageError(f"{path} {wrong}", NEW_RUN) from error
        if isinstance(values, dict) and "model_type" in values:
            raise UsageError(f"{path} is a model and not a run", "name its run, or set model.name to it in a new one")
        config = parse_config(values, str(path / "config.json"), NEW_RUN)
        manifest = path / "manifest.json"
        if manifest.exists() and json.loads(manifest.read_text(encoding="utf-8"))["config_hash"] != digest_of(values):
            raise UsageError(
                f"{path / 'config.json'} is not what {path} began with: it was edited, and finished stages are not "
                "of these settings",
                f"put it back, then recompose fork {quoted(path)} NEW --set KEY=VALUE",
            )
        return cls(path, config)

    @property
    def origin(self) -> dict[str, Any]:
        """Where and with what the run began."""
        return json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))

    def stage(self, noun: str) -> StageFolder:
        """The folder of a stage; `noun` is its name there, such as `ingestion` or `hints`."""
        return StageFolder(self.path / noun)

    def done_stages(self) -> list[StageFolder]:
        """In the order of the pipeline."""
        return [stage for noun in NEXT_COMMAND if (stage := self.stage(noun)).is_done]

    def up_to_date(self) -> list[str]:
        """Stages that are done and were made from those that are there now."""
        found = ((noun, self.stage(noun), IN_ORDER[:place]) for place, noun in enumerate(IN_ORDER))
        return [noun for noun, stage, earlier in found if stage.is_done and not stage.made_from_another(earlier)]

    def next_command(self, done: Iterable[str], place: str | None = None) -> str | None:
        """For the first stage that is not done and that the config has a use for; `place` stands for the path."""
        begun = {*done, *(stage.noun for stage in self.done_stages())}
        passed = {*done} | _no_use_for(self.config, begun)
        noun = next((noun for noun in IN_ORDER if noun not in passed), None)
        return noun and NEXT_COMMAND[noun].replace("RUN", quoted(place or self.path))

    def discard_if_empty(self) -> None:
        """Remove the files of `start` from a run in which no stage was finished, and the folder if that empties it."""
        if any((folder / "manifest.json").exists() for folder in self.path.iterdir() if folder.is_dir()):
            return
        for name in ("config.json", "manifest.json", LOCK):
            (self.path / name).unlink(missing_ok=True)
        for folder in [*(item for item in self.path.iterdir() if item.is_dir()), self.path]:
            if not any(folder.iterdir()):
                folder.rmdir()

    def checkpoints(self) -> dict[int, Path]:
        """Of a training that has not ended, by step."""
        found = (self.path / "training" / "scratch").glob("checkpoint-*/composer-0.safetensors")
        return dict(sorted((int(path.parent.name.partition("-")[2]), path.parent) for path in found))

    def is_in_use(self) -> bool:
        """Whether a command works on it now."""
        try:
            with (self.path / LOCK).open(encoding="utf-8") as handle:
                return not _taken(handle, fcntl.LOCK_SH)
        except OSError:
            return False

    def lock(self) -> AbstractContextManager[None]:
        """One writer at a time; another one gets an `UsageError`."""
        return locked(self.path)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """One writer per folder. The lock ends with its process, however that ends. Who may not write, only reads."""
    if folder.is_dir() and not os.access(folder, os.W_OK):
        yield
        return
    with (folder / LOCK).open("a+", encoding="utf-8") as handle:
        # Twice: `is_in_use` has it for an instant.
        if not _taken(handle, fcntl.LOCK_EX) and not _taken(handle, fcntl.LOCK_EX, after_s=0.05):
            handle.seek(0)
            raise UsageError(
                f"{folder} is in use by another process ({handle.read()})",
                "wait for it to end, or stop it, then run the same command",
            )
        handle.truncate(0)
        handle.write(f"{os.getpid()} on {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
        handle.flush()
        yield


def _taken(handle: TextIO, kind: int, after_s: float = 0.0) -> bool:
    time.sleep(after_s)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
            raise self.damaged() from error

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

    def stream(
        self, record_type: type[AnyRecord], shard: Shard | None = None, only: Container[str] | None = None
    ) -> Iterator[AnyRecord]:
        """The same one by one, or those of one shard; whether the file is what the manifest says is known at its end.
        Of traces, `only` chooses by id without decoding the others."""
        return _checked(shard or self.whole(), record_type, self.damaged(), only)

    def whole(self) -> Shard:
        """All records as one shard."""
        manifest = self.require()
        return Shard(self.path / RECORDS, records=manifest["records"], sha256=manifest["sha256"])

    @property
    def shape(self) -> str | None:
        """Stages of one shape have shards that belong together, one by one; None where all is one shard."""
        return self.require().get("shards")

    def shards(self) -> Iterator[Shard]:
        """The parts that can be read apart, in their order. A stage of an earlier version is one."""
        return iter([self.whole()]) if self.shape is None else shards_of(self.path / RECORDS, self.path / SHARDS)

    def stream_beside(self, name: str, record_type: type[AnyRecord], remedy: str) -> Iterator[AnyRecord]:
        """Records of a file beside them, none where there is no such file. What the manifest says of the file, if it
        says anything, is held against it in the same way; `remedy` is what to do about a file that is damaged."""
        path, promised = self.path / name, self.require().get("beside", {}).get(name)
        if promised is None and not path.exists():
            return iter(())
        damaged = RecomposeError(f"{path} is damaged", remedy)
        return _checked(Shard(path, sha256=promised and promised["sha256"]), record_type, damaged)

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
        (self.path / SHARDS).unlink(missing_ok=True)
        self.seal(write_records(self.path / RECORDS, records), counts, inputs, started, files, beside)

    def write_shards(self) -> ShardWriter:
        """Write records shard by shard; `seal` then makes the stage done."""
        return ShardWriter(self.path)

    def seal(
        self,
        written: Written,
        counts: Mapping[str, Any],
        inputs: Iterable[StageFolder],
        started: float,
        files: Mapping[str, str] | None = None,
        beside: Mapping[str, Written] | None = None,
        shaped_like: StageFolder | None = None,
    ) -> None:
        """`shaped_like` is the stage of whose shards each became one of this stage."""
        manifest: dict[str, Any] = {
            "stage": self.noun,
            "version": __version__,
            "records": written.records,
            "sha256": written.sha256,
            "inputs": {folder.noun: folder.sha256 for folder in inputs} | dict(files or {}),
            "counts": dict(counts),
            "seconds": round(time.monotonic() - started, 3),
        }
        if (self.path / SHARDS).exists():
            own = (shard.sha256 for shard in shards_of(self.path / RECORDS, self.path / SHARDS))
            manifest["shards"] = shaped_like.shape if shaped_like else content_id(*own)
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

    def made_from_another(self, nouns: Iterable[str]) -> str | None:
        """The first of the named stages that is there and is not what this one, if it is done, was made from."""
        made_from: dict[str, str] = (self.manifest or {}).get("inputs", {})
        for noun in nouns:
            current = StageFolder(self.path.parent / noun).manifest
            if noun in made_from and current and current["sha256"] != made_from[noun]:
                return noun
        return None

    def damaged(self) -> RecomposeError:
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
    "sessions": "recompose evaluate RUN --on sessions",
    "monitor": "recompose monitor RUN",
}
IN_ORDER = ("ingestion", "sites", "hints", "replay", "pairs", "training", "evaluation", "sessions")
STORED = ("ingestion", "sites", "hints", "pairs")


def needed(config: Config) -> tuple[str, ...]:
    """The stages that training cannot do without."""
    sdpo, has_rollouts = config.channel(SdpoSettings), config.training.rollouts
    if need_pairs(config.channels):
        return STORED
    if sdpo.weight and (sdpo.source == "stored" or not has_rollouts):
        return STORED[:-1]
    return () if has_rollouts else STORED[:1]


def _no_use_for(config: Config, done: Container[str]) -> set[str]:
    """Of teachers, where no channel learns from their votes and none voted; of all traces, where rollouts are enough
    and none was read; and of one of the two measurements."""
    measured = "evaluation" if config.ingestion.paths and not config.training.rollouts else "sessions"
    if not needed(config) and "ingestion" not in done:
        return {"replay", *STORED, measured}
    return {measured} if "pairs" in needed(config) or "replay" in done else {"replay", "pairs", measured}


def _checked(
    shard: Shard, record_type: type[AnyRecord], damaged: RecomposeError, only: Container[str] | None = None
) -> Iterator[AnyRecord]:
    """Records one by one; `damaged` where they cannot be decoded or, at the end, have another hash than the given."""
    lines = shard.lines()
    while True:
        try:
            line = next(lines, None)
            if line and only is not None and (named := _TRACE_ID.match(line)) and named[1].decode() not in only:
                continue
            record = None if line is None else record_type.model_validate_json(line)
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise damaged from error
        if record is None:
            return
        yield record


def _first_difference(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> str:
    for key in new:
        if isinstance(new[key], dict) and new[key] != old.get(key):
            return _first_difference(old.get(key, {}), new[key], f"{prefix}{key}.")
        if old.get(key) != new[key]:
            return f"{prefix}{key}: {old.get(key)} there, {new[key]} now"
    return "no difference"
