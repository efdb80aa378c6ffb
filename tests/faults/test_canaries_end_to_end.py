"""Planted secrets in session files, through the commands: none reaches a file of the run, the screen or an error."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import zstandard

from tests import command_line
from tests.canaries import PLACEMENTS, Canary, Placement, canaries, planted_messages
from tests.scripted_teachers import ScriptedTeachers, calls

ZSTD = zstandard.FRAME_HEADER
EVERY = canaries(seed=7)
IN_TURN = [(number % len(PLACEMENTS), number) for number in range(len(EVERY))]
"""Each kind once, the places in turn."""


def claude_code_rows(canary: Canary, placement: Placement, session: str) -> Iterator[dict[str, Any]]:
    """The planted conversation as Claude Code would have written it; every tool result is a failure, to make hints."""
    messages, thinking = planted_messages(canary, placement)
    for number, message in enumerate(messages):
        head = {"sessionId": session, "uuid": f"{session}-{number}"}
        if message["role"] == "tool":
            block = {
                "type": "tool_result", "tool_use_id": f"{session}-{message['tool_call_id']}", "is_error": True,
                "content": message["content"],
            }  # fmt: skip
            yield {"type": "user", **head, "message": {"role": "user", "content": [block]}}
        elif message["role"] == "assistant":
            blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": thinking}] if thinking else []
            blocks.append({"type": "text", "text": message["content"]})
            for call in message.get("tool_calls", []):
                name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                blocks.append({"type": "tool_use", "id": f"{session}-{call['id']}", "name": name, "input": arguments})
            yield {"type": "assistant", **head, "message": {"id": f"{session}-{number}", "content": blocks}}
        else:
            yield {"type": "user", **head, "message": {"role": "user", "content": message["content"]}}


def plant(folder: Path, chosen: Iterable[tuple[int, int]]) -> Path:
    folder.mkdir()
    for place, number in chosen:
        rows = claude_code_rows(EVERY[number], PLACEMENTS[place], f"{place}-{number}")
        (folder / f"{place}-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def plant_together(folder: Path, chosen: list[tuple[int, int]]) -> Path:
    """Conversations in a row, up to nine a session. The last call follows all of them, so teachers read them all."""
    folder.mkdir()
    for begin in range(0, len(chosen), 9):
        rows: list[dict[str, Any]] = []
        for place, number in chosen[begin : begin + 9]:
            rows += claude_code_rows(EVERY[number], PLACEMENTS[place], f"{place}-{number}")
        last = f"{begin}-last"
        call = {"type": "tool_use", "id": last, "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": last, "is_error": True, "content": "Exit code 1"}
        for role, block in (("assistant", call), ("user", result)):
            message = {"id": last, "role": role, "content": [block]}
            rows.append({"type": role, "uuid": f"{last}-{role}", "message": message})
        lines = (json.dumps(row | {"sessionId": str(begin)}) + "\n" for row in rows)
        (folder / f"{begin}.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every second pair, each kind in twelve places; all pairs are in test_canaries.py."""
    pairs = [(place, number) for place in range(len(PLACEMENTS)) for number in range(place % 2, len(EVERY), 2)]
    return plant(tmp_path_factory.mktemp("canaries") / "planted", pairs)


def recompose(*arguments: object) -> command_line.Ended:
    ended = command_line.recompose(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


def unpacked(data: bytes) -> str:
    if data.startswith(ZSTD):
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data.decode("utf-8", "replace")


def text_of(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pyarrow.parquet.read_table(path).to_pylist(), default=str)
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as opened:
            tables = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            cells = [cell for name in tables for row in opened.execute(f'SELECT * FROM "{name}"') for cell in row]
        return "\n".join(unpacked(cell) if isinstance(cell, bytes) else str(cell) for cell in cells)
    return unpacked(path.read_bytes())


def everything_in(folder: Path) -> str:
    return "\n".join(text_of(path) for path in sorted(folder.rglob("*")) if path.is_file())


def kinds_in(written: str) -> set[str]:
    decoded = written.replace("\\\\", "\\").replace("\\n", "\n").replace('\\"', '"')
    return {canary.kind for canary in EVERY if any(secret in written or secret in decoded for secret in canary.secrets)}


def test_no_planted_secret_reaches_an_artefact(planted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = [recompose(*words, "--json") for words in (("ingest", planted, "-o", run), ("sites", run), ("hint", run))]
    assert not kinds_in(everything_in(run) + "\n".join(ended.stdout + ended.stderr for ended in told))
    counts = json.loads(told[0].stdout)
    assert counts["traces"] == len(list(planted.iterdir())) >= len(EVERY) * 11
    assert sum(counts["redactions"].values()) >= counts["traces"]


def test_without_redaction_they_are_all_there(tmp_path: Path) -> None:
    """The search above can find what it looks for."""
    recompose("ingest", plant(tmp_path / "planted", IN_TURN), "-o", tmp_path / "run", "--allow-unredacted")
    assert kinds_in(everything_in(tmp_path / "run")) == {canary.kind for canary in EVERY}


def handed_on(folder: Path, chosen: list[tuple[int, int]], *options: str) -> dict[str, str]:
    """What teachers, datasets, tables and the exported page get of planted sessions, and the run and screen beside."""
    run, tables, page = folder / "run", folder / "tables", folder / "page"
    told = [recompose("ingest", plant_together(folder / "planted", chosen), "-o", run, *options)]
    told += [recompose("sites", run), recompose("hint", run)]
    with ScriptedTeachers(lambda request: (200, calls(request["model"], "Bash", {"command": "pwd"}))) as server:
        teachers = [f"--teacher={model[0]}={server.base_url},{model}" for model in ("alpha/one", "beta/two")]
        told.append(recompose("replay", run, *teachers))
    told += [recompose("pair", run, "--export", form) for form in ("trl", "kto", "sft", "verl")]
    told += [recompose("view", run, "--export", page), recompose("export", run, "--parquet", tables)]
    datasets = {path.name: everything_in(path) for path in (run / "pairs" / "export").iterdir()}
    assert datasets.keys() == {"trl", "kto", "sft", "verl"}
    return datasets | {
        "teachers": json.dumps(server.asked), "run": everything_in(run), "page": everything_in(page),
        "tables": everything_in(tables), "screen": "\n".join(ended.stdout + ended.stderr for ended in told),
    }  # fmt: skip


def test_no_planted_secret_reaches_a_teacher_or_what_is_handed_on(tmp_path: Path) -> None:
    texts = handed_on(tmp_path, IN_TURN)
    assert {place: kinds_in(text) for place, text in texts.items()} == {place: set() for place in texts}


def test_without_redaction_they_reach_all_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redaction is off, and so is the last look at each request, which alone would hold them back from teachers."""
    monkeypatch.setattr("composer_replication.redaction.find_secrets", lambda text: [])
    chosen = IN_TURN[::11]
    texts = handed_on(tmp_path, chosen, "--allow-unredacted")
    del texts["screen"]
    planted = {EVERY[number].kind for _, number in chosen}
    assert {place: planted - kinds_in(text) for place, text in texts.items()} == {place: set() for place in texts}
