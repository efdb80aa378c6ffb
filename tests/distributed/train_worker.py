"""Two processes, forked here, that call `recompose train` on one run after the other, some of them with a fault.

python -m tests.distributed.train_worker FOLDER SCENE…

A scene trains the run FOLDER/SCENE. How each call ended goes to FOLDER/ended-RANK.json, and the weights that the
process held at the end of training to FOLDER/SCENE-RANK.safetensors.
Whether it had any before they were shared goes to FOLDER/held-RANK.json.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from composer_replication.cli.train import train
from composer_replication.errors import RecomposeError
from composer_replication.runs import Run
from composer_replication.training import processes
from composer_replication.training.backends.trl import rollouts as trl_rollouts
from composer_replication.training.channels import ReplayPreference
from composer_replication.training.metrics import MetricsFile
from composer_replication.training.models import loading
from composer_replication.training.models import whole as models

from .launch import fork
from .worker import use_fsdp2

HELD: list[bool] = []


def rank() -> int:
    return int(os.environ["RANK"])


class PlugPulledError(Exception):
    pass


def interrupted() -> None:
    """Every process dies after the third step was logged."""
    log = MetricsFile.on_log

    def log_and_die(self: Any, args: Any, state: Any, *rest: Any, **options: Any) -> None:
        log(self, args, state, *rest, **options)
        if state.global_step == 3:
            raise PlugPulledError

    MetricsFile.on_log = log_and_die


def poisoned() -> None:
    """The third channel of the last process alone gives no number."""
    loss = ReplayPreference.loss

    def no_number(self: Any, *arguments: Any) -> Any:
        return loss(self, *arguments) * (torch.nan if rank() else 1.0)

    ReplayPreference.loss = no_number


def sharded() -> None:
    """The weights are shared, and one process samples longer turns than the other: neither may need the other.

    From here on it is noted whether a process had any weights before they were shared.
    """
    use_fsdp2(ram_efficient=True)
    load = loading.load_saved_policy

    def load_and_tell(*arguments: Any) -> Any:
        policy = load(*arguments)
        HELD.append(any(bool(parameter.any()) for parameter in policy.model.parameters()))
        return policy

    loading.load_saved_policy = load_and_tell
    settings = trl_rollouts.rollout_settings

    def longer(limits: Any, max_turn_tokens: int, temperature: float) -> Any:
        return settings(limits, max_turn_tokens + 8 * rank(), temperature)

    trl_rollouts.rollout_settings = longer


FAULTS: dict[str, Callable[[], None]] = {"interrupted": interrupted, "poisoned": poisoned, "sharded": sharded}
LOCKED = "locked"


def call(folder: Path, scene: str) -> list[Any]:
    """Name of the run, then of the fault, if any, after a dot."""
    name, _, fault = scene.partition(".")
    sound = MetricsFile.on_log, ReplayPreference.loss
    if fault in FAULTS:
        FAULTS[fault]()
    gather = models.whole_weights

    def gather_and_keep(model: Any) -> Any:
        weights = {key: tensor.detach().clone() for key, tensor in models.whole_tensors(model)}
        save_file(weights, folder / f"{name}-{rank()}.safetensors")
        return gather(model)

    models.whole_weights = gather_and_keep
    try:
        with Run.open(folder / name).lock() if fault == LOCKED and not rank() else nullcontext():
            train(folder / name, json=True)
    except RecomposeError as error:
        return [type(error).__name__, error.exit_code, str(error)]
    except PlugPulledError:
        return ["PlugPulledError"]
    finally:
        models.whole_weights = gather
        MetricsFile.on_log, ReplayPreference.loss = sound
    return []


def main(folder: Path, scenes: list[str]) -> None:
    torch.set_num_threads(1)
    # The group outlives each call, as the processes do.
    part, processes.part = processes.part, lambda: None
    ended = [call(folder, scene) for scene in scenes]
    (folder / f"ended-{rank()}.json").write_text(json.dumps(ended))
    (folder / f"held-{rank()}.json").write_text(json.dumps(HELD))
    part()


if __name__ == "__main__":
    fork(2, lambda: main(Path(sys.argv[1]), sys.argv[2:]))
