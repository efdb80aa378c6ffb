"""Learning curves of one run's toolbox on a Tinker server and through TRL, on equal seeds.

    python benchmarks/tinker_curves.py RUN --url URL [--seeds 8] [--steps 16] [--json FILE]

RUN has all stages up to pairs and `hardware.lora_rank`; the server was started with `--base-model RUN/policy/model`.
Both sides train adapters of the same rank from that policy, on the same tasks, stored traces and pairs. A seed decides
the tasks and the sampling of a side; the numbers that the two draw are not the same. A curve is the mean reward of the
rollouts of each step. Compared is, per seed, the greedy success of both trained policies on the same held-out tasks,
which says more than the rewards of eight tasks of a last step; the interval is Student's over the seeds' differences.
The same command goes on where FILE ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import Environment
from composer_replication.evaluation.compare import evaluate_policy
from composer_replication.evaluation.distributions import student_quantile
from composer_replication.objective import SdpoSettings
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.policy import load_own
from composer_replication.stages.taught import make_examples
from composer_replication.training.backends import open_backend
from composer_replication.training.models.loading import Policy

SIDES = ("tinker", "trl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--url", required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--held-out", type=int, default=512)
    parser.add_argument("--json", type=Path, default=Path("tinker_curves.json"))
    asked = parser.parse_args()
    run = Run.open(asked.run)
    training = run.config.training.model_copy(
        update={
            "steps": asked.steps,
            "prompts_per_step": asked.prompts,
            "learning_rate": asked.learning_rate,
            "checkpoint_every": 0,
            "token_weights": None,
        }
    )
    evaluation = run.config.evaluation.model_copy(update={"tasks": asked.held_out})
    config = run.config.model_copy(update={"training": training, "evaluation": evaluation})
    told = json.loads(asked.json.read_text()) if asked.json.exists() else {"before": before(run, config), "curves": []}
    for seed, side in product(range(asked.seeds), SIDES):
        if any((one["seed"], one["backend"]) == (seed, side) for one in told["curves"]):
            continue
        told["curves"].append({"seed": seed, "backend": side, **curve(run, arm(config, side, seed), side, asked.url)})
        told = {**summary(told["curves"], config), "before": told["before"], "curves": told["curves"]}
        asked.json.write_text(json.dumps(told, indent=1) + "\n")
        print(told["curves"][-1], flush=True)
    print(json.dumps({key: value for key, value in told.items() if key != "curves"}, indent=1))


def arm(config: Config, backend: str, seed: int) -> Config:
    """A Tinker server has no gradient-ratio cap and no average of the policy, so that TRL gets none either."""
    training = config.training
    if backend == "trl":
        training = training.model_copy(update={"gradient_ratio_cap": None})
    sdpo = config.channel(SdpoSettings).model_copy(update={"teacher": "live"})
    return config.model_copy(update={"seed": seed, "training": training}).with_channels(sdpo)


def before(run: Run, config: Config) -> float:
    with open_environment(config) as environment:
        return success(load_own(run), config, environment)


def curve(run: Run, config: Config, backend: str, url: str) -> dict[str, Any]:
    policy, started = load_own(run), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, open_environment(config) as environment:
        room = min(config.training.max_tokens, policy.model.config.max_position_embeddings)
        examples, *_ = make_examples(run, policy, room, Path(folder))
        at = {"url": url} if backend == "tinker" else {}
        where = Path(folder) / "training"
        steps = open_backend(backend)(policy, config, environment, examples, where, Silent(), **at)
        rewards, seconds = [float(step.reward) for step in steps], time.monotonic() - started
        return {"rewards": rewards, "held_out": success(policy, config, environment), "seconds": seconds}


def success(policy: Policy, config: Config, environment: Environment) -> float:
    outcomes = evaluate_policy(policy, config, environment, "after", next(iter(environment.heldout)), Silent())
    return statistics.fmean(outcome.reward == 1 for outcome in outcomes)


def summary(curves: list[dict[str, Any]], config: Config) -> dict[str, Any]:
    found = {side: [one["held_out"] for one in curves if one["backend"] == side] for side in SIDES}
    differences = [ours - theirs for ours, theirs in zip(found["tinker"], found["trl"], strict=False)]
    return {
        "model": config.model.name,
        "lora_rank": config.hardware.lora_rank,
        "learning_rate": config.training.learning_rate,
        "steps": config.training.steps,
        "rollouts_per_step": config.training.prompts_per_step * config.training.group_size,
        "held_out_tasks": config.evaluation.tasks,
        "held_out": {side: interval(values) for side, values in found.items()},
        "difference": interval(differences),
    }


def interval(values: list[float]) -> dict[str, float | int | None]:
    mean = statistics.fmean(values) if values else None
    if mean is None or len(values) < 2:
        return {"mean": mean, "lo": None, "hi": None, "n": len(values)}
    half = student_quantile(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": mean, "lo": mean - half, "hi": mean + half, "n": len(values)}


if __name__ == "__main__":
    main()
