"""The store in shards: what is kept, what is made again, and hashes that do not depend on either."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import secrets
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from composer_replication.cli.ingest import ingest
from composer_replication.cli.progress import Pace
from composer_replication.errors import PartialError, UsageError
from composer_replication.ingestion import ingest as reading
from composer_replication.ingestion.formats import TRACE_READERS
from composer_replication.ingestion.reading import InputFile
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import ErrorSite, Hint, Trace
from composer_replication.runs import Run
from composer_replication.stages.ingestion import has_grown
from composer_replication.store import RECORDS, SHARDS, Shard, ShardWriter, shards_of, write_lines, write_shard

LINES = [b'{"a":1}\n', b'{"a":2}\n{"a":3}\n', b"", b'{"a":4}\n']


def session(path: Path, name: str, failed: bool = True) -> Path:
    """A user, a call that fails, and a turn that ends it."""
    call = {"type": "tool_use", "id": f"t-{name}", "name": "Bash", "input": {"command": f"ls {name}"}}
    result = {
        "type": "tool_result",
        "tool_use_id": f"t-{name}",
        "is_error": failed,
        "content": "Exit code 1\nno such file",
    }
    rows = [
        {"type": "user", "message": {"content": f"list {name}"}},
        {"type": "assistant", "message": {"id": f"m1-{name}", "content": [call]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "assistant", "message": {"id": f"m2-{name}", "content": [{"type": "text", "text": "done"}]}},
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps({**row, "sessionId": name, "uuid": f"{name}-{n}"}) + "\n" for n, row in enumerate(rows))
    )
    return path


def fill(writer: ShardWriter, lines: list[bytes] = LINES, keys: str = "abcd") -> None:
    for number, (key, chunk) in enumerate(zip(keys, lines, strict=True)):
        writer.add(write_shard(writer.scratch / f"{number}.shard", key, [chunk] if chunk else [], {"number": number}))


def test_the_hash_does_not_depend_on_where_shards_end(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "stage")
    fill(writer)
    written = writer.close()
    assert written == write_lines(tmp_path / "one.zst", [b"".join(LINES)])
    assert written.sha256 == hashlib.sha256(b"".join(LINES)).hexdigest()
    assert list(Shard(tmp_path / "stage" / RECORDS).lines()) == b"".join(LINES).splitlines(keepends=True)


def test_a_killed_attempt_keeps_its_whole_shards(tmp_path: Path) -> None:
    """Also one that was killed while it took over the shards of another."""
    fill(ShardWriter(tmp_path), LINES[:3], "abc")
    again = ShardWriter(tmp_path)
    kept = again.find("a")
    assert kept and kept.records == 1
    again.add(kept)
    third = ShardWriter(tmp_path)
    assert {key: third.find(key) is not None for key in "abcd"} == {"a": True, "b": True, "c": True, "d": False}


def test_a_damaged_shard_is_not_added(tmp_path: Path) -> None:
    fill(ShardWriter(tmp_path))
    (records,) = (tmp_path / "unfinished").glob("*.zst")
    content = bytearray(records.read_bytes())
    content[len(content) // 2] ^= 0xFF
    records.write_bytes(content)
    writer = ShardWriter(tmp_path)
    wrong = 0
    for key, lines in zip("abcd", LINES, strict=True):
        shard = writer.find(key)
        assert shard is not None
        try:
            writer.add(shard)
        except (ValueError, zstandard.ZstdError):
            wrong += 1
            writer.add(write_shard(writer.scratch / "again.shard", key, [lines], None))
    assert wrong == 1
    assert writer.close().sha256 == hashlib.sha256(b"".join(LINES)).hexdigest()


@contextmanager
def disk_full_at(size: int) -> Generator[None]:
    """No file of this process grows beyond that many bytes: writes are cut there, then fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("full", ["zst", "jsonl"])
