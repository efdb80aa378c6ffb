"""`recompose pair RUN`"""

from __future__ import annotations

import json as json_module
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.errors import UsageError
from composer_replication.pairs.card import dataset_card
from composer_replication.pipeline import run_stage
from composer_replication.records import ErrorSite, PreferencePair, TeacherReply, Trace
from composer_replication.runs import Run, write_atomically
from composer_replication.sites.marking import failed_calls

from .common import Json, RunFolder, working_on

ExportFormat = Literal["trl", "kto", "sft", "verl"]


def pair(
    run: RunFolder,
    /,
    *,
    export: Annotated[ExportFormat | None, Parameter(help="Also write a dataset to RUN/pairs/export/FORMAT.")] = None,
    max_tokens: Annotated[
        int | None, Parameter(help="With --export: a prompt that makes a pair longer than this is windowed.")
    ] = None,
    signal: Annotated[
        str | None,
        Parameter(
            help="Also measure how far the pairs are from random ones under this model: `policy` (the run's own), "
            "a folder or a hub id."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Turn the teachers' votes of RUN into preference pairs, and tell what became of each state."""
    from .pair_report import pair_report, show_report

    if max_tokens is not None and (not export or max_tokens < 1):
        raise UsageError("--max-tokens limits an export", "give --export FORMAT and a number above 0")
    opened = Run.open(run)
    with working_on(opened) as progress:
        run_stage(opened, "pairs", progress)
        report = pair_report(opened, signal, progress)
        if export:
            report["export"] = _export(opened, export, max_tokens)
    if json:
        print(json_module.dumps(report))
    else:
        show_report(report)


def _export(run: Run, format: ExportFormat, max_tokens: int | None) -> str:
    from composer_replication.pairs.export import export_pairs

    folder = run.path / "pairs" / "export" / format
    pairs = run.stage("pairs").read(PreferencePair)
    failed = failed_calls(run.stage("sites").read(ErrorSite))
    done = export_pairs(pairs, format, folder, max_tokens=max_tokens, failed_calls=failed)
    card = dataset_card(
        format,
        pairs,
        run.stage("ingestion").read(Trace),
        run.stage("replay").read(TeacherReply),
        run.stage("pairs").counts["verdicts"],
        run.stage("ingestion").counts.get("redactions", {}),
        done.rows,
        done.left_out,
        done.windowed,
    )
    write_atomically(folder / "README.md", card)
    return str(folder)
