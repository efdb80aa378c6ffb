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
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import RecomposeError
from composer_replication.objective import TrdpoSettings
from composer_replication.progress import Silent
from composer_replication.training.metrics import StepLines
from composer_replication.training.models.loading import Policy, load_saved_policy
from composer_replication.training.train import train
from shared.result_lines import write_result

KEPT = (
    "reward", "entropy", "frac_reward_zero_std", "grad_norm", "loss", "num_tokens", "wall_s", "completions/mean_length",
    "channel/policy", "channel/sdpo", "channel/replay", "gradient/policy", "gradient/sdpo", "gradient/replay",
    "gradient/sdpo_factor", "gradient/replay_factor", "gradient/cosine_policy_sdpo", "gradient/cosine_policy_replay",
    "sdpo/sites", "sdpo/sites_per_rollout", "replay/pairs", "replay/margin", "replay/accuracy", "replay/chosen_shift",
    "rollout/error_turns_per_turn", "dynamic_sampling/flat_groups_left",
)  # fmt: skip
SPLITS = ("heldout", "renames", "compositions")


class Curve(TrainerCallback):
    """Held-out success on the way, by `samples_at` steps, until the arm's last; the time it takes is kept apart."""

    def __init__(
        self, measure: Measure, policy: Policy, samples_at: dict[int, int], last: int, part: str, tasks: int
    ) -> None:
        self._measure, self._policy, self._samples_at, self._last = measure, policy, samples_at, last
        self._part, self._tasks = part, tasks
        self.lines: list[dict[str, Any]] = []
        self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step >= self._last:
            control.should_training_stop = True
            return
        samples = self._samples_at.get(step)
        if samples is None:
            return
        started = time.monotonic()
        found = self._measure.episodes(self._policy, "heldout", self._part, self._tasks, samples)
        solved = [sum(task["rewards"]) for task in outcomes(found)]
        self.lines.append({"line": "curve", "step": step, "samples": samples, **summary(found), "solved": solved})
        self.seconds += time.monotonic() - started


def samples_on_the_way(measuring: dict[str, Any], last: int) -> dict[int, int]:
    """`curve` names steps and their samples; `curve_every` means one sample each time."""
    if "curve" in measuring:
        return {int(step): samples for step, samples in measuring["curve"].items()}
    return dict.fromkeys(range(measuring["curve_every"], last, measuring["curve_every"]), 1)


def run_arm(
    config: Config,
    last: int,
    start: Path,
    data: Path,
    scratch: Path,
    result: Path,
    measuring: dict[str, Any],
    about: dict,
) -> None:
    began = time.monotonic()
    policy = load_saved_policy(start, config.model.name)
    before = load_saved_policy(start, config.model.name)
    part, tasks, samples = measuring["part"], measuring["tasks"], measuring["samples"]
    measure = Measure(config)
    examples = examples_of(policy, data, config) if config.channel(TrdpoSettings).weight else []
    curve = Curve(measure, policy, samples_on_the_way(measuring, last), last, part, tasks)
    stopped = None
    torch.cuda.reset_peak_memory_stats() if torch.cuda.is_available() else None
    loaded = time.monotonic()
    try:
        train(policy, config, open_toolbox(config), examples, scratch / "training", Silent(), [curve])
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
        "last_step": last,
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
