"""What the trusted side compares, and what the grader says of solutions: over tasks that are made from source
distributions, or were made by `benchmarks/env_make.py`.

    pip download --no-binary :all: --no-deps -d SDISTS toolz funcy voluptuous humanize boltons cachetools
    pip install whatever freezegun                                  # what the tests of funcy and humanize need
    python benchmarks/grading.py SDISTS/*.tar.gz --work DIR [--limit 12] [--grades 20] [--json FILE]
    python benchmarks/grading.py --joined FILE … [--json FILE]      # results of several such runs, as one

Per repository: hidden tests and how many of them are lowered, exposed (lowered, but something that is only expected
stands in the graded text), compared only with the submission's own values, left as they were with the reason, or left
out; yield; processor seconds per task and tasks per minute on idle cores; and how many of `--grades` grades of each
task's solution, each with contradictions drawn anew, are not 1. The last run of a grade is repeated, as in `env verify
--deep`: the first has nothing drawn in it but names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from env_make import NEEDS

from composer_replication.cli.progress import open_progress
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.grading.grader import doubted_gold, grade
from composer_replication.environments.code.making.make import MakeSettings, make
from composer_replication.environments.code.tasks.store import gold_submission, read_tasks
from composer_replication.environments.code.tasks.task import Submission, TaskFolder
from composer_replication.errors import RecomposeError

COUNTS = ("hidden", "lowered", "exposed", "self_compared", "left_out", "untold_or_slow")
KEPT = ("tried", "valid", "rejected", "yield", "cpu_s", "cpu_s_per_valid", "wall_s")


def measured(source: Path, work: Path, limit: int, jobs: int, grades: int) -> dict[str, Any]:
    name = source.name.rpartition("-")[0] or source.name
    settings = MakeSettings(proposals=GeneratorSettings(limit=limit), distributions=("pytest", *NEEDS.get(name, ())))
    folder = work / f"{name}-feature_deletion"
    progress = open_progress()
    try:
        made = make(source, folder, settings, jobs, progress)
    except RecomposeError as error:
        return {"source": source.name, "refused": str(error)}
    finally:
        progress.close()
    row: dict[str, Any] = {"source": source.name, **{key: made[key] for key in KEPT}}
    tasks = read_tasks(folder) if made["valid"] else []
    return row | compared(tasks) | gold_grades(tasks, grades, jobs)


def compared(tasks: Iterable[TaskFolder]) -> dict[str, Any]:
    records = [task.code_task for task in tasks]
    return shares(
        record.task.certificate["comparison"] | {"untold_or_slow": record.provenance["left_out_tests"]}
        for record in records
    )


def shares(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of tasks, or of repositories."""
    total, reasons = Counter[str](), Counter[str]()
    for count in counts:
        total.update({key: count[key] for key in COUNTS})
        reasons.update(count["unlowered"])
    counted = total["hidden"] - total["left_out"]
    return {
        **{key: total[key] for key in COUNTS},
        "unlowered": dict(reasons.most_common()),
        "share_lowered": round(total["lowered"] / max(1, total["hidden"]), 4),
        "share_compared_of_counted": round(total["lowered"] / max(1, counted), 4),
        "share_kept": round(counted / max(1, total["hidden"] + total["untold_or_slow"]), 4),
    }


def gold_grades(tasks: Iterable[TaskFolder], grades: int, jobs: int) -> dict[str, Any]:
    """False zeros over the draws, and what one whole grade of the solution and of nothing takes."""
    with ThreadPoolExecutor(jobs) as pool:
        graded = list(pool.map(lambda task: grades_of(task, grades), tasks)) if grades else []
    zeros = [text for each in graded for text in each.missed]
    return {
        "gold_grades": len(graded) * (grades + 1),
        "false_zeros": len(zeros),
        "first_false_zeros": zeros[:5],
        "gold_wall_s": round(sum(each.gold_s for each in graded) / max(1, len(graded)), 2),
        "nop_wall_s": round(sum(each.nop_s for each in graded) / max(1, len(graded)), 2),
    }


class Grades(NamedTuple):
    missed: list[str]
    gold_s: float
    nop_s: float


def grades_of(task: TaskFolder, grades: int) -> Grades:
    gold = gold_submission(task)
    started = time.monotonic()
    whole = grade(task, gold)
    between = time.monotonic()
    nothing = grade(task, Submission())
    ended = time.monotonic()
    missed = [] if whole.reward == 1 else [f"reward {whole.reward} {whole.notes}"]
    missed += doubted_gold(task, gold, grades)
    missed += [] if nothing.reward == 0 else [f"nothing scores {nothing.reward}"]
    return Grades([f"{task.folder.name}: {text}" for text in missed], between - started, ended - between)


def summary(rows: list[dict[str, Any]], jobs: int) -> dict[str, Any]:
    done = [row for row in rows if "tried" in row]
    total = {key: sum(row[key] for row in done) for key in ("tried", "valid", "gold_grades", "false_zeros")}
    cpu_s = sum(row["cpu_s"] for row in done)
    return {
        **shares(done),
        **total,
        "yield": round(total["valid"] / max(1, total["tried"]), 4),
        "cpu_s_per_valid": round(cpu_s / max(1, total["valid"]), 2),
        "valid_per_minute_on_idle_cores": round(60 * jobs * total["valid"] / max(1e-9, cpu_s), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path)
    parser.add_argument("--work", type=Path, default=Path("grading-work"))
    parser.add_argument("--joined", nargs="+", type=Path, default=[])
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--grades", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows = [row for file in options.joined for row in json.loads(file.read_text(encoding="utf-8"))["repositories"]]
    for source in options.sources:
        rows.append(measured(source, options.work, options.limit, options.jobs, options.grades))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        write(options, load, rows)
    write(options, load, rows)
    print(json.dumps(summary(rows, options.jobs), indent=1))


def write(options: argparse.Namespace, load: float, rows: list[dict[str, Any]]) -> None:
    result = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 2)},
        "settings": {"limit": options.limit, "jobs": options.jobs, "grades": options.grades},
        "repositories": rows,
        "all": summary(rows, options.jobs),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
