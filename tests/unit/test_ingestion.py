"""Folders of session files: what is read, what is set aside, and turns that several files share."""

from __future__ import annotations

import gzip
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard

from composer_replication.cli.ingest import ingest as ingest_command
from composer_replication.errors import UsageError
from composer_replication.ingestion import Ingestion, find_inputs, reading
from composer_replication.ingestion.formats import TRACE_READERS
from composer_replication.records import Trace
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from tests.ingested import stored_lines

READ_PIPES = """
import sys
from pathlib import Path
from composer_replication.ingestion import Ingestion, Inputs
from composer_replication.ingestion.inputs import Input
from composer_replication.progress import Silent
from composer_replication.store import ShardWriter

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    files = [Input(path, "claude_code", name=path.name) for path in folder.glob("*.jsonl")]
    Ingestion(Inputs(files), redact=False, workers=2).write(ShardWriter(folder / "stage"), Silent())
"""
UNREADABLE = {"empty": b"\n", "not text": b"PK\x03\x04\x00\xff", "no known format": b'{"a": 1}\n'}


def turn(message_id: str, text: str = "hi", session: str = "s") -> dict[str, Any]:
    message = {"id": message_id, "model": "claude-opus-4-6", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "sessionId": session, "uuid": f"u-{message_id}", "message": message}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Found(NamedTuple):
    traces: list[Trace]
    reading: Ingestion


def ingest(tmp_path: Path, *paths: Path, jobs: int = 1) -> Found:
    reading = Ingestion(find_inputs(paths), redact=False, workers=jobs)
    return Found([Trace.model_validate_json(line) for line in stored_lines(reading)], reading)


@pytest.mark.parametrize(("reason", "content"), UNREADABLE.items())
def test_an_unreadable_file_is_a_usage_error(tmp_path: Path, reason: str, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    for path in (tmp_path / "x.jsonl", tmp_path):
        with pytest.raises(UsageError, match=f"{reason}.*; next: recompose ingest"):
            find_inputs([path])


def test_the_sessions_of_claude_code_need_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude/projects/mine").mkdir(parents=True)
    write(tmp_path / ".claude/projects/mine/s.jsonl", turn("m1"))
    ingest_command(run=tmp_path / "run", claude_code=True, json=True)
    assert len(Run.open(tmp_path / "run").stage("ingestion").read(Trace)) == 1


def test_nothing_to_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file or folder"):
        find_inputs([tmp_path / "missing.jsonl"])
    with pytest.raises(UsageError, match="there is no file or folder /dev/null"):
        find_inputs([Path("/dev/null")])
    with pytest.raises(UsageError, match="no session"):
        find_inputs([tmp_path])


def test_a_folder_keeps_what_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    write(folder / "a" / "s.jsonl", turn("m1"))
    write(folder / "a" / "agent-1.jsonl", turn("m7"))
    write(folder / "a" / "subagents" / "x.jsonl", turn("m8"))
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "link.jsonl").symlink_to(folder / "a" / "s.jsonl")
    (folder / "binary.jsonl").write_bytes(UNREADABLE["not text"])
    found = ingest(tmp_path, folder, folder / "a" / "s.jsonl")
    assert [trace.source.file for trace in found.traces] == ["a/s.jsonl"]
    assert found.reading.counts()["quarantined"] == {"is not text": 1}
    assert found.reading.counts()["skipped"] == {"subagent_file": 2, "unrecognised_file": 1, "link": 1}


