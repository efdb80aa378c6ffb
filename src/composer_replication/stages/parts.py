"""A measurement in parts, each kept as soon as it is made, so that a call that was stopped can be gone on with.

Its key names all that its values depend on: parts of other weights, settings, inputs or machines are not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from pydantic import BaseModel

from composer_replication.progress import Progress
from composer_replication.records import content_id
from composer_replication.runs import Run, StageFolder, Written, encoded
from composer_replication.store import DAMAGED, write_shard

from .policy import model_folder
from .sharding import key_of


def measured_with(run: Run, noun: str, *inputs: str) -> str:
    """What the values of the model of stage `noun` depend on; `inputs` are stages that may be there."""
    from composer_replication.training.machine import describe_machine
    from composer_replication.training.models.embedded import hash_of

    made_from = [stage.whole() for stage in map(run.stage, inputs) if stage.is_done]
    # Not its card, which every measurement writes again.
    files = sorted(file for file in model_folder(run, noun).rglob("*") if file.is_file() and file.suffix != ".md")
    return content_id(key_of(*made_from), run.config.hash, hash_of(files), describe_machine())


class Parts:
    """Those of the stage, in the order in which they are taken or added."""

    def __init__(self, stage: StageFolder, keys: Collection[str], what: str, progress: Progress) -> None:
        self._writer = stage.write_shards()
        found = sum(self._writer.find(key) is not None for key in keys)
        if found:
            progress.note(f"{stage.noun}: goes on, as {found} of {len(keys)} {what} are measured already")

    def take(self, key: str) -> int | None:
        """The number of records that an earlier call left; None where the part is to be made."""
        if found := self._writer.find(key):
            with suppress(*DAMAGED):
                self._writer.add(found)
                return found.records
        return None

    def add(self, key: str, records: Iterable[BaseModel]) -> int:
        made = write_shard(self._writer.scratch / "part.shard", key, encoded(records), None)
        self._writer.add(made)
        return made.records

    def close(self) -> Written:
        return self._writer.close()
