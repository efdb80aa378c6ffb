"""`recompose monitor RUN`"""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

from cyclopts import Parameter

from composer_replication.runs import Run

from .common import Json, RunFolder, working_on


def monitor(
    run: RunFolder,
    /,
    *,
    show_all: Annotated[
        bool, Parameter(name="--all", negative="", help="Show every rollout with a finding, with all its lines.")
    ] = False,
    rollouts: Annotated[
        bool, Parameter(negative="", help="Judge every trace as a rollout of an agent alone, also chats and sessions.")
    ] = False,
    fail_on_alarm: Annotated[bool, Parameter(negative="", help="Exit with code 1 where there is an alarm.")] = False,
    json: Json = False,
) -> None:
    """Look for reward hacks in the rollouts and sessions of RUN, and show the offending lines.

    Reads traces, and what attempts of `recompose env rollout` left behind. Writes RUN/monitor with a page to read.
    Sessions that a person steered are shown and not judged.
    """
    from composer_replication.monitor.report import as_json, read_report, told, write_page
    from composer_replication.monitor.stage import monitor_run

    opened = Run.open(run)
    opened.stage("ingestion").require()
    with working_on(opened) as progress:
        monitor_run(opened, progress, all_rollouts=rollouts)
        report = read_report(opened, show_all)
        write_page(report)
    if json:
        print(jsonlib.dumps(as_json(report)))
    else:
        print("\n".join(told(report, show_all)))
    if fail_on_alarm and report.counts["alarms"]:
        raise SystemExit(1)