def test_a_write_that_fails_adds_nothing(tmp_path: Path, full: str) -> None:
    writer = ShardWriter(tmp_path)
    fill(writer, LINES[:1], "a")
    about = {"long": "x" * 500} if full == "jsonl" else None
    last = write_shard(writer.scratch / "last.shard", "b", [LINES[1]], about)
    (grows,) = writer.scratch.glob(f"*.{full}")
    with disk_full_at(grows.stat().st_size + 5), pytest.raises(OSError, match="too large"):
        writer.add(last)
    writer.add(last)
    written = writer.close()
    assert written.records == 3
    assert written.sha256 == hashlib.sha256(b"".join(LINES[:2])).hexdigest()
    shards = list(shards_of(tmp_path / RECORDS, tmp_path / SHARDS))
    assert [list(shard.lines()) for shard in shards] == [part.splitlines(keepends=True) for part in LINES[:2]]
    assert sum(shard.size or 0 for shard in shards) == (tmp_path / RECORDS).stat().st_size


def test_a_full_disk_ends_the_reading_and_is_not_the_fault_of_a_file(tmp_path: Path) -> None:
    folder, run = tmp_path / "sessions", tmp_path / "run"
    rows = session(folder / "a.jsonl", "a").read_text()
    (folder / "a.jsonl").write_text(rows.replace("list a", secrets.token_hex(1 << 19)))
    with disk_full_at(1 << 18), pytest.raises(OSError, match="too large"):
        ingest(folder, run=run, workers=1)
    ingest(folder, run=run, workers=1)
    stage = Run.open(run).stage("ingestion")
    assert [len(trace.turns) for trace in stage.read(Trace)] == [2]
    assert stage.counts["quarantined"] == {}


@pytest.mark.parametrize("problem", [OSError(errno.EIO, "Input/output error"), MemoryError()])
def test_a_file_that_could_not_be_read_to_its_end_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    known = TRACE_READERS["claude_code"]

    def failing(file: InputFile) -> Iterator[Any]:
        yield from known.read(file)
        raise problem

    folder, run = tmp_path / "sessions", tmp_path / "run"
    for name in "ab":
        session(folder / f"{name}.jsonl", name)
    with monkeypatch.context() as patch:
        patch.setitem(TRACE_READERS, "claude_code", known._replace(read=failing))
        for _ in range(2):
            with pytest.raises(PartialError, match="2 × reader failed"):
                ingest(folder, run=run, workers=1)
    assert has_grown(Run.open(run))
    (folder / "b.jsonl").unlink()
    with pytest.raises(PartialError, match="1 × reader failed"):
        ingest(folder, run=run)
    stage = Run.open(run).stage("ingestion")
    assert not has_grown(Run.open(run))
    assert [trace.source.file for trace in stage.read(Trace)] == ["b.jsonl", "a.jsonl"]


def test_a_shard_that_cannot_be_read_counts_as_damaged(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "gone.shard", "a", LINES[:1], None)
    shard.path.unlink()
    writer = ShardWriter(tmp_path)
    with pytest.raises(ValueError, match="cannot be read"):
        writer.add(shard)


def test_a_renewed_reading_without_a_trace_leaves_the_stage_as_it_was(tmp_path: Path) -> None:
    file, run = session(tmp_path / "s.jsonl", "s"), tmp_path / "run"
    ingest(file, run=run)
    stage = Run.open(run).stage("ingestion")
    before = {path.name: path.read_bytes() for path in stage.path.iterdir()}
    file.write_text(file.read_text().splitlines(keepends=True)[0])
    with pytest.raises(UsageError, match="no turn"):
        ingest(file, run=run)
    assert {path.name: path.read_bytes() for path in stage.path.iterdir()} == before


