"""A verb that is killed while it works, by a signal that nobody can catch, and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.samples import SAMPLES

STAGES = {"ingest": "ingestion", "sites": "sites", "hint": "hints"}


def start(verb: str, run: Path) -> subprocess.Popen[bytes]:
    where = [str(SAMPLES), "-o", str(run)] if verb == "ingest" else [str(run)]
    command = [sys.executable, "-m", "composer_replication", verb, *where, "--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(verb: str, run: Path) -> str:
    process = start(verb, run)
    _, said = process.communicate(timeout=300)
    assert process.returncode in (0, 4), said.decode()
    return json.loads((run / STAGES[verb] / "manifest.json").read_text())["sha256"]


def kill_when_some_shards_are_there(verb: str, run: Path) -> int:
    """How many had been written."""
    process = start(verb, run)
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        indexes = list((run / STAGES[verb] / "unfinished").glob("*.jsonl"))
        if shards := sum(index.read_bytes().count(b"\n") for index in indexes):
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return shards
        time.sleep(0.005)
    raise AssertionError(f"{verb} ended before it could be killed")


def test_a_stage_that_was_killed_ends_in_the_same_hash(tmp_path: Path) -> None:
    for verb, noun in STAGES.items():
        whole = finish(verb, tmp_path / "whole")
        assert kill_when_some_shards_are_there(verb, tmp_path / "killed") > 0
        assert not (tmp_path / "killed" / noun / "manifest.json").exists()
        assert finish(verb, tmp_path / "killed") == whole
        assert not (tmp_path / "killed" / noun / "unfinished").exists()
