"""Aider's chat history: one rule per test, on hand-written files."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from composer_replication.ingestion.formats import detect_format
from composer_replication.ingestion.readers import aider
from composer_replication.ingestion.reading import InputFile, ReadingReport

from .reading_trials import Trial, trial

START = (
    "\n# aider chat started at 2025-07-15 11:38:37\n\n> Aider v0.85.1  \n> Main model: gpt-4o with diff edit format  \n"
)
TOKENS = "\n> Tokens: 1k sent, 2 received.  \n"


def edit(path: str, search: str, replace: str) -> str:
    return f"{path}\n```python\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n```\n"


def read(folder: Path, *parts: str) -> Trial:
    return trial(aider.read, folder, "".join(parts), ".aider.chat.history.md")


def test_user_lines_console_lines_and_answers(tmp_path: Path) -> None:
    answer = "\n#### A heading\n\n> a quote\n\n# code\nYes.\n"
    found = read(tmp_path, START, "\n#### do it  \n#### now  \n", answer, TOKENS, "\n#### more  \n", "\nOk.\n")
    assert found.texts(0) == ["do it\nnow"]
    assert found.actions() == ["#### A heading\n\n> a quote\n\n# code\nYes.", "Ok."]
    turn = found.trace.turns[0]
    assert (turn.source_model, turn.fidelity, found.trace.source.version) == ("gpt-4o", "partial", "0.85.1")
    raw = (tmp_path / ".aider.chat.history.md").read_bytes()
    assert turn.byte_range and raw[slice(*turn.byte_range)].decode().strip() == answer.strip()
    assert found.report.skipped["console_line"] == 3


def test_line_ends_of_windows_and_a_byte_order_mark(tmp_path: Path) -> None:
    parts = START, "\n#### do it  \n", "\nChange.\n\n", edit("a.py", "x", "y"), TOKENS, "> Applied edit to a.py  \n"
    plain = read(tmp_path, *parts)
    path = tmp_path / ".aider.chat.history.md"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert detect_format(InputFile(path, ReadingReport())) == "aider"
    found = Trial(aider.read, path)
    assert (found.texts(0), found.actions(), found.results()) == (plain.texts(0), plain.actions(), plain.results())
    turn = found.trace.turns[0]
    assert turn.byte_range and path.read_bytes()[slice(*turn.byte_range)].startswith(b"Change.")


def test_edits_become_calls_with_the_report_as_result(tmp_path: Path) -> None:
    answer = "\nChange.\n\n" + edit("a.py", "x", "y") + "\n" + edit("b.py", "1", "2")
    applied = TOKENS + "> Applied edit to b.py  \n> Commit abc  \n"
    found = read(tmp_path, START, "\n#### do  \n", answer, applied)
    calls = [call["function"] for call in found.trace.messages[2]["tool_calls"]]
    assert json.loads(calls[0]["arguments"]) == {"path": "a.py", "search": "x\n", "replace": "y\n"}
    assert found.trace.messages[2]["content"] == "Change."
    assert found.results() == [("[no result recorded]", False), ("Applied edit to b.py", False)]


def test_a_refused_edit_is_an_error_and_the_others_were_applied(tmp_path: Path) -> None:
    complaint = (
        "> The LLM did not conform to the edit format.  \n> # 1 SEARCH/REPLACE block failed to match!\n\n"
        "## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in a.py\n"
        "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n\n"
        "# The other 1 SEARCH/REPLACE block were applied successfully.\nDon't re-send them.  \n> Commit abc  \n"
    )
    answer = "\n" + edit("a.py", "x", "y") + "\n" + edit("b.py", "1", "2")
    found = read(tmp_path, START, "\n#### do  \n", answer, TOKENS, complaint, "\nAgain.\n")
    assert [failed for _, failed in found.results()] == [True, False]
    assert found.roles(1) == "suatt"
    assert "failed to exactly match" in found.results()[0][0]


def test_a_complaint_without_a_readable_edit_is_context(tmp_path: Path) -> None:
    complaint = TOKENS + "> The LLM did not conform to the edit format.  \n> No filename provided  \n"
    found = read(tmp_path, START, "\n#### do  \n", "\nno block\n", complaint, "\nAgain.\n")
    assert found.texts(1)[-1].startswith("The LLM did not conform")


def test_commands_are_not_said_but_questions_are(tmp_path: Path) -> None:
    lines = "\n#### /add a.py  \n> Added a.py to the chat  \n\n#### /ask why?  \n\nBecause.\n"
    confirmed = "\n#### Add file to the chat? (Y)es/(N)o [Yes]: skip  \n"
    found = read(tmp_path, START, lines, confirmed, "\n#### /clear  \n\n#### next  \n\nOk.\n")
    assert found.texts(0) == ["why?"]
    assert found.texts(1) == ["next"]
    assert found.report.skipped["command_line"] == 3


def test_reasoning_is_thinking(tmp_path: Path) -> None:
    answer = "\n--------------\n► **THINKING**\n\nhm\n\n------------\n► **ANSWER**\n\nYes.\n"
    found = read(tmp_path, START, "\n#### do  \n", answer)
    assert (found.trace.turns[0].thinking, found.trace.messages[2]["content"]) == ("hm", "Yes.")


def test_each_start_is_a_session_and_sessions_without_answers_are_counted(tmp_path: Path) -> None:
    found = read(tmp_path, START, "\n#### a  \n\nA.\n", START, START, "\n#### b  \n\nB.\n")
    assert len({trace.trace_id for trace in found.traces}) == 2
    assert found.report.skipped["session_without_turns"] == 1
    assert aider.recognises(START) and not aider.recognises("# Notes\n" + START)


@pytest.mark.parametrize(
    "text", ["```\n<<<<<<< SEARCH\n=======\n" * 1000, "► **THINKING**\n" + "-" * 20_000, "-" * 20_000], ids=len
)
def test_an_answer_with_no_end_to_its_edits_or_thoughts_is_read_in_time(text: str) -> None:
    started = time.process_time()
    assert not list(aider.EDIT.finditer(text))
    assert not list(aider.THINKING.finditer(text))
    assert time.process_time() - started < 2
