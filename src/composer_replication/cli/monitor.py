"""`recompose monitor RUN`"""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.runs import Run

from .common import Json, working_on


def monitor(
    run: Path,
    /,
    *,
    show_all: Annotated[
        bool, Parameter(name="--all", negative="", help="Show every rollout with a finding, with all its lines.")
    ] = False,
    json: Json = False,
) -> None:
    """Look for reward hacks in the rollouts and sessions of RUN, and show the offending lines.

    Reads traces, and what attempts of `recompose env rollout` left behind. Writes RUN/monitor with a page to read.
    """
    from composer_replication.monitor.report import as_json, read_report, told, write_page
    from composer_replication.monitor.stage import monitor_run

    opened = Run.open(run)
    opened.stage("ingestion").require()
    with working_on(opened) as progress:
        monitor_run(opened, progress)
        report = read_report(opened, show_all)
        write_page(report)
    if json:
        print(jsonlib.dumps(as_json(report)))
    else:
        print("\n".join(told(report, show_all)))
