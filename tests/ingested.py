"""What an ingestion would store, without a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from composer_replication.ingestion import Ingestion
from composer_replication.progress import Silent
from composer_replication.store import RECORDS, Shard, ShardWriter


def stored_lines(reading: Ingestion) -> list[bytes]:
    """Lines without their ends."""
    with tempfile.TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder))
        reading.write(writer, Silent())
        writer.close()
        return [line.rstrip(b"\n") for line in Shard(Path(folder, RECORDS)).lines()]
