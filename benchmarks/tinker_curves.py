"""Learning curves of one run's toolbox on a Tinker server and through TRL, on equal seeds.

    python benchmarks/tinker_curves.py RUN --url URL [--seeds 3] [--steps 16] [--json FILE]

RUN has all stages up to pairs and `hardware.lora_rank`; the server was started with `--base-model RUN/policy/model`.
Both sides train adapters of the same rank from that policy, on the same tasks, stored traces and pairs. A seed decides
the tasks and the sampling of a side; the numbers that the two draw are not the same. A curve is the mean reward of the
rollouts of each step. Compared are the gains, the last third of the steps less the first three, per seed; the interval
is Student's over the seeds' differences.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.policy import load_own
from composer_replication.stages.taught import make_examples
from composer_replication.training.backends import open_backend

STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365}
"""By the number of seeds, two-sided."""
START = 3
"""Steps without a full learning rate."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--url", required=True)
    parser.add_argument("--seeds", type=int, default=3, choices=STUDENT_95)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    run, curves = Run.open(asked.run), list[dict[str, Any]]()
    asked_of = {
        "steps": asked.steps,
        "prompts_per_step": asked.prompts,
        "learning_rate": asked.learning_rate,
        "checkpoint_every": 0,
        "token_weights": None,
    }
    config = run.config.model_copy(update={"training": run.config.training.model_copy(update=asked_of)})
    for seed in range(asked.seeds):
        for backend in ("tinker", "trl"):
            started = time.monotonic()
            rewards = curve(run, arm(config, backend, seed), backend, asked.url)
            curves.append({"seed": seed, "backend": backend, "rewards": rewards, "seconds": time.monotonic() - started})
            told = summary(curves, config)
            if asked.json:
                asked.json.write_text(json.dumps(told, indent=1) + "\n")
            print(backend, seed, [round(reward, 3) for reward in rewards], flush=True)
    print(json.dumps({key: value for key, value in told.items() if key != "curves"}, indent=1))


def arm(config: Config, backend: str, seed: int) -> Config:
    """A Tinker server has no gradient-ratio cap, so that TRL gets none either."""
    training = config.training
    if backend == "trl":
        training = training.model_copy(update={"gradient_ratio_cap": None})
    return config.model_copy(update={"seed": seed, "training": training})


def curve(run: Run, config: Config, backend: str, url: str) -> list[float]:
    policy = load_own(run)
    with tempfile.TemporaryDirectory() as folder, open_environment(config) as environment:
        room = min(config.training.max_tokens, policy.model.config.max_position_embeddings)
        examples, *_ = make_examples(run, policy, room, Path(folder))
        at = {"url": url} if backend == "tinker" else {}
        where = Path(folder) / "training"
        steps = open_backend(backend)(policy, config, environment, examples, where, Silent(), **at)
    return [float(step.reward) for step in steps]


def gain(rewards: list[float]) -> float:
    last = max(1, len(rewards) // 3)
    return statistics.fmean(rewards[-last:]) - statistics.fmean(rewards[:START])


def summary(curves: list[dict[str, Any]], config: Config) -> dict[str, Any]:
    gains = {side: [gain(one["rewards"]) for one in curves if one["backend"] == side] for side in ("tinker", "trl")}
    differences = [ours - theirs for ours, theirs in zip(gains["tinker"], gains["trl"], strict=False)]
    return {
        "model": config.model.name,
        "lora_rank": config.hardware.lora_rank,
        "learning_rate": config.training.learning_rate,
        "steps": config.training.steps,
        "rollouts_per_step": config.training.prompts_per_step * config.training.group_size,
        "gain": {side: interval(values) for side, values in gains.items()},
        "difference": interval(differences),
        "curves": curves,
    }


def interval(values: list[float]) -> dict[str, float | int | None]:
    if not values:
        return {"mean": None, "lo": None, "hi": None, "n": 0}
    mean, half = statistics.fmean(values), None
    if len(values) > 1:
        half = STUDENT_95[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    return {
        "mean": mean,
        "lo": None if half is None else mean - half,
        "hi": None if half is None else mean + half,
        "n": len(values),
    }


if __name__ == "__main__":
    main()
