"""`recompose export RUN --parquet DIR`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.pipeline import refuse_stale
from composer_replication.runs import Run

from .common import Json, RunFolder, working_on


def export(
    run: RunFolder,
    /,
    *,
    parquet: Annotated[
        Path, Parameter(help="The folder for the tables. Those that are there and still true are kept.")
    ],
    json: Json = False,
) -> None:
    """Write the records of RUN as Parquet tables: traces, turns, calls, sites, hints, replies, pairs, and why there is
    no hint or no pair. docs/queries.md has the columns and questions to ask. Datasets for trainers: `recompose pair`.
    """
    from composer_replication.stages.parquet import export_tables

    opened = Run.open(run)
    refuse_stale(opened, "pairs", renewing=False)
    with working_on(opened) as progress:
        done = export_tables(opened, parquet, progress)
    if json:
        print(json_module.dumps({"run": str(run), **done}))
        return
    print(f"tables of {run} in {done['folder']}, {done['bytes'] / 1e6:.1f} MB")
    for name, rows in done["rows"].items():
        said = f"  empty: {done['empty'][name]}" if name in done["empty"] else ""
        print(f"  {name:<10} {rows:>10,}{'  kept' if name in done['kept'] else ''}{said}")
    if not done["redacted"]:
        print("  NOT REDACTED: this run was ingested with redact = false")
