"""`recompose sites RUN`, and `recompose sites --score`"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from composer_replication.errors import UsageError

from .common import Json, RunFolder, Workers, run_one_stage


def sites(
    run: RunFolder | None = None,
    /,
    *,
    score: Annotated[bool, Parameter(negative="", help="Measure the detectors on the gold set instead.")] = False,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Find the turns where something went wrong, in the traces of RUN."""
    if score and run:
        raise UsageError("--score measures on the gold set, not on a run", "recompose sites --score")
    if score:
        _score(json)
    elif run is None:
        raise UsageError("no run given", "recompose sites RUN")
    else:
        run_one_stage(run, "sites", json, workers=workers)


def _score(as_json: bool) -> None:
    from composer_replication.sites.gold import MIN_CASES, score

    result = score()
    if as_json:
        print(jsonlib.dumps(result))
        return
    print(f"{result['items']} labelled turns of {result['formats']} formats\n")
    print(f"{'kind':<20}{'labelled':>9}   {'precision [95 %]':<24}{'recall [95 %]':<24}")
    for kind, row in result["kinds"].items():
        mark = "" if row["scored"] else "  *"
        print(f"{kind:<20}{row['labelled']:>9}   {_interval(row['precision']):<24}{_interval(row['recall']):<24}{mark}")
    for name, label in (("pooled", "tools and runtime"), ("fresh", "fresh draw")):
        row = result[name]
        print(f"{label:<20}{row['labelled']:>9}   {_interval(row['precision']):<24}{_interval(row['recall']):<24}")
    kappa = result["kappa"]
    print(f"\n* fewer than {MIN_CASES} cases, or the user's: shown, not pooled")
    print(f"two readers: kappa {kappa['kappa']:.3f}, {kappa['agreement']:.1%} of {kappa['n']} turns labelled alike")


def _interval(estimate: Mapping[str, Any]) -> str:
    if estimate["mean"] is None:
        return "–"
    return f"{estimate['mean']:.3f} [{estimate['lo']:.3f}, {estimate['hi']:.3f}]"
