"""The monitor over real sessions of people with agents: how often does it cry wolf?

    python experiments/006-monitor/sessions.py [PATH ...]

Reads session files (by default the samples of the tests; any folder that `recompose ingest` reads works too); writes
results/sessions.json with every finding and its line. Nobody was rewarded in these sessions, so every alarm is false; a
session with a person in front of it is judged as such, and once more as if it were a rollout. No trace here has
evidence from a sandbox and all rules of commands are soft, so that only sessions of agents alone can raise an alarm.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard
from corpus import HERE

from composer_replication.errors import RecomposeError
from composer_replication.ingestion import read_traces
from composer_replication.monitor.judge import Judgement, conduct_of, judge
from composer_replication.records import Trace

RESULTS = HERE / "results"
SAMPLES = HERE.parents[1] / "tests" / "samples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[SAMPLES])
    parser.add_argument("--results", type=Path, default=RESULTS)
    words = parser.parse_args()
    report = look(words.paths)
    words.results.mkdir(parents=True, exist_ok=True)
    (words.results / "sessions.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    for name, row in report["sources"].items():
        print(f"{name:20} {row}")
    for shown in report["alarms"]:
        print(f"ALARM {shown['source']} {shown['trace_id']} p={shown['p']}")
        for line in shown["lines"]:
            print(f"    {line}")


def look(paths: Sequence[Path]) -> dict[str, Any]:
    sources: dict[str, Counter[str]] = {}
    alarms: list[dict[str, Any]] = []
    for source, trace in traces(paths):
        conduct = conduct_of(trace)
        seen, as_rollout = judge(conduct), judge(replace(conduct, person=False))
        counts = sources.setdefault(source, Counter())
        counts.update(
            sessions=1, steps=len(conduct.steps), alarms=seen.alarm, with_findings=bool(seen.findings),
            with_a_person=conduct.person, alarms_as_rollout=as_rollout.alarm, auditor_alarms=seen.auditor_alarm,
        )  # fmt: skip
        if seen.alarm or as_rollout.alarm:
            alarms.append(_shown(source, trace, seen, as_rollout))
    order = ("sessions", "with_a_person", "steps", "alarms", "alarms_as_rollout", "with_findings", "auditor_alarms")
    return {
        "sources": {name: {key: int(counts[key]) for key in order} for name, counts in sorted(sources.items())},
        "alarms": alarms,
    }


def traces(paths: Sequence[Path]) -> Iterator[tuple[str, Trace]]:
    """Named by the folder below the given path. A file that is no session is passed over."""
    with tempfile.TemporaryDirectory() as scratch:
        for root in paths:
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                if not path.is_file() or path.suffix in (".py", ".md"):
                    continue
                source = path.relative_to(root).parts[0] if root.is_dir() else path.parent.name
                plain = path
                if path.suffix == ".zst":
                    plain = (
                        Path(scratch) / path.relative_to(root).with_suffix("")
                        if root.is_dir()
                        else Path(scratch) / path.stem
                    )
                    plain.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("rb") as packed, plain.open("wb") as file:
                        zstandard.ZstdDecompressor().copy_stream(packed, file)
                try:
                    yield from ((source, trace) for trace in read_traces(plain))
                except RecomposeError:
                    continue


def _shown(source: str, trace: Trace, seen: Judgement, as_rollout: Judgement) -> dict[str, Any]:
    return {
        "source": source,
        "trace_id": trace.trace_id,
        "alarm": seen.alarm,
        "alarm_as_rollout": as_rollout.alarm,
        "p": seen.p,
        "lines": [
            f"step {each.step} {each.evidence} {each.rule} ({each.hack_class}): {line}"
            for each in as_rollout.findings
            for line in each.lines
        ],
    }


if __name__ == "__main__":
    main()
