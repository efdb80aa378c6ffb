"""The start of a seed, and one run of one arm from it. Each writes one file of JSON lines.

Lines, by `line`: `run` (settings and costs), `step` (one per optimiser step, with the hit rate of its rollouts),
`curve` (held-out rates on the way, in the open world), `alarm`, `final` (rates in each world) and `task` (every
held-out task of the end in each world, with all its samples).
"""

import time
from pathlib import Path
from typing import Any

import torch
from leak_measure import WORLDS, Measure, outcomes, summary
from transformers import TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import RecomposeError
from composer_replication.progress import Silent
from composer_replication.training.metrics import StepLines
from composer_replication.training.models.loading import Policy, load_policy, load_saved_policy
from composer_replication.training.train import train
from composer_replication.training.warmup import warm_up
from shared.result_lines import write_result
from shared.runner.arm import weights_hash
from shared.runner.work import repeatable, set_aside_orphans

KEPT = (
    "step", "wall_s", "reward", "rewards/episode_reward/mean", "rewards/environment_charge/mean",
    "monitor/canary_hit_rate",
    "monitor/canary_hit_rate/tool", "monitor/canary_hit_rate/file", "leak/alarm_rate", "entropy", "grad_norm", "loss",
    "frac_reward_zero_std", "completions/mean_length", "rollout/error_turns_per_turn", "rollout/turns",
)  # fmt: skip


class Curve(TrainerCallback):
    """Held-out rates every few steps; the time it takes is kept apart."""

    def __init__(self, measure: Measure, policy: Policy, last: int) -> None:
        self._measure, self._policy, self._last = measure, policy, last
        self.lines: list[dict[str, Any]] = []
        self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._measure.measuring["curve_every"] or state.global_step == self._last:
            return
        began = time.monotonic()
        found = self._measure.episodes(self._policy, "open", 1)
        self.lines.append({"line": "curve", "step": state.global_step, **summary(found)})
        self.seconds += time.monotonic() - began


def run_start(config: Config, weights: Path, result: Path, measure: Measure) -> None:
    began = time.monotonic()
    environment = open_toolbox(config)
    policy = load_policy(config.model.name, environment, config.seed)
    with repeatable():
        warm_up(policy.model, policy.tokens, environment, config.warmup, config.seed, lambda step, loss: None)
    policy.save(weights)
    set_aside_orphans(result.parent, config.seed, "start_sha256", weights_hash(weights))
    warmed = time.monotonic()
    ends = end_lines(measure, policy)
    costs = {"warmup_s": warmed - began, "measure_s": time.monotonic() - warmed}
    write_result(result, [{**header("start", config, weights), **costs}, *ends])


def run_arm(config: Config, arm: str, weights: Path, scratch: Path, result: Path, measure: Measure) -> None:
    began = time.monotonic()
    policy = load_saved_policy(weights, config.model.name)
    curve = Curve(measure, policy, config.training.steps)
    folder = scratch / "training"
    loaded, stopped = time.monotonic(), None
    try:
        train(policy, config, open_toolbox(config), [], folder, Silent(), [curve])
    except RecomposeError as error:  # a watchdog ended it: what it has learnt so far is its result
        stopped = str(error)
    trained = time.monotonic()
    policy.model.eval()
    ends = end_lines(measure, policy)
    costs = {
        "stopped": stopped,
        "load_s": loaded - began,
        "train_s": trained - loaded - curve.seconds,
        "measure_s": time.monotonic() - trained + curve.seconds,
    }
    steps = [line for line in StepLines(folder / "metrics.jsonl").read() if "reward" in line]
    alarms = StepLines(folder / "alarms.jsonl").read()
    write_result(
        result,
        [
            {**header(arm, config, weights), **costs},
            *(
                {"line": "step", "step": line["step"], **{key: line[key] for key in KEPT if key in line}}
                for line in steps
            ),
            *curve.lines,
            *({"line": "alarm", **line} for line in alarms),
            *ends,
        ],
    )


def end_lines(measure: Measure, policy: Policy) -> list[dict[str, Any]]:
    finals: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    for world in WORLDS:
        found = measure.episodes(policy, world, measure.measuring["samples"])
        finals.append({"line": "final", "world": world, **summary(found)})
        tasks += [{"line": "task", "world": world, **one} for one in outcomes(found)]
    return finals + tasks


def header(arm: str, config: Config, weights: Path) -> dict[str, Any]:
    return {
        "line": "run",
        "arm": arm,
        "seed": config.seed,
        "config": config.model_dump(mode="json"),
        "start_sha256": weights_hash(weights),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
    }