def test_a_file_that_is_gone_and_whose_shard_is_damaged_is_said_to_be_lost(tmp_path: Path) -> None:
    folder, run = tmp_path / "sessions", tmp_path / "run"
    gone = session(folder / "a.jsonl", "a")
    session(folder / "b.jsonl", "b")
    ingest(folder, run=run)
    stage = Run.open(run).stage("ingestion")
    content = bytearray((stage.path / RECORDS).read_bytes())
    content[(next(stage.shards()).size or 0) // 2] ^= 0xFF
    (stage.path / RECORDS).write_bytes(content)
    gone.unlink()
    session(folder / "c.jsonl", "c")
    with pytest.raises(PartialError, match="lost"):
        ingest(folder, run=run)
    assert [trace.source.file for trace in stage.read(Trace)] == ["b.jsonl", "c.jsonl"]
    (aside,) = map(json.loads, (stage.path / "quarantine.jsonl").read_text().splitlines())
    assert aside["file"] == "a.jsonl"


def test_a_file_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path)
    fill(writer)
    writer.close()
    whole = (tmp_path / RECORDS).read_bytes()
    (tmp_path / RECORDS).write_bytes(whole[:-1])
    with pytest.raises(zstandard.ZstdError):
        list(Shard(tmp_path / RECORDS).lines())


