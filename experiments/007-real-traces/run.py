"""Real sessions through the first three stages: what is read, what went wrong in it, and what hints come of it.

    recompose experiment run experiments/007-real-traces        seconds, no model, nothing leaves the machine

Runs `recompose ingest`, `sites` and `hint` over tests/samples as a user would. Writes results/stages.json (what each
stage printed, and its processor time), results/sessions.jsonl.zst (each session's size), results/sites.jsonl.zst and
results/hints.jsonl.zst (the records), then the tables. The sessions themselves are in tests/samples already.
"""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import zstandard
from rebuild import RESULTS, rebuild

from composer_replication.hints import write_hints
from composer_replication.records import ErrorSite, Hint, Trace
from composer_replication.runs import Run, write_records

ROOT = Path(__file__).parents[2]
RUN = Path("runs/007-real-traces")
STAGES = {"ingestion": ["ingest", "tests/samples", "--run"], "sites": ["sites"], "hints": ["hint"]}
PARTIAL = 4
"""Exit code of a stage that set something aside and saved the rest."""
STRICTER = {"24 tokens": (24, "L1"), "L0 only": (96, "L0")}


def stage(words: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "composer_replication", *words, str(RUN.resolve()), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if done.returncode not in (0, PARTIAL):
        raise SystemExit(done.returncode)
    told = json.loads(done.stdout)
    del told["run"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu_s, "exit_code": done.returncode, "told": told}


def session(trace: Trace) -> dict[str, Any]:
    folder = Path(trace.source.file or "").parts
    return {
        "trace_id": trace.trace_id,
        "samples": folder[0] if len(folder) > 1 else trace.source.agent,
        "agent": trace.source.agent,
        "turns": len(trace.turns),
        "calls": sum(len(message.get("tool_calls", [])) for message in trace.messages),
        "tools_inferred": trace.tools_inferred,
        "inexact_turns": sum(turn.fidelity != "exact" for turn in trace.turns),
        "compactions": sum(bool(segment.preserved) or not segment.goes_on for segment in trace.segments[1:]),
    }


def main() -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    RESULTS.mkdir(exist_ok=True)
    told: dict[str, Any] = {name: stage(words) for name, words in STAGES.items()}
    run = Run.open(RUN)
    traces, sites = run.stage("ingestion").read(Trace), run.stage("sites").read(ErrorSite)
    known = {trace.trace_id: trace for trace in traces}
    told["stricter"] = {
        name: write_hints(known, sites, tokens, max_leak_level=level).counts()
        for name, (tokens, level) in STRICTER.items()
    }
    (RESULTS / "stages.json").write_text(json.dumps(told, indent=1) + "\n")
    lines = "".join(json.dumps(session(trace)) + "\n" for trace in traces)
    (RESULTS / "sessions.jsonl.zst").write_bytes(zstandard.compress(lines.encode(), 19))
    write_records(RESULTS / "sites.jsonl.zst", sites)
    write_records(RESULTS / "hints.jsonl.zst", run.stage("hints").read(Hint))
    print(rebuild())


if __name__ == "__main__":
    main()
