"""Any field of any record may hold anything: that may cost the record, but no stage fails and no other file suffers.

`RECOMPOSE_FUZZ_LINES=1000000` (`make faults`) does it at full length.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from composer_replication.hints import write_hints
from composer_replication.ingestion import Ingestion, find_inputs
from composer_replication.records import Trace
from composer_replication.sites import find_sites
from tests.faults.fuzzing import Sample, small_sample, with_other_values
from tests.ingested import stored_lines
from tests.samples import SAMPLES, sample_files

FOLDERS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")
FILES_PER_FOLDER = max(1, int(os.environ.get("RECOMPOSE_FUZZ_LINES", "20000")) // 400)
MOST_CHANGES = 8
RECORDS, ITEMS, CHARS = 40, 8, 120
GOOD = (
    b'{"type":"user","sessionId":"good","uuid":"u1","message":{"content":"list the files"}}\n'
    b'{"type":"assistant","sessionId":"good","uuid":"u2","message":{"id":"good-1","content":'
    b'[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}\n'
    b'{"type":"user","sessionId":"good","uuid":"u3","message":{"content":'
    b'[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"Exit code 1\\nls: no such file"}]}}\n'
)
OURS = ("reader failed", "cannot be read")
"""How quarantine entries begin when an exception was caught: each is a field that a reader trusted."""


def traces_in(folder: Path) -> tuple[list[Trace], list[str]]:
    """Through every stage that needs no model; the traces, and why input was set aside."""
    reading = Ingestion(find_inputs([folder]), redact=True, workers=1)
    traces = [Trace.model_validate_json(line) for line in stored_lines(reading)]
    sites = [site for trace in traces for site in find_sites(trace)]
    write_hints({trace.trace_id: trace for trace in traces}, sites, 96)
    for trace in traces:
        list(trace.states())
    return traces, [item.reason for item in reading.quarantined]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_field_may_hold_anything(tmp_path: Path, folder: str) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    (inputs / "good.jsonl").write_bytes(GOOD)
    (good,), reasons = traces_in(inputs)
    assert good.turns and not reasons
    samples = [small_sample(path, RECORDS, ITEMS, CHARS) for path in sample_files(folder)]
    failed: set[str] = set()
    for seed in range(FILES_PER_FOLDER):
        rng = random.Random(seed)
        sample = rng.choice(samples)
        file = inputs / f"{rng.choice(('a', 'z'))}.{sample.name}"
        file.write_bytes(fuzzed(rng, sample))
        try:
            traces, reasons = traces_in(inputs)
        except Exception as error:
            error.add_note(f"{folder}, seed {seed}: {sample.name}")
            raise
        failed.update(f"seed {seed}, {sample.name}: {reason}" for reason in reasons if reason.startswith(OURS))
        assert good in traces, f"seed {seed}, {sample.name}"
        file.unlink()
    assert not sorted(failed)


def fuzzed(rng: random.Random, sample: Sample) -> bytes:
    return sample.encoded(with_other_values(rng, sample.values, rng.randint(1, MOST_CHANGES)))
