"""`recompose hint RUN`"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from composer_replication.errors import quoted
from composer_replication.pipeline import run_stage
from composer_replication.records import ErrorSite, Hint, JsonObject
from composer_replication.runs import Run
from composer_replication.viewer.visible import visible

from .common import Json, RunFolder, Workers, tell, working_on


def hint(
    run: RunFolder,
    /,
    *,
    all: Annotated[bool, Parameter(negative="", help="List every hint, with its kind and its turn.")] = False,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Write a short hint for each error site of RUN."""
    opened = Run.open(run)
    with working_on(opened) as progress:
        run_stage(opened, "hints", progress, workers=workers)
    listed = _listed(opened) if all else []
    if json or not all:
        tell("hints", opened, json, {"listed": listed} if all else None)
        return
    for row in listed:
        print(f"{row['hint_id']}  {row['error_kind']}, {row['trace_id']}:{row['turn']}\n    {visible(row['text'])}")
    print(f"to leave one out: recompose fork {quoted(run)} NEW --set 'hints.drop=[\"ID\"]'")


def _listed(run: Run) -> list[JsonObject]:
    sites = {site.site_id: site for site in run.stage("sites").stream(ErrorSite)}
    return [
        {
            **{name: getattr(hint, name) for name in ("hint_id", "site_id", "text")},
            **{name: getattr(sites[hint.site_id], name) for name in ("error_kind", "trace_id", "turn")},
        }
        for hint in run.stage("hints").stream(Hint)
    ]
