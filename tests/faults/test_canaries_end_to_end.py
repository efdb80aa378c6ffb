"""Planted secrets in session files, through the commands: none reaches a file of the run, the screen or an error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.canaries import PLACEMENTS, Canary, Placement, canaries, planted_messages


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


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Canary]]:
    folder = tmp_path_factory.mktemp("planted")
    every = canaries(seed=7)
    for place, placement in enumerate(PLACEMENTS):
        # Every second pair, each kind in twelve places; all pairs are in test_canaries.py.
        for number, canary in list(enumerate(every))[place % 2 :: 2]:
            rows = claude_code_rows(canary, placement, f"{place}-{number}")
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"{place}-{number}.jsonl").write_text(lines)
    return folder, every


def recompose(*arguments: object) -> str:
    command = [sys.executable, "-m", "composer_replication", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def everything_in(folder: Path) -> str:
    texts: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".zst":
                data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
            texts.append(data.decode("utf-8", "replace"))
    return "\n".join(texts)


def test_no_planted_secret_reaches_an_artefact(planted: tuple[Path, list[Canary]], tmp_path: Path) -> None:
    folder, every = planted
    run = tmp_path / "run"
    told = [recompose("ingest", folder, "-o", run, "--json"), recompose("sites", run, "--json")]
    told.append(recompose("hint", run, "--json"))
    written = everything_in(run) + "\n".join(told)
    decoded = written.replace("\\\\", "\\").replace("\\n", "\n").replace('\\"', '"')
    leaked = {canary.kind for canary in every for secret in canary.secrets if secret in written or secret in decoded}
    assert not leaked
    counts = json.loads(told[0].splitlines()[-1] if told[0].startswith("[") else told[0].splitlines()[0])
    assert counts["traces"] == len(list(folder.iterdir())) >= len(every) * 11
    assert sum(counts["redactions"].values()) >= counts["traces"]


def test_without_redaction_they_are_all_there(planted: tuple[Path, list[Canary]], tmp_path: Path) -> None:
    """The search above can find what it looks for."""
    folder, every = planted
    run = tmp_path / "run"
    recompose("ingest", folder, "-o", run, "--allow-unredacted")
    written = everything_in(run)
    decoded = written.replace("\\\\", "\\").replace("\\n", "\n").replace('\\"', '"')
    found = {
        canary.kind for canary in every if any(secret in written or secret in decoded for secret in canary.secrets)
    }
    assert found == {canary.kind for canary in every}
