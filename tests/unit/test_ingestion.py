"""Folders of session files: what is read, what is set aside, and turns that several files share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from composer_replication.errors import UsageError
from composer_replication.ingestion import Ingestion, find_inputs
from composer_replication.progress import Silent
from composer_replication.records import Trace

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
    reading = Ingestion(find_inputs(paths), redact=False, jobs=jobs)
    lines = b"".join(reading.chunks(tmp_path / ".shards", Silent())).splitlines()
    return Found([Trace.model_validate_json(line) for line in lines], reading)


@pytest.mark.parametrize(("reason", "content"), UNREADABLE.items())
def test_an_unreadable_file_is_a_usage_error(tmp_path: Path, reason: str, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    for path in (tmp_path / "x.jsonl", tmp_path):
        with pytest.raises(UsageError, match=f"{reason}.*; next: recompose ingest"):
            find_inputs([path])


def test_nothing_to_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file or folder"):
        find_inputs([tmp_path / "missing.jsonl"])
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
    reading = Ingestion(find_inputs([document], "messages"), redact=False, jobs=1)
    assert list(reading.chunks(tmp_path / ".shards", Silent())) == []
    assert reading.counts()["quarantined"] == {"not a JSON document": 1}
