"""Every sample file of every format: counts against those counted by other means, and nothing lost in the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer_replication.ingestion import TRACE_READERS, InputFile, ReadingReport, detect_format
from composer_replication.ingestion.session import Session
from composer_replication.runs import RECORDS, StageFolder, write_lines
from tests.samples import SAMPLES, sample_files
from tests.unit.reading_trials import assert_valid

EXPECTED: dict[str, dict[str, object]] = json.loads((SAMPLES / "expected.json").read_text())
SAYS_NOTHING = {
    # Its thinking is encrypted, and the file was cut before the line with its call.
    "claude_code_mini/err_json_decode.jsonl": [5],
    # The model answered with hidden reasoning only.
    "copilot_cli/agentv__2426852d-6cf5-4e90-be9f-e45fc6c7d5e4.jsonl": [0],
}
"""Turns without text, visible thinking or a call."""
NOT_A_SESSION = ("base_state.json", "/subagents/")


def name_of(path: Path) -> str:
    return str(path.relative_to(SAMPLES)).removesuffix(".zst")


SESSION_FILES = [path for path in sample_files() if not any(mark in str(path) for mark in NOT_A_SESSION)]


def read(path: Path, redact: bool = False) -> tuple[str | None, list[Session], ReadingReport]:
    report = ReadingReport()
    name = detect_format(InputFile(path, ReadingReport()))
    sessions = list(TRACE_READERS[name].read(InputFile(path, report, redact))) if name else []
    return name, sessions, report


def test_every_file_has_an_expectation() -> None:
    assert {name_of(path) for path in SESSION_FILES} == set(EXPECTED)
    assert {row["format"] for row in EXPECTED.values()} == set(TRACE_READERS)


@pytest.mark.parametrize("path", SESSION_FILES, ids=name_of)
def test_counts(path: Path) -> None:
    name, sessions, report = read(path)
    traces = [session.trace() for session in sessions if session.turns]
    assert EXPECTED[name_of(path)] == {
        "format": name,
        "traces": len(traces),
        "turns": sum(len(session.turns) for session in sessions),
        "tool_calls": sum(session.calls for session in sessions),
        "tool_results": sum(session.results for session in sessions),
        "errors": sum(message.get("is_error", False) for trace in traces for message in trace.messages),
    }
    assert not [item for item in report.quarantined if item.reason.startswith("reader failed")]
    assert not report.unknown


@pytest.mark.parametrize("path", SESSION_FILES, ids=name_of)
def test_what_is_written_is_what_pydantic_writes_and_comes_back(path: Path, tmp_path: Path) -> None:
    sessions = [session for session in read(path)[1] if session.turns]
    traces = [session.trace() for session in sessions]
    assert [b"".join(session.encoded()) for session in sessions] == [
        trace.model_dump_json().encode() + b"\n" for trace in traces
    ]
    stage = StageFolder(tmp_path / "ingestion")
    written = write_lines(stage.path / RECORDS, (chunk for session in sessions for chunk in session.encoded()))
    stage.seal(written, {}, [], 0.0)
    assert stage.read(type(traces[0])) == traces if traces else not written.records


@pytest.mark.parametrize("path", SESSION_FILES, ids=name_of)
def test_what_a_teacher_sees_is_a_valid_conversation(path: Path) -> None:
    for session in read(path, redact=True)[1]:
        trace = session.trace()
        for turn in range(len(trace.turns)):
            state = trace.state(turn)
            assert state["messages"][0]["role"] == "system"
            assert state["student_action"] is not None
            assert_valid(state["messages"])


@pytest.mark.parametrize("path", SESSION_FILES, ids=name_of)
def test_every_turn_says_or_does_something(path: Path) -> None:
    states = [state for session in read(path)[1] for state in session.trace().states()]
    silent = [number for number, state in enumerate(states) if not state["student_action"].strip()]
    assert silent == SAYS_NOTHING.get(name_of(path), [])


@pytest.mark.parametrize("path", SESSION_FILES, ids=name_of)
def test_redaction_changes_texts_and_nothing_else(path: Path) -> None:
    (_, plain, left_out), (_, redacted, left_out_redacted) = read(path), read(path, redact=True)
    assert list(map(shape, plain)) == list(map(shape, redacted))
    for what in ("skipped", "quarantined", "unknown"):
        assert getattr(left_out, what) == getattr(left_out_redacted, what)


def shape(session: Session) -> object:
    """All of a trace that is not text."""
    trace = session.trace()
    messages = [
        (message["role"], message.get("is_error"), [call["function"]["name"] for call in message.get("tool_calls", [])])
        for message in trace.messages
    ]
    turns = [turn.model_copy(update={"thinking": bool(turn.thinking)}) for turn in trace.turns]
    return trace.trace_id, messages, turns, trace.segments, len(trace.tools), session.calls, session.results
