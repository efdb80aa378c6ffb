"""A stage that makes a shard of its own out of each shard of an earlier one, in any number of processes.

The key of a shard names what it was made from, so what an earlier attempt made of the same is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from composer_replication import __version__
from composer_replication.parallel import in_order, workers_for
from composer_replication.progress import Progress
from composer_replication.records import content_id
from composer_replication.runs import RECORDS, Shard, ShardWriter, StageFolder
from composer_replication.store import DAMAGED

PACKED_BYTES_PER_PROCESS = 2 << 20
"""Finding sites in this many compressed bytes of traces costs about as much as starting a process."""


@dataclass(frozen=True)
class ShardJob:
    key: str
    shard: Path
    """Where it goes."""
    traces: Shard
    """That it is made from."""


AnyJob = TypeVar("AnyJob", bound=ShardJob)


def key_of(*made_from: Shard) -> str:
    return content_id(__version__, *(shard.sha256 for shard in made_from))


def shards_together(*stages: StageFolder) -> Iterator[tuple[Shard, ...]]:
    """Shards of the same traces, where the stages have one shape; else all as one."""
    shapes = {stage.shape for stage in stages}
    if None in shapes or len(shapes) > 1:
        return iter([tuple(stage.whole() for stage in stages)])
    return zip(*(stage.shards() for stage in stages), strict=True)


def make_shards(
    writer: ShardWriter,
    source: StageFolder,
    jobs: Iterable[AnyJob],
    make: Callable[[AnyJob], Shard],
    progress: Progress,
    workers: int | None,
    detail: Callable[[], str] = str,
) -> Iterator[Any]:
    """Yields what is counted in each shard. With one worker all is done here, and `make` may be any function."""
    done, total = 0, source.require()["records"]
    number = workers_for((source.path / RECORDS).stat().st_size, PACKED_BYTES_PER_PROCESS, workers)
    for job, found in in_order(make, jobs, number, lambda job: writer.find(job.key)):
        shard = found
        try:
            writer.add(shard)
        except DAMAGED:
            shard = make(job)
            writer.add(shard)
        job.shard.unlink(missing_ok=True)
        done += job.traces.records
        progress.step(done, total, detail())
        yield msgspec.json.decode(shard.about)
