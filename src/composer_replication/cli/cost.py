"""`recompose cost RUN`"""

from __future__ import annotations

import json as json_module
from contextlib import closing
from typing import Annotated, Any

from cyclopts import Parameter

from composer_replication.errors import UsageError, quoted
from composer_replication.llm.bill import TeacherBill, bills
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import dollars
from composer_replication.llm.reconcile import reconcile
from composer_replication.runs import Run

from .common import Json, RunFolder

COLUMNS = {"settled": 9, "inherited": 11, "failed": 8, "refused": 9, "in_doubt": 10}


def cost(
    run: RunFolder,
    /,
    *,
    reconcile_first: Annotated[
        bool, Parameter(name="--reconcile", negative="", help="Ask the providers what calls in doubt did cost.")
    ] = False,
    key_usage: Annotated[
        bool,
        Parameter(negative="", help="Also by what the key has spent since the run began; only if nobody else used it."),
    ] = False,
    json: Json = False,
) -> None:
    """What RUN spent on models, by teacher and outcome, per accepted pair, and how long the answers took."""
    opened = Run.open(run)
    path = opened.path / "ledger.sqlite"
    if not path.exists():
        raise UsageError(f"{run} has asked no model", f"recompose replay {quoted(run)}")
    looks_up = reconcile_first or key_usage
    with closing(Ledger(path, read_only=not looks_up)) as ledger:
        settled_doubts = reconcile(ledger, by_key_usage=key_usage) if looks_up else 0
        found, totals = bills(ledger), ledger.totals()
    pairs = opened.stage("pairs").counts["pairs"] if opened.stage("pairs").is_done else None
    result = {
        "run": str(opened.path),
        "spent_micros": totals.charged_micros,
        "held_micros": totals.held_micros,
        "cap_micros": totals.cap_micros,
        "reconciled": settled_doubts,
        "pairs": pairs,
        "micros_per_pair": round(totals.charged_micros / pairs, 1) if pairs else None,
        "teachers": [{**bill._asdict(), "spent_micros": bill.spent_micros} for bill in found],
    }
    if json:
        print(json_module.dumps(result))
    else:
        _show(result, found)


def _show(result: dict[str, Any], found: list[TeacherBill]) -> None:
    heads = "".join(f"{state.replace('_', ' '):>{width}}" for state, width in COLUMNS.items())
    print(f"{'teacher':<34}{heads}{'spent':>12}   p50 / p95 / p99")
    for bill in found:
        counts = "".join(f"{bill.attempts[state]:>{width}}" for state, width in COLUMNS.items())
        latency = " / ".join(f"{seconds:.2f}" for seconds in bill.latency_s.values())
        timed = f"{latency} s" if latency else "none was asked here"
        print(f"{bill.teacher:<34}{counts}{f'${bill.spent_micros / 1e6:,.4f}':>12}   {timed}")
        for reason, count in list(bill.reasons.items())[:3]:
            words = bill.words.get(reason, "")
            print(f"{'':<34}  {count} × {reason}{words and f': {words}'}")
    cap = "no cap" if result["cap_micros"] is None else f"cap {dollars(result['cap_micros'])}"
    doubt = sum(bill.micros["in_doubt"] for bill in found)
    print(f"spent ${result['spent_micros'] / 1e6:,.6f} ({cap}), of which ${doubt / 1e6:,.6f} in doubt at worst case")
    if result["micros_per_pair"] is not None:
        print(f"${result['micros_per_pair'] / 1e6:,.6f} per accepted pair ({result['pairs']} pairs)")
