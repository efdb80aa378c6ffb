"""When does training on stored traces raise `unlearning`, and what is left then? The runs of 60 steps once more.

    python experiments/017-stored-teacher/alarm.py               # a quarter of an hour on two cores

Writes results/alarm.json: by teacher and seed the step of the alarm, if there was one, the share of held-out tasks that
a training which ends there solves, and all readings of `reread/shift`. The threshold was chosen with these runs in
sight.
"""

from __future__ import annotations

import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from run import LENGTHS, RESULTS, SEEDS, TEACHERS, measured, stored_traces, trained

from composer_replication.runs import write_atomically
from composer_replication.training.metrics import StepLines


def main() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        found = dict(zip(SEEDS, cores.map(of_seed, SEEDS), strict=True))
    told = {teacher: {seed: found[seed][teacher] for seed in SEEDS} for teacher in TEACHERS}
    write_atomically(RESULTS / "alarm.json", json.dumps(told) + "\n")


def of_seed(seed: int) -> dict[str, dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        base = stored_traces(Path(folder), seed)
        return {teacher: readings(base, Path(folder) / teacher, teacher) for teacher in TEACHERS}


def readings(base: Path, run: Path, teacher: str) -> dict[str, object]:
    trained(base, run, teacher, LENGTHS[-1])
    metrics, alarms = (list(StepLines(run / "training" / f"{name}.jsonl").read()) for name in ("metrics", "alarms"))
    shifts = {line["step"]: round(line["reread/shift"], 4) for line in metrics if "reread/shift" in line}
    raised = next((line["step"] for line in alarms if line["name"] == "unlearning"), None)
    if raised is None:
        return {"alarm_at": None, "shifts": shifts}
    solved = measured(trained(base, run.with_name(f"{teacher}-{raised}"), teacher, raised))["after"]
    return {"alarm_at": raised, "solved_then": fmean(solved), "shifts": shifts}


if __name__ == "__main__":
    main()
