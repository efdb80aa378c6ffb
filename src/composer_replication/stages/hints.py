"""`RUN/hints`: a short reminder for each site. A shard of traces and its shard of sites become a shard of hints."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.config import HintsConfig
from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.hints import HintGenerator, HintSet, SiblingHintGenerator, write_hints
from composer_replication.hints.write import REFUSALS, HintRefusal
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, Trace
from composer_replication.runs import Run, Shard, StageFolder, encoded, write_records
from composer_replication.store import write_shard

from .sharding import ShardJob, key_of, make_shards, shards_together


@dataclass(frozen=True)
class HintsJob(ShardJob):
    run: Path
    sites: Shard
    config: HintsConfig


def hint_in_shard(job: HintsJob) -> Shard:
    return _make(job, None, ())


def hint(run: Run, progress: Progress, workers: int | None = None) -> None:
    from composer_replication.hints.judge import open_judge

    started, stage, config = time.monotonic(), run.stage("hints"), run.config.hints
    ingestion, sites = run.stage("ingestion"), run.stage("sites")
    writer, totals = stage.write_shards(), Counter[str]()
    refused: list[tuple[str, str]] = []
    unnamed = set(config.drop)
    groups = {name: Counter[str]() for name in ("layers", "leak_levels", "dropped")}
    solved: list[Trace] = []
    if config.sibling != "off":
        solved = [trace for trace in ingestion.stream(Trace) if SiblingHintGenerator.is_example(trace)]
    with open_judge(config, run.path) as judge:
        # What a judge or another trace had to say is not in the key.
        is_alone = judge is None and config.sibling == "off"
        jobs = (
            HintsJob(
                key_of(traces, found) if is_alone else "",
                writer.scratch / f"{number}.shard",
                traces,
                run.path,
                found,
                config,
            )
            for number, (traces, found) in enumerate(shards_together(ingestion, sites))
        )

        def ask_in_shard(job: HintsJob) -> Shard:
            return _make(job, judge, solved)

        make, number = (hint_in_shard, workers) if is_alone else (ask_in_shard, 1)
        for counted in make_shards(writer, ingestion, jobs, make, progress, number):
            totals["hints"] += counted["hints"]
            refused += counted["refused"]
            unnamed -= set(counted["named"])
            for name, group in groups.items():
                group.update(counted[name])
    if judge and judge.tally.sites and judge.tally.failed.total() == judge.tally.sites:
        reason = next(iter(judge.tally.failed))
        next_command = f"check the server, then recompose hint {quoted(run.path)}"
        raise RecomposeError(f"no judge call was answered: {reason}", next_command)
    if unnamed:
        remedy = f"recompose hint {quoted(run.path)} --all lists those of a run without hints.drop"
        raise UsageError(f"hints.drop names no hint: {', '.join(sorted(unnamed))}", remedy)
    counts: dict[str, Any] = {"hints": totals["hints"], **{name: dict(group) for name, group in groups.items()}}
    counts |= {"judge": judge.tally.counts()} if judge else {}
    written = writer.close()
    reasons = (HintRefusal(site_id=site_id, reason=reason) for site_id, reason in refused)
    beside = {REFUSALS: write_records(stage.path / REFUSALS, reasons)}
    stage.seal(written, counts, [ingestion, sites], started, beside=beside, shaped_like=ingestion)


def _make(job: HintsJob, judge: HintGenerator | None, solved: Sequence[Trace]) -> Shard:
    ingestion, stage = StageFolder(job.run / "ingestion"), StageFolder(job.run / "sites")
    by_trace: dict[str, list[ErrorSite]] = defaultdict(list)
    for site in stage.stream(ErrorSite, job.sites):
        by_trace[site.trace_id].append(site)
    written, refused, left_out = HintSet([], Counter()), list[HintRefusal](), set[str]()
    for trace in ingestion.stream(Trace, job.traces, only=by_trace) if by_trace else ():
        sibling = SiblingHintGenerator([*solved, trace], show_call=job.config.sibling == "call")
        found = write_hints(
            {trace.trace_id: trace},
            by_trace.pop(trace.trace_id),
            job.config.max_tokens,
            judge=judge,
            sibling=sibling if job.config.sibling != "off" else None,
            max_leak_level=job.config.max_leak_level,
            on_refusal=refused.append,
        )
        written.dropped.update(found.dropped)
        for made in found.hints:
            named = {name for name in job.config.drop if made.hint_id.startswith(name) or made.site_id.startswith(name)}
            left_out |= named
            if named:
                written.dropped["left_out"] += 1
                refused.append(HintRefusal(site_id=made.site_id, reason="left_out"))
            else:
                written.hints.append(made)
    if by_trace:
        raise stage.damaged()
    about = written.counts() | {"refused": [(one.site_id, one.reason) for one in refused], "named": sorted(left_out)}
    return write_shard(job.shard, job.key, encoded(written.hints), about)
