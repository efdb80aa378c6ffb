"""`recompose pair RUN`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.errors import UsageError
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run

from .common import Json, RunFolder, working_on
from .examples import ending

ExportFormat = Literal["trl", "kto", "sft", "verl"]


def pair(
    run: RunFolder,
    /,
    *,
    export: Annotated[ExportFormat | None, Parameter(help="Also write a dataset to RUN/pairs/export/FORMAT.")] = None,
    into: Annotated[
        Path | None, Parameter(name=["--into", "-o"], help="With --export: write it to this folder's FORMAT instead.")
    ] = None,
    max_tokens: Annotated[
        int | None, Parameter(help="With --export: a prompt that makes a row longer than this is windowed.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        Parameter(help="With --export: the model that counts tokens, a folder or a hub id; the run's own without it."),
    ] = None,
    calls_as_text: Annotated[
        bool,
        Parameter(negative="", help="With --export: write calls as text, for chat templates that know no tools."),
    ] = False,
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

    if not export and (into or max_tokens is not None or tokenizer is not None or calls_as_text):
        told = "--into, --max-tokens, --tokenizer and --calls-as-text are for an export"
        raise UsageError(told, "give --export FORMAT")
    if max_tokens is not None and max_tokens < 1:
        raise UsageError("--max-tokens must be above 0", "give a number above 0")
    opened = Run.open(run)
    with working_on(opened) as progress:
        run_stage(opened, "pairs", progress)
        report = pair_report(opened, signal, progress)
        if export:
            from composer_replication.stages.export import export as write_dataset

            report["export"] = write_dataset(opened, export, max_tokens, calls_as_text, tokenizer, into)
    if json:
        print(json_module.dumps(report))
    else:
        show_report(report)
        print("\n".join(ending(opened, "pairs")))
