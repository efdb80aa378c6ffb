"""A run of the size that people have: 5,000 pairs and a trace of 10,000 steps, beside those of the unit tests."""

from __future__ import annotations

import time
from pathlib import Path

from composer_replication.records import PreferencePair, content_id
from composer_replication.runs import Run
from composer_replication.viewer.filling import AnyFields
from tests.viewed_run import add_trace, long_trace, viewed_run

PAIRS, STEPS, TASKS = 5000, 10_000, 40
MARK = "<SECRET:github-pat:1>"
LINES = (f"line {number} of what the tool printed, long enough to wrap on a phone" for number in range(14))
PARAGRAPH = "\n".join((*LINES, MARK))


def large_run(path: Path) -> Run:
    run = viewed_run(path)
    stage = run.stage("pairs")
    manifest, (pair,) = stage.require(), stage.read(PreferencePair)
    copies = [
        pair.model_copy(update={"pair_id": content_id("copy", number), "state_id": content_id("state", number)})
        for number in range(1, PAIRS)
    ]
    counts = {**manifest["counts"], "pairs": PAIRS}
    stage.finish([pair, *copies], counts, [run.stage("replay")], time.monotonic())
    add_trace(run, long_trace(STEPS, PARAGRAPH))
    outcomes = [
        {"task_id": f"task/{number}", "split": "heldout", "phase": phase, "reward": float(number % 4 < bar), "turns": 2,
         "errors": [], "sample": 0, "labels": {}}
        for phase, bar in (("before", 1), ("after", 2))
        for number in range(TASKS)
    ]  # fmt: skip
    run.stage("evaluation").finish(map(AnyFields, outcomes), {}, [run.stage("pairs")], time.monotonic())
    return run
