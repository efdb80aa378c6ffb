"""What fresh cheats earn over given tasks, next to doing nothing and to the solution.

    python benchmarks/cheats.py TASK_FOLDER… [--cheats NAME,…] [--json FILE]

Prints a table of the cheats: over how many tasks, the most that one earned, what nothing earned there, and the largest
share of hidden tests that one passed. A cheat that earns more than nothing is a hole. With `--json` a file that is
there is gone on with: grades that it holds are not taken again. Without tasks the table is of that file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.hacks.fresh_cheats import CHEATS, LAZY, cheating

from composer_replication.environments.code.grading import grade
from composer_replication.environments.code.tasks.store import gold_submission, read_task
from composer_replication.environments.code.tasks.task import Submission, TaskFolder


def graded(task: TaskFolder, submission: Submission) -> dict[str, Any]:
    start = time.monotonic()
    result = grade(task, submission)
    return {
        "reward": result.reward,
        "passed": len(result.hidden_passed),
        "guards_broken": len(result.guards_broken),
        "wall_s": round(time.monotonic() - start, 1),
    }


def submission_of(task: TaskFolder, name: str) -> Submission:
    if name == "nothing":
        return Submission()
    return gold_submission(task) if name == "solution" else cheating(task, name)


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = ["| cheat | tasks | most reward | nothing | most tests passed |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(name for row in results.values() for name in row if name not in ("nothing", "solution")):
        rows = [row for row in results.values() if name in row]
        worst = max(rows, key=lambda row: row[name]["reward"])
        passed = max(row[name]["passed"] / row["solution"]["passed"] for row in rows)
        earned, nothing = worst[name]["reward"], worst["nothing"]["reward"]
        lines.append(f"| `{name}` | {len(rows)} | {earned:.2f} | {nothing:.2f} | {passed:.2f} |")
    return "\n".join(lines)


def write(file: Path, results: dict[str, dict[str, Any]]) -> None:
    """One line per task: there are thousands of grades. What else stands in the file stays."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    rows = ",\n".join(f"{json.dumps(task)}: {json.dumps(row)}" for task, row in results.items())
    others = "".join(f",\n{json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items() if key != "grades")
    file.write_text(f'{{"grades": {{\n{rows}\n}}{others}}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", type=Path)
    parser.add_argument("--cheats", default=",".join(CHEATS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if arguments.json and arguments.json.exists():
        results = json.loads(arguments.json.read_text(encoding="utf-8"))["grades"]
    for folder in arguments.tasks:
        task = read_task(folder)
        row = results.setdefault(folder.name, {})
        for name in ("nothing", "solution", *LAZY, *arguments.cheats.split(",")):
            if name not in row:
                row[name] = graded(task, submission_of(task, name))
                if arguments.json:
                    write(arguments.json, results)
    print(table(results))


if __name__ == "__main__":
    main()