def test_a_folder_that_grows_is_read_only_where_it_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingestion, sites and hints then have the hashes of a run that saw everything at once."""
    read: list[str] = []

    def noted(job: reading.FileJob) -> Shard:
        read.append(job.input.name)
        return read_file(job)

    read_file = reading.read_file
    monkeypatch.setattr(reading, "read_file", noted)
    folder, run = tmp_path / "sessions", tmp_path / "run"
    for name in "bd":
        session(folder / f"{name}.jsonl", name)

    def finish(path: Path) -> list[str]:
        ingest(folder, run=path)
        opened = Run.open(path)
        for noun in ("sites", "hints"):
            run_stage(opened, noun, Silent())
        return [opened.stage(noun).sha256 for noun in ("ingestion", "sites", "hints")]

    finish(run)
    read.clear()
    ingest(folder, run=run)
    assert read == []
    session(folder / "a.jsonl", "a")
    session(folder / "c.jsonl", "c", failed=False)
    session(folder / "d.jsonl", "d2")
    grown = finish(run)
    assert read == ["a.jsonl", "c.jsonl", "d.jsonl"]
    assert grown == finish(tmp_path / "fresh")
    stage = Run.open(run).stage("hints")
    assert [len(list(stage.stream(Hint, shard))) for shard in stage.shards()] == [1, 1, 0, 1]


def test_a_session_that_is_gone_keeps_its_trace(tmp_path: Path) -> None:
    folder, run = tmp_path / "sessions", tmp_path / "run"
    gone = session(folder / "b.jsonl", "b")
    session(folder / "a.jsonl", "a")
    ingest(folder, run=run)
    gone.unlink()
    session(folder / "c.jsonl", "c")
    ingest(folder, run=run)
    traces = Run.open(run).stage("ingestion").read(Trace)
    assert sorted(trace.source.file or "" for trace in traces) == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_a_file_does_not_take_the_place_of_one_of_its_name_that_is_gone(tmp_path: Path) -> None:
    """Names are told apart by folders where two files have one; what is gone keeps the name that it had."""
    first, second = (session(tmp_path / name / "x.jsonl", name) for name in "AB")
    folders, run = (first.parent, second.parent), tmp_path / "run"

    def names_read() -> list[str]:
        ingest(*folders, run=run)
        return [trace.source.file or "" for trace in Run.open(run).stage("ingestion").read(Trace)]

    assert names_read() == ["x.jsonl", "B/x.jsonl"]
    whole = Run.open(run).stage("ingestion").sha256
    first.unlink()
    assert not has_grown(Run.open(run))
    session(second, "B2")
    assert names_read() == ["x.jsonl", "B/x.jsonl"]
    session(first, "A2")
    second.unlink()
    assert names_read() == ["B/x.jsonl", "x.jsonl"]
    for file, name in ((first, "A"), (second, "B")):
        session(file, name)
    assert names_read() == ["x.jsonl", "B/x.jsonl"]
    assert Run.open(run).stage("ingestion").sha256 == whole


def test_a_file_that_comes_where_one_of_its_name_went_is_another(tmp_path: Path) -> None:
    gone, run = session(tmp_path / "B" / "x.jsonl", "B"), tmp_path / "run"
    folders = tmp_path / "A", tmp_path / "B"
    folders[0].mkdir()
    ingest(*folders, run=run)
    gone.unlink()
    session(tmp_path / "A" / "x.jsonl", "A")
    for _ in range(2):
        ingest(*folders, run=run)
        traces = Run.open(run).stage("ingestion").read(Trace)
        assert [trace.source.file for trace in traces] == ["x.jsonl", "A/x.jsonl"]
    session(gone, "B2")
    ingest(*folders, run=run)
    stage = Run.open(run).stage("ingestion")
    assert [trace.source.file for trace in stage.read(Trace)] == ["x.jsonl", "B/x.jsonl"]
    assert stage.counts["files"] == 2


def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    for name in "abcdef":
        session(folder / f"{name}.jsonl", name)
    found: set[tuple[str, ...]] = set()
    for workers in (1, 2):
        ingest(folder, run=tmp_path / f"{workers}", workers=workers)
        run = Run.open(tmp_path / f"{workers}")
        for noun in ("sites", "hints"):
            run_stage(run, noun, Silent(), workers=workers)
        stages = [run.stage(noun) for noun in ("ingestion", "sites", "hints")]
        found.add(tuple(hashlib.sha256((stage.path / RECORDS).read_bytes()).hexdigest() for stage in stages))
    assert len(found) == 1


def test_a_run_of_an_earlier_version_is_one_shard(tmp_path: Path) -> None:
    session(tmp_path / "s.jsonl", "s")
    ingest(tmp_path / "s.jsonl", run=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    stage = run.stage("ingestion")
    manifest = stage.require()
    del manifest["shards"]
    (stage.path / "manifest.json").write_text(json.dumps(manifest))
    (stage.path / SHARDS).unlink()
    for noun in ("sites", "hints"):
        run_stage(run, noun, Silent())
    assert len(run.stage("sites").read(ErrorSite)) == len(run.stage("hints").read(Hint)) == 1
    ingest(tmp_path / "s.jsonl", run=tmp_path / "run")
    assert run.stage("ingestion").shape is None


def test_what_is_not_chosen_is_not_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    for name in "ab":
        session(folder / f"{name}.jsonl", name)
    ingest(folder, run=tmp_path / "run")
    stage = Run.open(tmp_path / "run").stage("ingestion")
    _, second = stage.read(Trace)
    assert list(stage.stream(Trace, only={second.trace_id})) == [second]
    assert list(stage.stream(Trace, only=())) == []


def test_time_left_goes_by_the_pace_of_the_last_minute() -> None:
    pace = Pace()
    assert pace.left(0, 100, 0) is None
    assert pace.left(50, 100, 10) == 10
    assert pace.left(60, 100, 80) == pytest.approx(280)
    assert pace.left(100, 100, 90) is None


def test_time_left_counts_the_whole_of_a_long_step_that_tells_its_parts() -> None:
    pace = Pace()
    assert [pace.left(0, 10, now) for now in (0, 30, 90)] == [None, None, None]
    assert pace.left(1, 10, 100) == 900
    assert [pace.left(1, 10, now) for now in (130, 230)] == [900, 900]
    assert pace.left(2, 10, 240) == 140 * 8


def test_a_copy_of_a_run_elsewhere_reads_the_same(tmp_path: Path) -> None:
    session(tmp_path / "s.jsonl", "s")
    ingest(tmp_path / "s.jsonl", run=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    os.rename(tmp_path / "run", tmp_path / "moved")
    stage = Run.open(tmp_path / "copy").stage("ingestion")
    assert [shard.path.parent for shard in stage.shards()] == [stage.path]
    assert len(stage.read(Trace)) == 1
