"""When does training on stored traces raise `untaught_turns`? The runs of 60 steps once more.

    python experiments/017-stored-teacher/alarm.py               # 24 trainings, 10 minutes on two cores

Writes results/alarm.json: by teacher and seed the step of the alarm, if there was one, and all readings of
`untaught/shift`. Its threshold comes from seeds 0 and 11, which are not among these.
"""

from __future__ import annotations

import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run import LENGTHS, RESULTS, SEEDS, TEACHERS, stored_traces, trained

from composer_replication.runs import write_atomically
from composer_replication.training.metrics import StepLines


def main() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        found = dict(zip(SEEDS, cores.map(of_seed, SEEDS), strict=True))
    told = {teacher: {seed: found[seed][teacher] for seed in SEEDS} for teacher in TEACHERS}
    write_atomically(RESULTS / "alarm.json", json.dumps(told) + "\n")
    for teacher, seeds in told.items():
        steps = [one["alarm_at"] for one in seeds.values() if one["alarm_at"] is not None]
        lowest = min(min(one["shifts"]) for one in seeds.values())
        print(f"{teacher}: {len(steps)} of {len(seeds)} raise it, at the steps {steps}; lowest shift {lowest:.2f}")


def of_seed(seed: int) -> dict[str, dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        base = stored_traces(Path(folder), seed)
        return {teacher: readings(trained(base, Path(folder) / teacher, teacher, LENGTHS[-1])) for teacher in TEACHERS}


def readings(run: Path) -> dict[str, object]:
    metrics, alarms = (list(StepLines(run / "training" / f"{name}.jsonl").read()) for name in ("metrics", "alarms"))
    raised = [line["step"] for line in alarms if line["name"] == "untaught_turns"]
    shifts = [round(line["untaught/shift"], 4) for line in metrics if "untaught/shift" in line]
    return {"alarm_at": raised[0] if raised else None, "shifts": shifts}


if __name__ == "__main__":
    main()
