"""What fresh cheats earn over given tasks, next to doing nothing and to the solution.

    python benchmarks/cheats.py TASK_FOLDER… [--cheats NAME,…] [--json FILE]

Prints a table of cheats by tasks. A cheat that earns more than nothing is a hole and is marked with `!`; `*` where it
earns more than 0.2 and than each lazy line, which a certified task lets earn up to 0.2. With `--json` a file that is
there is gone on with: grades that it holds are not taken again.
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

LAZY_LIMIT = 0.2


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
    names = dict.fromkeys(name for row in results.values() for name in row)
    lines = [f"{number:>3}  {task}" for number, task in enumerate(results)]
    lines.append(f"{'':32}" + "".join(f"{number:>7}" for number in range(len(results))))
    for name in names:
        cells = []
        for row in results.values():
            reward = row[name]["reward"] if name in row else None
            mark = mark_of(reward, row) if reward is not None and name in CHEATS else " "
            cells.append(f"{'' if reward is None else f'{reward:.2f}'}{mark}".rjust(7))
        lines.append(f"{name:32}" + "".join(cells))
    return "\n".join(lines)


def mark_of(reward: float, row: dict[str, Any]) -> str:
    if reward > max([LAZY_LIMIT, *(row[name]["reward"] for name in LAZY if name in row)]):
        return "*"
    return "!" if reward > row["nothing"]["reward"] else " "


def write(file: Path, results: dict[str, dict[str, Any]]) -> None:
    """One line per task: there are thousands of grades. What else stands in the file stays."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    rows = ",\n".join(f"{json.dumps(task)}: {json.dumps(row)}" for task, row in results.items())
    others = "".join(f",\n{json.dumps(key)}: {json.dumps(value)}" for key, value in kept.items() if key != "grades")
    file.write_text(f'{{"grades": {{\n{rows}\n}}{others}}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", type=Path)
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
