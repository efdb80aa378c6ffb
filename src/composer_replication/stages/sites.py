"""`RUN/sites`: turns where something went wrong. A shard of traces becomes a shard of sites."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from composer_replication.errors import RecomposeError, quoted
from composer_replication.progress import Progress
from composer_replication.records import ErrorSite, Trace
from composer_replication.runs import Run, Shard, StageFolder, encoded
from composer_replication.sites import find_sites
from composer_replication.store import write_shard

from .sharding import ShardJob, key_of, make_shards


@dataclass(frozen=True)
class SitesJob(ShardJob):
    folder: Path


def find_in_shard(job: SitesJob) -> Shard:
    return _make(job, find_sites)


def locate(run: Run, progress: Progress, workers: int | None = None) -> None:
    from composer_replication.sites.reader import open_reader

    started, stage, ingestion = time.monotonic(), run.stage("sites"), run.stage("ingestion")
    writer, kinds, faults = stage.write_shards(), Counter[str](), Counter[str]()
    with open_reader(run.config.sites, run.path) as reader:
        # A reader's answers are in the ledger, and a call that failed is made again: no shard is kept.
        jobs = (
            SitesJob("" if reader else key_of(shard), writer.scratch / f"{number}.shard", shard, ingestion.path)
            for number, shard in enumerate(ingestion.shards())
        )

        def read_in_shard(job: SitesJob) -> Shard:
            return _make(job, lambda trace: reader.read(trace, find_sites(trace)) if reader else [])

        def turns_read() -> str:
            return f"{reader.tally.turns} turns read" if reader else ""

        make, number = (read_in_shard, 1) if reader else (find_in_shard, workers)
        for counted in make_shards(writer, ingestion, jobs, make, progress, number, turns_read):
            kinds.update(counted["kinds"])
            faults.update(counted["faults"])
    if reader and reader.tally.turns and reader.tally.failed.total() == reader.tally.turns:
        reason, again = next(iter(reader.tally.failed)), f"check the server, then recompose sites {quoted(run.path)}"
        raise RecomposeError(f"no reader call was answered: {reason}", again)
    counts = {"sites": kinds.total(), "kinds": dict(kinds), "faults": dict(faults)}
    counts |= {"reader": reader.tally.counts()} if reader else {}
    stage.seal(writer.close(), counts, [ingestion], started, shaped_like=ingestion)


def _make(job: SitesJob, find: Callable[[Trace], Iterable[ErrorSite]]) -> Shard:
    kinds, faults = Counter[str](), Counter[str]()

    def counted() -> Iterator[ErrorSite]:
        for trace in StageFolder(job.folder).stream(Trace, job.traces):
            for site in find(trace):
                kinds[site.error_kind] += 1
                faults[site.fault] += 1
                yield site

    lines = b"".join(encoded(counted()))
    return write_shard(job.shard, job.key, [lines], {"kinds": kinds, "faults": faults})
