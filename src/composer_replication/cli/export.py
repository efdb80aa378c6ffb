"""`recompose export RUN --parquet DIR | --prime-rl FILE | --hub-model ID | --hub-dataset ID`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import UsageError
from composer_replication.pipeline import refuse_stale
from composer_replication.runs import Run, write_atomically

from .common import Json, RunFolder, quiet_libraries, working_on


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
    hub_model: Annotated[
        str | None, Parameter(help="OWNER/NAME on the hub: the trained model and its card. HF_TOKEN, or hf auth login.")
    ] = None,
    hub_dataset: Annotated[
        str | None, Parameter(help="OWNER/NAME on the hub: what `recompose pair RUN --export FORMAT` wrote, its card.")
    ] = None,
    public: Annotated[
        bool, Parameter(negative="", help="With --hub-model or --hub-dataset: one that is made is not private.")
    ] = False,
    json: Json = False,
) -> None:
    """Write the records of RUN as Parquet tables: traces, turns, calls, sites, hints, replies, pairs, and why there is
    no hint or no pair. docs/tables.md has the columns, docs/queries.md questions to ask.

    Datasets for trainers: `recompose pair`. To the hub goes only what was searched for secrets and personal data; one
    finding stops all of it.
    """
    if (given := sum(asked is not None for asked in (parquet, prime_rl, hub_model, hub_dataset))) != 1:
        choices = "--parquet DIR, --prime-rl FILE, --hub-model ID or --hub-dataset ID"
        raise UsageError("one export at a time" if given else "what is to be exported?", f"give one of {choices}")
    if public and not (hub_model or hub_dataset):
        raise UsageError("--public is for the hub", "give --hub-model ID or --hub-dataset ID")
    opened = Run.open(run)
    if hub_model or hub_dataset:
        from composer_replication.stages.hub import push

        quiet_libraries()
        sent = push(opened, "model" if hub_model else "dataset", hub_model or hub_dataset or "", public)
        told = f"{sent.url}: {', '.join(sent.files)}, {sent.size_bytes / 1e6:.1f} MB"
        print(json_module.dumps({"run": str(run), **sent._asdict()}) if json else told)
        return
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
