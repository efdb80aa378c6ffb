"""One run of one arm: train from the seed's start, measure on the way and at the end, write one JSONL file.

An arm has one phase or several; each is one call of `train`.

Lines, by `line`: `run` (settings and costs), `step` (one per optimiser step), `curve` (held-out success on the way),
`alarm`, `final` (summary per split), and `task` (every held-out task of the end, with all its samples).
"""

import hashlib
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import TrainerCallback

from composer_replication.config import Config
from composer_replication.environments.protocol import Environment
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import RecomposeError
from composer_replication.progress import Silent
from composer_replication.training.backends.trl.trainer import ComposerReplicationTrainer
from composer_replication.training.metrics import StepLines
from composer_replication.training.models.loading import Policy, load_saved_policy
from composer_replication.training.train import train
from shared.result_lines import write_result

from .block import data_hash, examples_of
from .measure import Measure, kl_to, outcomes, summary
from .plan import Phase

KEPT = (
    "reward", "entropy", "frac_reward_zero_std", "grad_norm", "loss", "num_tokens", "wall_s", "completions/mean_length",
    "channel/policy", "channel/sdpo", "channel/replay", "gradient/policy", "gradient/sdpo", "gradient/replay",
    "gradient/sdpo_factor", "gradient/replay_factor", "gradient/cosine_policy_sdpo", "gradient/cosine_policy_replay",
    "sdpo/sites", "sdpo/sites_per_rollout", "replay/pairs", "replay/margin", "replay/accuracy", "replay/chosen_shift",
    "rollout/error_turns_per_turn", "dynamic_sampling/flat_groups_left", "channel/prefix", "gradient/prefix",
    "gradient/prefix_factor", "gradient/cosine_policy_prefix", "prefix/states", "prefix/divergence",
    "self_distillation/reward_mean", "self_distillation/distillation_loss",
    "self_distillation/reprompt_sample_fraction",
)  # fmt: skip
SPLITS = ("heldout", "renames", "compositions")


class Curve(TrainerCallback):
    """Held-out success on the way, by `samples_at` steps, until the arm's last; the time it takes is kept apart."""

    def __init__(self, measure: Measure, policy: Policy, samples_at: dict[int, int], part: str, tasks: int) -> None:
        self._measure, self._policy, self._samples_at = measure, policy, samples_at
        self._part, self._tasks = part, tasks
        self.begins_at = self.ends_at = 0
        self._is_last = True
        self.lines: list[dict[str, Any]] = []
        self.seconds = 0.0

    def begin(self, begins_at: int, ends_at: int, is_last: bool) -> None:
        """A phase, whose steps are counted from 0. The end of the last one is not measured here."""
        self.begins_at, self.ends_at, self._is_last = begins_at, ends_at, is_last

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = self.begins_at + state.global_step
        if step >= self.ends_at:
            control.should_training_stop = True
            if self._is_last:
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


class Sources(NamedTuple):
    """What an arm begins from."""

    start: Path
    data: Path | None
    """Stored rollouts and pairs, where it reads them."""
    teachers: Mapping[str, Path]
    """Checkpoints that it asks while it trains."""


class Setting(NamedTuple):
    """What is trained in a phase, and how. A plan's `way` names a function that changes some of it."""

    policy: Policy
    config: Config
    environment: Environment
    sources: Sources
    trainer: Callable[..., Any] = ComposerReplicationTrainer


def run_arm(
    phases: Sequence[Phase],
    sources: Sources,
    scratch: Path,
    result: Path,
    measuring: dict[str, Any],
    about: dict[str, str],
) -> None:
    began, config = time.monotonic(), phases[0].config
    policy = load_saved_policy(sources.start, config.model.name)
    before = load_saved_policy(sources.start, config.model.name)
    part, tasks, samples = measuring["part"], measuring["tasks"], measuring["samples"]
    measure = Measure(config)
    examples = examples_of(policy, sources.data, config) if sources.data else []
    torch.cuda.reset_peak_memory_stats() if torch.cuda.is_available() else None
    loaded = time.monotonic()
    last = sum(phase.last_step for phase in phases)
    curve = Curve(measure, policy, samples_on_the_way(measuring, last), part, tasks)
    stopped, steps, alarms = None, list[dict[str, Any]](), list[dict[str, Any]]()
    for number, phase in enumerate(phases):
        folder = scratch / f"phase-{number}" / "training"
        setting = Setting(policy, phase.config, open_toolbox(phase.config), sources)
        setting = found_way(phase.way)(setting) if phase.way else setting
        curve.begin(curve.ends_at, curve.ends_at + phase.last_step, number + 1 == len(phases))
        watched = (folder, Silent(), [curve])
        try:
            train(setting.policy, setting.config, setting.environment, examples, *watched, trainer=setting.trainer)
        except RecomposeError as error:  # a watchdog ended it: what it has learnt so far is its result
            stopped = str(error)
        for name, lines in (("metrics", steps), ("alarms", alarms)):
            own = StepLines(folder / f"{name}.jsonl").read()
            lines += [{**line, "step": line["step"] + curve.begins_at} for line in own if "step" in line]
        if stopped:
            break
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
    header = {
        "line": "run",
        **about,
        "seed": config.seed,
        "last_step": last,
        "config": config.model_dump(mode="json"),
        **({"later_configs": [phase.config.model_dump(mode="json") for phase in phases[1:]]} if phases[1:] else {}),
        "start_sha256": weights_hash(sources.start),
        **({"data_sha256": data_hash(sources.data)} if sources.data else {}),
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
            if "grad_norm" in line
        ),
        *curve.lines,
        *({"line": "alarm", **{key: line[key] for key in line if key != "resume"}} for line in alarms),
        *final,
        *per_task,
    ]
    write_result(result, lines)


def found_way(name: str) -> Callable[[Setting], Setting]:
    """`module:function` of the experiment's folder."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def weights_hash(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.safetensors")))).hexdigest()[:16]
