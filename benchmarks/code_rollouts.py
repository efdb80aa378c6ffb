"""What 128 rollouts of code tasks cost beside the model: sandboxes, grading, and our own process.

    python benchmarks/code_rollouts.py TASKS … [--rollouts 128] [--concurrency 15] [--json FILE]

Needs tasks that `env make` made. No model: scripts answer in `definition`, `--right` of them with the solution, the
others with a definition that gives None. Steps run as training runs them, monitor included. What each task needs once
(its visible tests) is measured apart. `own` is the processor time of this process: it has one interpreter lock, so
`own` in seconds per rollout, times rollouts, is a lower bound of the wall clock on any number of cores.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from random import Random

from composer_replication.config import EnvironmentConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.episodes.definition import place_of, solving_block
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.environments.protocol import TRAIN
from composer_replication.training.rollouts.environment_steps import ConcurrentSteps


def main() -> None:
    options = _options()
    settings = EnvironmentConfig(
        name="code", answer="definition", tries=1, heldout_share=0.0, concurrency=options.concurrency
    )
    environment = CodeEnvironment([task for folder in options.tasks for task in read_tasks(folder)], settings)
    draw = Random(options.seed)
    tasks = draw.sample(environment.tasks(TRAIN), options.groups)
    asked = [tasks[number % len(tasks)] for number in range(options.rollouts)]
    turns = [answer(task, draw.random() < options.right) for task in asked]
    once = played(environment, tasks, [answer(task, right=False) for task in tasks], options.concurrency)
    every = played(environment, asked, turns, options.concurrency)
    result = {
        "rollouts": len(asked),
        "tasks": len(tasks),
        "concurrency": options.concurrency,
        "cores": len(os.sched_getaffinity(0)),
        "first_round": once,
        "all": every,
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def answer(task: AskedTask, right: bool) -> str:
    if right:
        return f"```python\n{solving_block(task.folder)}\n```"
    names = [name.rpartition(".")[2] for name in place_of(task.folder).names]
    return "```python\n" + "\n\n".join(f"def {name}(*given, **named):\n    return None" for name in names) + "\n```"


def played(
    environment: CodeEnvironment, tasks: list[AskedTask], turns: list[str], concurrency: int
) -> dict[str, float]:
    episodes = [environment.start(task) for task in tasks]
    steps = ConcurrentSteps(concurrency, None)
    started, own_s = time.monotonic(), time.process_time()
    for row, (episode, turn) in enumerate(zip(episodes, turns, strict=True)):
        steps.submit(row, episode, turn)
    outcomes = dict(steps.collect(3600.0, must_wait=True))
    wall_s, own_s = time.monotonic() - started, time.process_time() - own_s
    steps.close()
    failures = [outcome.failure for outcome in outcomes.values() if outcome.failure]
    if failures:
        raise SystemExit(f"{len(failures)} steps failed: {failures[0]}")
    return {
        "wall_s": round(wall_s, 2),
        "own_s_per_rollout": round(own_s / len(tasks), 3),
        "mean_step_s": round(sum(outcome.seconds for outcome in outcomes.values()) / len(tasks), 2),
        "mean_reward": round(sum(outcome.reward or 0.0 for outcome in outcomes.values()) / len(tasks), 3),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", nargs="+", type=Path)
    parser.add_argument("--rollouts", type=int, default=128)
    parser.add_argument("--groups", type=int, default=16, help="different tasks")
    parser.add_argument("--concurrency", type=int, default=15)
    parser.add_argument("--right", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
