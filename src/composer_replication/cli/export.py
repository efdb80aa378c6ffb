"""`recompose export RUN --parquet DIR | --prime-rl FILE`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import UsageError
from composer_replication.pipeline import refuse_stale
from composer_replication.runs import Run, write_atomically

from .common import Json, RunFolder, working_on


def export(
    run: RunFolder,
    /,
    *,
    parquet: Annotated[
        Path | None, Parameter(help="The folder for the tables. Those that are there and still true are kept.")
    ] = None,
    prime_rl: Annotated[
        Path | None, Parameter(help="The rl.toml to write: the run's settings for prime-rl, where nobody ran it yet.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the records of RUN as Parquet tables: traces, turns, calls, sites, hints, replies, pairs, and why there is
    no hint or no pair. docs/tables.md has the columns, docs/queries.md has questions. Datasets for trainers: `recompose
    pair`.
    """
    if (parquet is None) == (prime_rl is None):
        raise UsageError("what is to be exported?", "give --parquet DIR or --prime-rl FILE")
    opened = Run.open(run)
    if prime_rl:
        from composer_replication.training.prime_rl import left_out, prime_toml

        write_atomically(prime_rl, prime_toml(opened.config))
        print(f"settings of {run} for prime-rl in {prime_rl}; not run by us: docs/engines/prime-rl.md says why")
        print("\n".join(f"  left out: {line}" for line in left_out(opened.config)))
        return
    assert parquet is not None
    from composer_replication.stages.parquet import export_tables

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
