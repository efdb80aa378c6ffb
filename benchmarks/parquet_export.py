"""`recompose export --parquet` on a run made from every sample session: rows per second, peak memory, sizes.

    python benchmarks/parquet_export.py [--copies 1 10 40] [--json PATH]

About 40 s of one core. The run has traces, sites and hints, and no replies. `--copies`: how often each record is there,
under ids of its own, to see whether memory follows the size of the run. Seconds are of processor time of a process that
starts Python, imports and exports; `start_cpu_s` is the same for an export that finds every table there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from composer_replication.config import Config, IngestionConfig
from composer_replication.errors import UsageError
from composer_replication.hints import write_hints
from composer_replication.ingestion import read_traces
from composer_replication.records import ErrorSite, Hint, Trace
from composer_replication.runs import Run
from composer_replication.sites import find_sites

SAMPLES = Path(__file__).parents[1] / "tests" / "samples"
MAX_HINT_TOKENS = 96


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 10, 40])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    traces = list(sample_traces())
    results = [measure(traces, copies) for copies in options.copies]
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def sample_traces() -> Iterator[Trace]:
    for path in sorted(path for path in SAMPLES.rglob("*") if path.is_file()):
        try:
            yield from read_traces(path)
        except UsageError:
            continue


def measure(traces: list[Trace], copies: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", traces, copies)
        stages = [run.path / noun / "records.jsonl.zst" for noun in ("ingestion", "sites", "hints")]
        first = export(run.path, Path(folder) / "tables")
        start = export(run.path, Path(folder) / "tables")
        rows = sum(first["told"]["rows"].values())
        return {
            "copies": copies,
            "rows": first["told"]["rows"],
            "cpu_s": first["cpu_s"],
            "start_cpu_s": start["cpu_s"],
            "rows_per_cpu_s": round(rows / (first["cpu_s"] - start["cpu_s"])),
            "peak_rss_mib": first["peak_rss_mib"],
            "json_mb": round(sum(map(size_of_json, stages)) / 1e6, 1),
            "json_zst_mb": round(sum(path.stat().st_size for path in stages) / 1e6, 1),
            "parquet_mb": round(first["told"]["bytes"] / 1e6, 1),
        }


def make_run(path: Path, traces: list[Trace], copies: int) -> Run:
    run, started = Run.start(path, Config(ingestion=IngestionConfig(paths=("samples",)))), time.monotonic()
    sites = {trace.trace_id: list(find_sites(trace)) for trace in traces}
    hints = {
        trace.trace_id: write_hints({trace.trace_id: trace}, sites[trace.trace_id], MAX_HINT_TOKENS).hints
        for trace in traces
    }

    def copied_traces() -> Iterator[Trace]:
        for copy in range(copies):
            for trace in traces:
                yield trace.model_copy(update={"trace_id": f"{trace.trace_id}-{copy}"})

    def copied_sites() -> Iterator[ErrorSite]:
        for copy in range(copies):
            for site in (site for trace in traces for site in sites[trace.trace_id]):
                ids = {"trace_id": f"{site.trace_id}-{copy}", "site_id": f"{site.site_id}-{copy}"}
                yield site.model_copy(update=ids)

    def copied_hints() -> Iterator[Hint]:
        for copy in range(copies):
            for hint in (hint for trace in traces for hint in hints[trace.trace_id]):
                yield hint.model_copy(update={"site_id": f"{hint.site_id}-{copy}"})

    made = {"ingestion": copied_traces(), "sites": copied_sites(), "hints": copied_hints()}
    for noun, records in made.items():
        run.stage(noun).finish(records, {}, [], started)
    return run


def export(run: Path, tables: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "composer_replication", "export", str(run), "--parquet", str(tables), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    assert child.stdout is not None
    told = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    return {"told": told, "cpu_s": round(usage.ru_utime + usage.ru_stime, 2), "peak_rss_mib": usage.ru_maxrss // 1024}


def size_of_json(path: Path) -> int:
    with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as reader:
        return sum(len(chunk) for chunk in iter(lambda: reader.read(1 << 20), b""))


if __name__ == "__main__":
    main()
