"""Every reader against broken input. `RECOMPOSE_FUZZ_LINES=1000000` (`make faults`) does it at full length."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from composer_replication.ingestion.ingest import FileJob, file_read, read_file
from composer_replication.ingestion.inputs import Input
from composer_replication.ingestion.reading import MAX_LINE_BYTES
from tests.faults.fuzzing import fuzzed_lines
from tests.samples import sample_bytes, sample_files

TOTAL_LINES = int(os.environ.get("RECOMPOSE_FUZZ_LINES", "20000"))
LOGS = {
    "claude_code": "claude_code_mini",
    "codex": "codex_rollout",
    "copilot_cli": "copilot_cli",
    "openhands_v1": "openhands_v1",
    "openhands_v0": "openhands_v0",
    "messages": "swe_smith",
    "swe_agent": "swe_agent",
    "atif": "atif",
    "cline": "cline",
    "adp": "adp",
    "mini_swe_agent": "mini_swe_agent",
    "gemini_cli": "gemini_cli",
}
# Half surrogates are mended; progress records and fields that nobody reads are not looked into.
TOLERATED = (rb"\u", b"1e99999", b"1" * 5000, b"0" * 300, b'"type":"progress"')
LINES_PER_FILE = 2_000
LONGEST_TEXT = 80
LONGEST_LIST = 6


def seed_lines(folder: str) -> list[bytes]:
    """Records of real files, with long texts cut so that a million of them can be read."""
    values: list[Any] = []
    for path in sample_files(folder):
        data = sample_bytes(path)
        try:
            whole = orjson.loads(data)
            values += whole if isinstance(whole, list) else [whole]
        except ValueError:
            values += [orjson.loads(line) for line in data.splitlines() if is_object(line)]
    return [orjson.dumps(shrunk(value)) for value in values]


def shrunk(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shrunk(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shrunk(item) for item in value[:LONGEST_LIST]]
    return value[:LONGEST_TEXT] if isinstance(value, str) else value


def is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line.removeprefix(b"\xef\xbb\xbf")), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("name", LOGS)
def test_fuzzed_lines_are_accepted_or_quarantined(tmp_path: Path, name: str) -> None:
    lines = seed_lines(LOGS[name])
    for number in range(max(1, TOTAL_LINES // len(LOGS) // LINES_PER_FILE)):
        fuzzed = list(itertools.islice(fuzzed_lines(number, lines, LINES_PER_FILE), LINES_PER_FILE))
        file = tmp_path / "fuzzed.jsonl"
        file.write_bytes(b"\n".join(fuzzed) + b"\n")
        shard = read_file(FileJob(Input(file, name), tmp_path / "shard", redact=True))
        quarantined = file_read(shard).quarantined
        reasons = [reason for _, reason in quarantined]
        assert not [reason for reason in reasons if reason.startswith("reader failed")]
        offsets = {offset for offset, _ in quarantined}
        starts = list(itertools.accumulate((len(line) + 1 for line in fuzzed), initial=0))
        assert offsets <= set(starts) and len(offsets) == len(reasons)
        for start, line in zip(starts, fuzzed, strict=False):
            if line.strip() and start not in offsets:
                assert is_object(line) or any(mark in line.lower() for mark in TOLERATED) or not line.isascii(), line[
                    :300
                ]
        for record in shard.lines():
            orjson.loads(record)


READ_A_LONG_LINE = """
import sys
from pathlib import Path
from typing import Any
from composer_replication.ingestion.ingest import FileJob, file_read, read_file
from composer_replication.ingestion.inputs import Input
def peak_kib():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
before = peak_kib()
shard = read_file(FileJob(Input(Path(sys.argv[1]), "claude_code"), Path(sys.argv[2]), redact=True))
after = peak_kib()
found = file_read(shard)
print(found.turns, found.quarantined, (after - before) // 1024)
"""


def test_a_line_of_100_megabytes_does_not_fill_the_memory(tmp_path: Path) -> None:
    turn = b'{"type":"assistant","sessionId":"s","message":{"id":"m1","content":[{"type":"text","text":"hi"}]}}\n'
    file = tmp_path / "long.jsonl"
    with file.open("wb") as out:
        out.write(turn + b'{"type":"user","sessionId":"s","message":{"content":"')
        for _ in range(100):
            out.write(b"x" * 1_000_000)
        out.write(b'"}}\n' + turn.replace(b"m1", b"m2"))
    command = [sys.executable, "-c", READ_A_LONG_LINE, str(file), str(tmp_path / "shard")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    turns, rest = done.stdout.split(" ", 1)
    assert turns == "2"
    assert f"[({len(turn)}, 'line longer than {MAX_LINE_BYTES} bytes')]" in rest
    assert int(rest.split()[-1]) < 3 * MAX_LINE_BYTES >> 20
