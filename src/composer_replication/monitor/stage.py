"""The monitor over a whole run: `RUN/ingestion` in, `RUN/monitor` out.

Reads traces one by one, and `ingestion/evidence.jsonl.zst` beside them where attempts left evidence. Writes findings as
`monitor/records.jsonl.zst`, a `TraceVerdict` per trace as `monitor/verdicts.jsonl.zst`, and the manifest last. A stage
that was made from the same traces by the same monitor is kept; anything else is done again. Memory holds one trace,
evidence that came before its trace, and the verdicts.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from composer_replication.environments.evidence import EVIDENCE, AttemptEvidence, TraceEvidence
from composer_replication.errors import UsageError
from composer_replication.progress import Progress
from composer_replication.records import StoredRecord, Trace
from composer_replication.runs import RECORDS, Run, encoded, read_records, write_lines, write_records
from composer_replication.store import hash_of

from .conduct import Conduct
from .judge import Judgement, conduct_of, judge

NOUN = "monitor"
VERDICTS = "monitor/verdicts.jsonl.zst"
ON_DISK = {".py", ".json"}


class TraceVerdict(StoredRecord):
    """What the monitor makes of one trace."""

    trace_id: str
    agent: str
    task_id: str | None
    outcome: float | None
    steps: int
    person: bool
    has_evidence: bool
    p: float | None
    hard: bool
    alarm: bool
    auditor_p: float | None
    auditor_alarm: bool
    canary_hit: bool
    findings: int
    classes: tuple[str, ...]


def monitor_run(run: Run, progress: Progress, *, all_rollouts: bool = False) -> None:
    """Do the stage unless it is done already, with the same input and the same monitor. `all_rollouts` judges every
    trace as a rollout of an agent alone, also where its format looks like a person's session."""
    stage, ingestion = run.stage(NOUN), run.stage("ingestion")
    judged = "all as rollouts" if all_rollouts else "by who steered"
    made_of = {"evidence": _hash(run.path / EVIDENCE), "monitor": fingerprint(), "judged": judged}
    ingested = ingestion.require()
    if not ingested["records"]:
        raise UsageError(f"{run.path} has no traces", "recompose ingest PATH --run DIR")
    done = stage.manifest
    if done and done["inputs"] == {"ingestion": ingested["sha256"], **made_of}:
        progress.note(f"{NOUN}: kept, finished earlier")
        return
    progress.stage(NOUN, f"{ingested['records']} traces")
    if done:
        (stage.path / "manifest.json").unlink()
    started, looking = time.monotonic(), _Looking(run, ingested["records"], progress, all_rollouts)
    written = write_lines(stage.path / RECORDS, looking.findings())
    write_records(run.path / VERDICTS, looking.verdicts)
    stage.seal(written, looking.counts(), [ingestion], started, made_of)


def read_verdicts(run: Run) -> list[TraceVerdict]:
    run.stage(NOUN).require()
    return list(read_records(run.path / VERDICTS, TraceVerdict))


def fingerprint() -> str:
    """Changes whenever a rule, a weight or anything else of the monitor does."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in ON_DISK:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def verdict_of(trace: Trace, conduct: Conduct, seen: Judgement) -> TraceVerdict:
    return TraceVerdict(
        trace_id=trace.trace_id,
        agent=trace.source.agent,
        task_id=trace.task_id,
        outcome=trace.outcome,
        steps=len(conduct.steps),
        person=conduct.person,
        has_evidence=conduct.evidence is not None,
        p=seen.p,
        hard=seen.hard,
        alarm=seen.alarm,
        auditor_p=seen.auditor_p,
        auditor_alarm=seen.auditor_alarm,
        canary_hit=seen.canary_hit,
        findings=len(seen.findings),
        classes=tuple(sorted({finding.hack_class for finding in seen.findings})),
    )


class _Looking:
    """Findings go out as they are made; verdicts stay."""

    def __init__(self, run: Run, traces: int, progress: Progress, all_rollouts: bool) -> None:
        self._run, self._traces, self._progress, self._all_rollouts = run, traces, progress, all_rollouts
        self._evidence = _EvidenceBesideTraces(run)
        self._classes, self._strength = Counter[str](), Counter[str]()
        self.verdicts: list[TraceVerdict] = []

    def findings(self) -> Iterator[bytes]:
        for trace in self._run.stage("ingestion").stream(Trace):
            conduct = conduct_of(trace, self._evidence.of(trace.trace_id), is_rollout=self._all_rollouts)
            seen = judge(conduct)
            self.verdicts.append(verdict_of(trace, conduct, seen))
            self._classes.update({finding.hack_class for finding in seen.findings})
            self._strength.update(finding.evidence for finding in seen.findings)
            yield from encoded(seen.findings)
            self._progress.step(len(self.verdicts), self._traces, f"{sum(v.alarm for v in self.verdicts)} alarms")
        self._evidence.read_to_the_end()

    def counts(self) -> dict[str, Any]:
        rollouts = [verdict for verdict in self.verdicts if not verdict.person]
        return {
            "rollouts": len(rollouts),
            "sessions": len(self.verdicts) - len(rollouts),
            "all_rollouts": self._all_rollouts,
            "steps": sum(verdict.steps for verdict in self.verdicts),
            "alarms": sum(verdict.alarm for verdict in self.verdicts),
            "hard": sum(verdict.hard for verdict in self.verdicts),
            "with_evidence": sum(verdict.has_evidence for verdict in self.verdicts),
            "canary_hits": sum(verdict.canary_hit for verdict in self.verdicts),
            "auditor_alarms": sum(verdict.auditor_alarm and not verdict.person for verdict in self.verdicts),
            "disagreements": sum(verdict.auditor_alarm != verdict.alarm for verdict in rollouts)
            if any(verdict.auditor_p is not None for verdict in rollouts)
            else 0,
            "has_weights": any(verdict.p is not None for verdict in self.verdicts),
            "findings": dict(self._strength),
            "classes": dict(self._classes.most_common()),
        }


class _EvidenceBesideTraces:
    """Evidence by trace id from a file in about the order of the traces. A damaged file is refused: attempts without
    evidence would look cleaner than they are."""

    def __init__(self, run: Run) -> None:
        name = (run.path / EVIDENCE).name
        self._rest = run.stage("ingestion").stream_beside(name, TraceEvidence, "roll the attempts again")
        self._waiting: dict[str, AttemptEvidence] = {}

    def of(self, trace_id: str) -> AttemptEvidence | None:
        if trace_id in self._waiting:
            return self._waiting.pop(trace_id)
        for each in self._rest:
            if each.trace_id == trace_id:
                return each.evidence
            self._waiting[each.trace_id] = each.evidence
        return None

    def read_to_the_end(self) -> None:
        """Only there it is known whether the file is whole."""
        for _ in self._rest:
            pass


def _hash(path: Path) -> str:
    return hash_of([path]) if path.exists() else ""
