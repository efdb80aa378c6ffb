"""Tasks made from source distributions: yield, reasons of rejection, processor seconds, and how many verify again.

    pip download --no-binary :all: --no-deps -d SDISTS toolz funcy voluptuous humanize boltons cachetools
    pip install whatever freezegun                                  # what the tests of funcy and humanize need
    python benchmarks/env_make.py SDISTS/*.tar.gz --work DIR [--limit 60] [--json benchmarks/results/env_make.json]

One repository after another, each with `--jobs` processes. `--work` keeps the tasks, and a second call goes on there.
Rates per minute are `60 * jobs / CPU-seconds per task`: what idle cores would give. Wall times are given next to them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from composer_replication.cli.progress import open_progress
from composer_replication.environments.code.certificates.verify import verify
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.making.make import MakeSettings, make
from composer_replication.errors import RecomposeError

NEEDS = {"funcy": ("whatever",), "humanize": ("freezegun",)}
KEPT = (
    "tests", "filtered", "tried", "valid", "rejected", "yield", "cpu_s", "cpu_s_to_leak_gate", "passed_leak_gate",
    "cpu_s_per_valid", "cpu_s_to_leak_gate_per_task", "survey_cpu_s", "wall_s", "licence", "repository_hash",
)  # fmt: skip


def measured(source: Path, work: Path, limit: int, jobs: int, generator: str) -> dict[str, Any]:
    name = source.name.rpartition("-")[0] or source.name
    settings = MakeSettings(
        generators=(generator,),
        proposals=GeneratorSettings(limit=limit),
        distributions=("pytest", *NEEDS.get(name, ())),
    )
    progress = open_progress()
    try:
        made = make(source, work / f"{name}-{generator}", settings, jobs, progress)
        row = {"source": source.name, **{key: made[key] for key in KEPT}}
        if made["valid"]:
            row["verified"] = verify(work / f"{name}-{generator}", jobs=jobs, progress=progress)
        return row
    except RecomposeError as error:
        return {"source": source.name, "refused": str(error)}
    finally:
        progress.close()


def summary(rows: list[dict[str, Any]], jobs: int) -> dict[str, Any]:
    done = [row for row in rows if "tried" in row]
    total = {key: sum(row[key] for row in done) for key in ("tried", "valid", "passed_leak_gate")}
    cpu_s, early_s = sum(row["cpu_s"] for row in done), sum(row["cpu_s_to_leak_gate"] for row in done)
    reasons, taken_out = Counter[str](), Counter[str]()
    for row in done:
        reasons.update(row["rejected"])
        taken_out.update(row["filtered"])
    checked = [row["verified"] for row in done if "verified" in row]
    return {
        "filtered": dict(taken_out.most_common()),
        **total,
        "rejected": dict(reasons.most_common()),
        "yield": round(total["valid"] / max(1, total["tried"]), 4),
        "cpu_s_per_valid": round(cpu_s / max(1, total["valid"]), 2),
        "cpu_s_to_leak_gate_per_task": round(early_s / max(1, total["passed_leak_gate"]), 2),
        "valid_per_minute_on_idle_cores": round(60 * jobs * total["valid"] / max(1e-9, cpu_s), 1),
        "to_leak_gate_per_minute_on_idle_cores": round(60 * jobs * total["passed_leak_gate"] / max(1e-9, early_s), 1),
        "verified": {
            key: sum(found[key] for found in checked) for key in ("tasks", "passed", "nop_ok", "gold_ok", "leaks_ok")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--generator", default="feature_deletion")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    for source in options.sources:
        rows.append(measured(source, options.work, options.limit, options.jobs, options.generator))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    result = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {"limit": options.limit, "jobs": options.jobs, "generator": options.generator},
        "repositories": rows,
        "all": summary(rows, options.jobs),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
