"""A measurement in parts, each kept as soon as it is made, so that a call that was stopped can be gone on with.

Its key names all that its values depend on: parts of other weights, settings, inputs or machines are not found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Generic, Self

from composer_replication.progress import Progress
from composer_replication.records import content_id
from composer_replication.runs import Run, StageFolder, Written, encoded
from composer_replication.store import DAMAGED, AnyRecord, hash_of, write_shard

from .policy import model_folder
from .sharding import key_of


def measured_with(run: Run, noun: str, *inputs: str) -> str:
    """What the values of the model of stage `noun` depend on; `inputs` are stages that may be there."""
    from composer_replication.training.machine import describe_machine

    made_from = [stage.whole() for stage in map(run.stage, inputs) if stage.is_done]
    # Not its card, which every measurement writes again.
    files = sorted(file for file in model_folder(run, noun).rglob("*") if file.is_file() and file.suffix != ".md")
    return content_id(key_of(*made_from), _settings(run), hash_of(files), describe_machine())


def _settings(run: Run) -> str:
    """All but how much is measured, which changes no value."""
    evaluation = run.config.evaluation.model_copy(update={"tasks": 0})
    return run.config.model_copy(update={"evaluation": evaluation}).hash


class Parts(Generic[AnyRecord]):
    """Those of the stage, in the order in which they are taken or added. An interrupt says how many are kept, of this
    call and of earlier ones."""

    def __init__(
        self, stage: StageFolder, kind: type[AnyRecord], keys: Collection[str], what: str, progress: Progress
    ) -> None:
        self._writer, self._kind, self._all, self._what = stage.write_shards(), kind, len(keys), what
        self.records: list[AnyRecord] = []
        """Of all parts so far."""
        self.kept = {key for key in keys if self._writer.find(key)}
        if self.kept:
            progress.note(f"{stage.noun}: goes on, as {len(self.kept)} of {len(keys)} {what} are measured already")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            error.args = (f"{len(self.kept)} of {self._all} {self._what} are kept",)

    def take(self, key: str) -> Sequence[AnyRecord] | None:
        """What an earlier call left; None where the part is to be made."""
        if found := self._writer.find(key):
            with suppress(*DAMAGED):
                records = list(found.read(self._kind))
                self._writer.add(found)
                self.records += records
                return records
            self.kept.discard(key)
        return None

    def add(self, key: str, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        self._writer.add(write_shard(self._writer.scratch / "part.shard", key, encoded(records), None))
        self.kept.add(key)
        self.records += records
        return records

    def close(self) -> Written:
        return self._writer.close()