def test_a_copied_turn_counts_once_and_stays_in_the_history(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", turn("m1", "first"))
    write(tmp_path / "2.jsonl", turn("m1", "first"), turn("m2", "second"))
    write(tmp_path / "3.jsonl", turn("m2", "second"))
    found = ingest(tmp_path, tmp_path)
    assert [len(trace.turns) for trace in found.traces] == [1, 1]
    assert [message["content"] for message in found.traces[1].state(0)["messages"][1:]] == ["first"]
    assert len({trace.trace_id for trace in found.traces}) == 2
    assert found.reading.counts()["turns"] == 2
    assert found.reading.counts()["skipped"] == {"turn_in_another_file": 1, "duplicate_session": 1}


def test_the_result_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.jsonl", *(turn(f"m{number}-{i}") for i in range(3)), turn("shared"))
    one, two = (ingest(tmp_path, tmp_path, jobs=jobs) for jobs in (1, 2))
    assert one.traces == two.traces
    assert one.reading.counts() == two.reading.counts()


def test_a_reader_that_fails_costs_its_file_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from composer_replication.ingestion import formats

    known = formats.TRACE_READERS["claude_code"]

    def failing(file: Any) -> Any:
        yield from known.read(file)
        if file.name == "1.jsonl":
            raise ZeroDivisionError

    monkeypatch.setitem(formats.TRACE_READERS, "claude_code", known._replace(read=failing))
    for number in (1, 2):
        write(tmp_path / f"{number}.jsonl", turn(f"m{number}"))
    found = ingest(tmp_path, tmp_path)
    assert [trace.source.file for trace in found.traces] == ["1.jsonl", "2.jsonl"]
    assert found.reading.counts()["quarantined"] == {"reader failed": 1}


def test_a_broken_first_line_does_not_cost_the_file(tmp_path: Path) -> None:
    """A table of conversations whose first row is damaged still gives the others; a cut document is set aside once."""
    row = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"messages": [{"role"\n' + json.dumps(row) + "\n")
    found = ingest(tmp_path, rows)
    assert len(found.traces) == 1
    assert found.reading.counts()["quarantined"] == {"not JSON": 1}
    document = tmp_path / "cut.json"
    document.write_text(json.dumps([row, row], indent=2)[:-20])
    reading = Ingestion(find_inputs([document], "messages"), redact=False, workers=1)
    assert stored_lines(reading) == []
    assert reading.counts()["quarantined"] == {"not a JSON document": 1}


def said(text: str) -> dict[str, Any]:
    return {"type": "user", "sessionId": "s", "message": {"role": "user", "content": text}}


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def unfinished(tmp_path: Path) -> tuple[Path, Path]:
    """A session file, and a run of it that was killed: shards and half a record file lie about."""
    session, run = write(tmp_path / "s.jsonl", turn("m1"), turn("m2")), tmp_path / "run"
    ingest_command(session, run=run)
    stage = run / "ingestion"
    for path in stage.iterdir():
        path.unlink()
    (stage / "unfinished").mkdir()
    (stage / "unfinished" / "0.jsonl").write_text('{"half": ')
    (stage / "unfinished" / "0.zst").write_bytes(b"half")
    (stage / "unfinished" / "7.shard").write_bytes(b"half")
    (stage / ".records.jsonl.zst.1").write_bytes(b"half")
    return session, run


def test_a_run_in_progress_is_left_alone(unfinished: tuple[Path, Path]) -> None:
    session, run = unfinished
    with Run.open(run).lock():
        before = files_in(run)
        with pytest.raises(UsageError, match="in use by another process"):
            ingest_command(session, run=run)
        assert files_in(run) == before


def test_what_a_killed_run_left_behind_does_not_stop_the_next(unfinished: tuple[Path, Path]) -> None:
    session, run = unfinished
    ingest_command(session, run=run)
    stage = Run.open(run).stage("ingestion")
    assert [len(trace.turns) for trace in stage.read(Trace)] == [2]
    assert sorted(path.name for path in stage.path.iterdir()) == [
        "manifest.json", "quarantine.jsonl", "records.jsonl.zst", "shards.jsonl",
    ]  # fmt: skip


def test_a_file_without_a_turn_leaves_nothing_behind(tmp_path: Path) -> None:
    session, run = write(tmp_path / "s.jsonl", said("hello?")), tmp_path / "run"
    for _ in range(2):
        with pytest.raises(UsageError, match="no turn"):
            ingest_command(session, run=run)
        assert not run.exists()
    write(session, said("hello?"), turn("m1"))
    ingest_command(session, run=run)
    assert Run.open(run).stage("ingestion").counts["turns"] == 1


def test_files_that_cannot_be_read_do_not_cost_the_others(tmp_path: Path) -> None:
    """As a command, with a limit in time: opening a FIFO would wait for ever."""
    folder, run = tmp_path / "sessions", tmp_path / "run"
    write(folder / "good.jsonl", turn("m1"))
    os.mkfifo(folder / "pipe.jsonl")
    whole = zstandard.ZstdCompressor().compress(json.dumps(turn("m2")).encode() * 50_000)
    (folder / "cut.jsonl.zst").write_bytes(whole[:20])
    (folder / "damaged.jsonl.zst").write_bytes(whole[: len(whole) // 2] + bytes(9) + whole[len(whole) // 2 + 9 :])
    (folder / "not.jsonl.zst").write_bytes(b"not zstd")
    (folder / "odd.jsonl").write_text('{"type": ["x"]}\n')
    command = [sys.executable, "-m", "composer_replication", "ingest", str(folder), "--run", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stderr
    (trace,) = Run.open(run).stage("ingestion").read(Trace)
    assert trace.source.file == "good.jsonl"
    aside = [json.loads(line)["file"] for line in (run / "ingestion" / "quarantine.jsonl").read_text().splitlines()]
    assert {"cut.jsonl.zst", "damaged.jsonl.zst", "not.jsonl.zst", "odd.jsonl"} == set(aside) - {"pipe.jsonl"}


@pytest.mark.parametrize("damage", [b"\xff", b"\0", b"\xc3"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_damaged_byte_costs_a_line(tmp_path: Path, damage: bytes, at: int) -> None:
    lines = [json.dumps(turn(f"m{number}")).encode() + b"\n" for number in range(3)]
    lines[at] = lines[at].replace(b"hi", b"h" + damage + b"i")
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines))
    found = ingest(tmp_path, tmp_path)
    assert [len(trace.turns) for trace in found.traces] == [2]
    (aside,) = found.reading.quarantined
    assert aside.byte_offset == len(lines[0]) * at


def test_a_document_may_stand_on_one_line_and_a_long_line_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 300)
    rows = [
        {"messages": [{"role": "user", "content": "a" * size}, {"role": "assistant", "content": "b"}]}
        for size in (500, 1, 2)
    ]
    (tmp_path / "one.json").write_text(json.dumps(rows))
    write(tmp_path / "rows.jsonl", *rows)
    found = ingest(tmp_path, tmp_path)
    assert [trace.source.file for trace in found.traces] == ["one.json"] * 3
    assert found.reading.counts()["skipped"] == {"duplicate_session": 2}
    assert [(aside.file, aside.reason) for aside in found.reading.quarantined] == [
        ("rows.jsonl", "line longer than 300 bytes")
    ]


def test_compressed_sessions_are_read_where_they_lie_in_a_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "sessions" / "s.jsonl", turn("m1")).parent
    packed = gzip.compress(json.dumps(turn("m2", session="t")).encode() + b"\n")
    (folder / "t.jsonl.gz").write_bytes(packed)
    (folder / "cut.jsonl.gz").write_bytes(packed[:-9])
    (folder / "u.jsonl.zst").write_bytes(zstandard.compress(json.dumps(turn("m3", session="u")).encode()))
    found = ingest(tmp_path, folder)
    assert [trace.source.file for trace in found.traces] == ["s.jsonl", "t.jsonl.gz", "u.jsonl.zst"]
    assert [aside.file for aside in found.reading.quarantined] == ["cut.jsonl.gz"]


CHAT: list[Any] = [
    {"role": "user", "content": {"type": "text", "text": "a"}, "agent": "main"},
    {"role": "assistant", "content": "b", "agent": "main"},
]
STEPS = [{"source": "user", "message": "a"}, {"source": "agent", "message": "b"}]
DOCUMENTS: dict[str, tuple[Any, str]] = {
    "messages": ({"messages": CHAT}, "messages"),
    "mini_swe_agent": ({"trajectory_format": "mini-swe-agent-1", "messages": CHAT}, "messages"),
    "swe_smith": ({"instance_id": "i", "traj_id": "t", "messages": CHAT}, "messages"),
    "swe_agent": ({"history": CHAT, "trajectory": []}, "history"),
    "atif": ({"schema_version": "ATIF-v1.4", "steps": STEPS}, "steps"),
    "cline": (
        {"agent": "a", "sessionId": "s", "updated_at": "t", "messages": [{"role": "user", "content": "a"}, CHAT[1]]},
        "messages",
    ),
    "gemini_cli": (
        {"projectHash": "h", "sessionId": "s", "messages": [{"type": "user", "content": "a"}, {"type": "gemini"}]},
        "messages",
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_stands_among_messages_and_is_none_is_counted(tmp_path: Path, name: str) -> None:
    document, key = DOCUMENTS[name]
    damaged = {**document, key: [*document[key], None, "lost", ["lost"]]}
    (path := tmp_path / "s.json").write_text(json.dumps(damaged))
    report = reading.ReadingReport()
    (session,) = TRACE_READERS[name].read(reading.InputFile(path, report))
    assert [message["content"] for message in session.trace().messages[1:2]] == ["a"]
    assert report.unknown["unknown"].total() == 3


def test_results_of_a_call_that_is_not_there_are_all_counted(tmp_path: Path) -> None:
    block = {"type": "tool_result", "tool_use_id": "gone", "content": "x"}
    asked = {**said("?"), "uuid": "u9", "message": {"role": "user", "content": [block, block]}}
    found = ingest(tmp_path, write(tmp_path / "s.jsonl", turn("m1"), asked))
    assert found.reading.counts()["skipped"] == {"result_without_call": 1, "duplicate_result": 1}


def test_a_folder_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "sessions" / "s.jsonl", turn("m1"))
    closed = [tmp_path / "sessions" / "some" / "old"]
    closed[0].mkdir(parents=True)
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path) in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    (aside,) = find_inputs([tmp_path / "sessions"]).unreadable
    assert (aside.file, aside.reason) == ("some/old/", "cannot be opened: Permission denied")
    closed.append(tmp_path / "sessions")
    with pytest.raises(UsageError, match="sessions/ cannot be opened"):
        find_inputs([tmp_path / "sessions"])


def test_files_with_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    good = write(tmp_path / "s.jsonl", turn("m1"))
    files = [tmp_path / "home" / name / "x.jsonl" for name in ("a", "b", "c")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(b'{"a": 1}\n')
    assert [item.file for item in find_inputs([*files, good]).unreadable] == ["x.jsonl", "b/x.jsonl", "c/x.jsonl"]
    folders = [file.parent for file in files]
    assert [item.file for item in find_inputs([*folders, good]).unreadable] == ["x.jsonl", "b/x.jsonl", "c/x.jsonl"]
    whole = find_inputs([tmp_path / "home", good]).unreadable
    assert [item.file for item in whole] == ["a/x.jsonl", "b/x.jsonl", "c/x.jsonl"]


def test_only_claude_code_calls_subagents_agent(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (tmp_path / "agent-1.json").write_text(json.dumps({"messages": messages}))
    write(tmp_path / "agent-2.jsonl", turn("m1"))
    found = ingest(tmp_path, tmp_path)
    assert [trace.source.file for trace in found.traces] == ["agent-1.json"]
    assert found.reading.counts()["skipped"] == {"subagent_file": 1}


def test_links_are_counted_and_not_followed(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere" / "x.jsonl", turn("m2"))
    folder = write(tmp_path / "sessions" / "s.jsonl", turn("m1")).parent
    (folder / "to-a-file.jsonl").symlink_to(elsewhere)
    (folder / "to-nothing.jsonl").symlink_to(tmp_path / "nothing.jsonl")
    (folder / "to-a-folder").symlink_to(elsewhere.parent)
    found = ingest(tmp_path, folder)
    assert [trace.source.file for trace in found.traces] == ["s.jsonl"]
    assert found.reading.counts()["skipped"] == {"link": 2, "linked_folder/to-a-folder": 1}


def test_a_folder_of_subagents_says_so_and_how_to_read_it(tmp_path: Path) -> None:
    side = {**turn("m1"), "isSidechain": True, "agentId": "a1"}
    folder = write(tmp_path / "sessions" / "subagents" / "agent-a1.jsonl", side).parents[1]
    with pytest.raises(UsageError, match=r"1 subagent_file.*next: recompose ingest PATH --run DIR --subagents"):
        find_inputs([folder])
    named = folder / "subagents" / "agent-a1.jsonl"
    with pytest.raises(UsageError, match=r"only sessions of subagents.*--subagents"):
        ingest_command(named, run=tmp_path / "run")
    ingest_command(folder, run=tmp_path / "run", subagents=True)
    (trace,) = Run.open(tmp_path / "run").stage("ingestion").stream(Trace)
    assert trace.source.subagent


def test_reading_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    pipes = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for pipe in pipes:
        os.mkfifo(pipe)
    reading = subprocess.Popen([sys.executable, "-c", READ_PIPES, str(tmp_path)])
    # Opening waits for a reader: then both processes are in the middle of a file.
    ends = [os.open(pipe, os.O_WRONLY) for pipe in pipes]
    reading.kill()
    reading.wait()
    poll = select.poll()
    for end in ends:
        poll.register(end, 0)
    waited_until = time.monotonic() + 10
    while len(poll.poll(100)) < len(ends):
        assert time.monotonic() < waited_until, "a process still reads"
    for end in ends:
        os.close(end)


def test_a_call_id_that_a_later_turn_uses_again_is_another_call(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for name in ("first", "second"):
        row = turn(name)
        row["message"]["content"] = [{"type": "tool_use", "id": "call_0", "name": "Bash", "input": {"command": name}}]
        result = {"type": "tool_result", "tool_use_id": "call_0", "content": f"result of {name}"}
        rows += [row, {"type": "user", "sessionId": "s", "message": {"content": [result]}}]
    (trace,) = ingest(tmp_path, write(tmp_path / "s.jsonl", *rows)).traces
    calls = [call for message in trace.messages for call in message.get("tool_calls", [])]
    results = [message for message in trace.messages if message["role"] == "tool"]
    assert [json.loads(call["function"]["arguments"])["command"] for call in calls] == ["first", "second"]
    assert [result["content"] for result in results] == ["result of first", "result of second"]
    assert [result["tool_call_id"] for result in results] == [call["id"] for call in calls]
    assert len({call["id"] for call in calls}) == 2


def test_a_prompt_that_a_compaction_repeats_was_said_once(tmp_path: Path) -> None:
    style = "do not add comments to the code"
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": "s"}
    again = {**said(style), "parentUuid": "u-m2"}
    rows = [said("go"), turn("m1"), {**again, "parentUuid": "u-m1"}, turn("m2"), boundary, again, turn("m3")]
    (trace,) = ingest(tmp_path, write(tmp_path / "s.jsonl", *rows)).traces
    assert [(site.turn, site.error_kind) for site in find_sites(trace)] == [(0, "style")]
