"""`DIR/TABLE.parquet`: the records of a run's finished stages as tables, for DuckDB, pandas and the like.

Records stream through: what is held is one row group of each table that a file of records fills. A table appears whole
or not at all. Its schema carries what it was made of, so a table that is there and still true is kept, one of an
earlier state of the run is made again, and a file of anything else is never replaced.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from composer_replication.errors import UsageError, quoted
from composer_replication.progress import Progress
from composer_replication.runs import NEXT_COMMAND, Run, StageFolder

from .tables import FILES, RecordFile, Row, Table

GROUP_ROWS = 20_000
GROUP_CHARACTERS = 4 << 20
"""Of all texts of a row group; a group ends with the row that passes it."""
OWNER = b"recompose.run"


def export_tables(run: Run, folder: Path, progress: Progress) -> dict[str, Any]:
    """Rows of every table, those that were kept, and the stages that the run lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    plans = {source: {table: _schema(run, source, table) for table in source.tables} for source in FILES}
    schemas = {table: schema for plan in plans.values() for table, schema in plan.items()}
    kept = {table for table, schema in schemas.items() if _is_current(_path(folder, table), schema)}
    for table in schemas.keys() - kept:
        # None of an earlier state may stay beside new ones if this is stopped half-way.
        _path(folder, table).unlink(missing_ok=True)
    for source, plan in plans.items():
        left = {table: schema for table, schema in plan.items() if table not in kept}
        if left:
            progress.stage("export", ", ".join(table.name for table in left))
            _write(run, source, left, folder, progress)
    lacking = {
        table.name: _why_empty(run.stage(source.stage), source)
        for source in FILES
        for table in source.tables
        if _sha256(run.stage(source.stage), source) is None
    }
    return {
        "folder": str(folder),
        "rows": {table.name: _rows(_path(folder, table)) for table in schemas},
        "bytes": sum(_path(folder, table).stat().st_size for table in schemas),
        "kept": [table.name for table in schemas if table in kept],
        "empty": lacking,
        "redacted": run.config.ingestion.redact,
    }


def _schema(run: Run, source: RecordFile, table: Table) -> Any:
    import pyarrow as pa

    stage = run.stage(source.stage)
    ingested = (run.stage("ingestion").manifest or {}).get("counts", {})
    facts = {
        OWNER: f"{run.origin['config_hash']} {run.origin['created']}",
        b"recompose.stage": source.stage,
        b"recompose.sha256": _sha256(stage, source) or "",
        b"recompose.redacted": json.dumps(run.config.ingestion.redact),
        b"recompose.redactions": json.dumps(ingested.get("redactions", {}), sort_keys=True),
    }
    lists = {"string[]": pa.list_(pa.field("element", pa.string()))}  # Parquet's name of an element
    types = {name: lists.get(of) or pa.type_for_alias(of) for name, of in table.types.items()}
    return pa.schema(types).with_metadata(facts)


def _sha256(stage: StageFolder, source: RecordFile) -> str | None:
    """Of the records that fill a table; None where the run has none."""
    manifest = stage.manifest
    if manifest is None:
        return None
    if source.beside is None:
        return manifest["sha256"]
    return manifest.get("beside", {}).get(source.beside, {}).get("sha256")


def _why_empty(stage: StageFolder, source: RecordFile) -> str:
    if stage.is_done:
        return f"the {stage.noun} were made before {source.beside} was kept"
    command = NEXT_COMMAND[stage.noun].replace("RUN", quoted(stage.path.parent))
    return f"the run has no {stage.noun} stage; next: {command}"


def _path(folder: Path, table: Table) -> Path:
    return folder / f"{table.name}.parquet"


def _is_current(path: Path, schema: Any) -> bool:
    """Whether there is this table of this run, made of what the run holds now. Raises for a file of another making."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        return False
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        found = None
    if found is None or (found.metadata or {}).get(OWNER) != schema.metadata[OWNER]:
        raise UsageError(f"{path} is not of this run", "choose another folder for --parquet")
    return bool(found.equals(schema, check_metadata=True))


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def _write(run: Run, source: RecordFile, schemas: dict[Table, Any], folder: Path, progress: Progress) -> None:
    stage = run.stage(source.stage)
    with ExitStack() as stack:
        writers = {table: stack.enter_context(_TableWriter(_path(folder, table), schemas[table])) for table in schemas}
        if not stage.is_done:
            return
        total = stage.require()["records"]
        records = stage.stream(source.record)
        if source.beside is not None:
            remedy = f"delete {quoted(stage.path)} and what comes after, then do the stage again"
            records, total = stage.stream_beside(source.beside, source.record, remedy), None
        for done, record in enumerate(records, 1):
            for table, writer in writers.items():
                for row in table.rows(record):
                    writer.add(row)
            if total:
                progress.step(done, total)


class _TableWriter:
    """One Parquet file, a row group at a time; it gets its name when all of it is there."""

    def __init__(self, path: Path, schema: Any) -> None:
        import pyarrow.parquet as pq

        self._path, self._schema = path, schema
        self._temporary = path.with_name(f".{path.name}.partial")
        self._writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")
        self._rows: list[Row] = []
        self._characters = 0

    def __enter__(self) -> _TableWriter:
        return self

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(self._rows) >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._flush()

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None and self._rows:
            self._flush()
        self._writer.close()
        if kind is None:
            with self._temporary.open("rb") as written:
                os.fsync(written.fileno())
            self._temporary.rename(self._path)
        else:
            self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._characters = [], 0
