"""`ingest --review`: every place where something was replaced, and nothing of what was there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer_replication.cli.ingest import ingest
from tests.canaries import ALNUM, Maker

MAKER = Maker(3)
TOKEN, PASSWORD = "gh" + "p_" + MAKER.chars(ALNUM, 36), MAKER.chars(ALNUM, 12)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    said = {"role": "user", "content": f"first line\nuse {TOKEN} as /home/zoequist/x says"}
    command = {"command": f"ls\nsshpass -p {PASSWORD} ssh host"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": command}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": json.dumps({"out": f"a\nkey={TOKEN}"})}
    rows = [
        {"type": "user", "message": said},
        {"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]
    path = tmp_path / "session.jsonl"
    head = {"sessionId": "s", "version": "2.0.0"}
    path.write_text("".join(json.dumps({**row, **head, "uuid": f"u{i}"}) + "\n" for i, row in enumerate(rows)))
    return path


def test_places_are_listed_with_the_secret_hidden(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    ingest(session, run=tmp_path / "run", review=True, json=True)
    told = capsys.readouterr().out
    places = [(place["turn"], place["where"], place["line"], place["kind"]) for place in json.loads(told)["places"]]
    assert (None, "user", 2, "github-pat") in places
    assert (None, "user", 2, "home-directory") in places
    assert (0, "Bash.command", 2, "command-secret") in places
    assert (0, "tool", 1, "github-pat") in places
    assert {place["file"] for place in json.loads(told)["places"]} == {"session.jsonl"}
    assert TOKEN not in told and PASSWORD not in told and "zoequist" not in told


def test_a_run_that_is_there_is_reviewed_without_its_files(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    ingest(session, run=tmp_path / "run")
    session.unlink()
    said = capsys.readouterr().out
    assert "command-secret 1" in said and "home-directory 1" in said
    ingest(run=tmp_path / "run", review=True)
    told = capsys.readouterr().out
    assert (
        "session.jsonl: turn 0, Bash.command, line 2: command-secret\n    sshpass -p <SECRET:command-secret:1>" in told
    )
    assert "before turn 0, user, line 2: github-pat" in told
