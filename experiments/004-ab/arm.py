"""One run of one arm: train from the seed's start, measure on the way and at the end, write one JSONL file.

Lines, by `line`: `run` (settings and costs), `step` (one per optimiser step), `curve` (held-out success on the way),
`alarm`, `final` (summary per split), and `task` (every held-out task of the end, with all its samples).
"""

import hashlib
import time
from pathlib import Path
from typing import Any

import torch
from block import examples_of
from measure import Measure, kl_to, outcomes, summary
from transformers import TrainerCallback

from composer_replication.config import Config
from composer_replication.errors import RecomposeError
from composer_replication.evaluation.result_lines import write_result
from composer_replication.objective import TrdpoSettings
from composer_replication.progress import Silent
from composer_replication.training.metrics import StepLines
from composer_replication.training.models.loading import Policy, load_saved_policy
from composer_replication.training.train import train

KEPT = (
    "reward", "entropy", "frac_reward_zero_std", "grad_norm", "loss", "num_tokens", "wall_s", "completions/mean_length",
    "channel/policy", "channel/sdpo", "channel/replay", "gradient/policy", "gradient/sdpo", "gradient/replay",
    "gradient/sdpo_factor", "gradient/replay_factor", "gradient/cosine_policy_sdpo", "gradient/cosine_policy_replay",
    "sdpo/sites", "sdpo/sites_per_rollout", "replay/pairs", "replay/margin", "replay/accuracy", "replay/chosen_shift",
    "rollout/error_turns_per_turn",
)  # fmt: skip
SPLITS = ("heldout", "renames", "compositions")


class Curve(TrainerCallback):
    """Held-out success every few steps; the time it takes is kept apart."""

    def __init__(self, measure: Measure, policy: Policy, every: int, last: int, part: str, tasks: int) -> None:
        self._measure, self._policy, self._every, self._last = measure, policy, every, last
        self._part, self._tasks = part, tasks
        self.lines: list[dict[str, Any]] = []
        self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self._every or state.global_step == self._last:
            return
        started = time.monotonic()
        found = self._measure.episodes(self._policy, "heldout", self._part, self._tasks, 1)
        self.lines.append({"line": "curve", "step": state.global_step, **summary(found)})
        self.seconds += time.monotonic() - started


def run_arm(
    config: Config, start: Path, data: Path, scratch: Path, result: Path, measuring: dict[str, Any], about: dict
) -> None:
    began = time.monotonic()
    policy = load_saved_policy(start, config.model.name)
    before = load_saved_policy(start, config.model.name)
    part, tasks, samples = measuring["part"], measuring["tasks"], measuring["samples"]
    measure = Measure(config)
    examples = examples_of(policy, data, config) if config.channel(TrdpoSettings).weight else []
    curve = Curve(measure, policy, measuring["curve_every"], config.training.steps, part, tasks)
    stopped = None
    torch.cuda.reset_peak_memory_stats() if torch.cuda.is_available() else None
    loaded = time.monotonic()
    try:
        train(policy, config, examples, scratch / "training", Silent(), [curve])
    except RecomposeError as error:  # a watchdog ended it: what it has learnt so far is its result
        stopped = str(error)
    trained = time.monotonic()
    policy.model.eval()
    final: list[dict[str, Any]] = []
    per_task: list[dict[str, Any]] = []
    for split in measuring.get("splits", SPLITS):
        found = measure.episodes(
            policy, split, part, tasks, samples if split == "heldout" else measuring["side_samples"]
        )
        moved = {"kl_to_start": kl_to(before, policy, found[: measuring["kl_episodes"]])} if split == "heldout" else {}
        final.append({"line": "final", "split": split, **summary(found), **moved})
        per_task += [{"line": "task", "split": split, **one} for one in outcomes(found)]
    steps = StepLines(scratch / "training" / "metrics.jsonl").read()
    alarms = StepLines(scratch / "training" / "alarms.jsonl").read()
    header = {
        "line": "run",
        **about,
        "seed": config.seed,
        "config": config.model_dump(mode="json"),
        "start_sha256": weights_hash(start),
        "stored_traces": len(examples),
        "stored_pairs": sum(len(example.pairs) for example in examples),
        "stopped": stopped,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "load_s": round(loaded - began, 2),
        "train_s": round(trained - loaded - curve.seconds, 2),
        "measure_s": round(time.monotonic() - trained + curve.seconds, 2),
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
    }
    lines = [
        header,
        *(
            {"line": "step", "step": line["step"], **{key: line[key] for key in KEPT if key in line}}
            for line in steps
            if "reward" in line
        ),
        *curve.lines,
        *({"line": "alarm", **{key: line[key] for key in line if key != "resume"}} for line in alarms),
        *final,
        *per_task,
    ]
    write_result(result, lines)


def weights_hash(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.safetensors")))).hexdigest()[:16]
