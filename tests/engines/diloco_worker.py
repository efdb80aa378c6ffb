"""A replica with the plain Trainer of transformers on a small regression: `FOLDER SECTIONS`.

The replica, its meetings and its wire are the real ones; only the policy and its rollouts are not there. Sections are
JSON, as in a config. Writes `FOLDER/weights.safetensors` at the end. From the step on that stands in `FOLDER/hold` it
waits while the file is there. With ALONE in the environment it is no replica, and trains as it would without; with
ALONE=by-hand it makes the outer steps of a single replica itself, without torchft.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Trainer, TrainerCallback, TrainingArguments

from composer_replication.config import Config, DilocoConfig
from composer_replication.progress import Silent
from composer_replication.training.diloco.replica import Replica, fragments_of
from composer_replication.training.diloco.train import of_this_replica

FEATURES = 16


class Regression(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(FEATURES, 32), torch.nn.Linear(32, 1)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x, labels):
        return {"loss": ((self.second(torch.tanh(self.first(x))) - labels) ** 2).mean()}


class Held(TrainerCallback):
    def __init__(self, file: Path) -> None:
        self._file = file

    def on_step_begin(self, args, state, control, **kwargs):
        time.sleep(0.01)
        with suppress(OSError, ValueError):
            while state.global_step >= int(self._file.read_text()):
                time.sleep(0.05)


class ByHand(TrainerCallback):
    """Nesterov's step on one fragment after the other, as the papers write it."""

    def __init__(self, settings: DilocoConfig) -> None:
        self._settings, self._meetings, self._since = settings, 1, 0  # the meeting before the first step moves nothing

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self._parts = [list(part) for part in fragments_of(model, self._settings.fragments)]
        self._common = [[weight.detach().clone() for weight in part] for part in self._parts]
        self._velocity = [[torch.zeros_like(weight) for weight in part] for part in self._parts]

    def on_optimizer_step(self, args, state, control, **kwargs):
        self._since += 1
        if self._since == self._settings.sync_every // self._settings.fragments:
            self._since = 0
            self._outer_step()

    def on_train_end(self, args, state, control, **kwargs):
        for _ in self._parts[1:]:
            self._outer_step()
        for part, common in zip(self._parts, self._common, strict=True):
            for weight, value in zip(part, common, strict=True):
                weight.data.copy_(value)

    def _outer_step(self) -> None:
        place, rate, momentum = (
            self._meetings % len(self._parts), self._settings.outer_learning_rate, self._settings.outer_momentum
        )  # fmt: skip
        for weight, common, velocity in zip(
            self._parts[place], self._common[place], self._velocity[place], strict=True
        ):
            move = common - weight.detach()
            velocity.mul_(momentum).add_(move)
            common.sub_(rate * (move + momentum * velocity))
            weight.data.copy_(common)
        self._meetings += 1


class Said(Silent):
    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main(folder: Path, sections: str) -> None:
    config = of_this_replica(Config.model_validate(json.loads(sections)))
    torch.manual_seed(config.seed)  # other weights in every replica: they must take those of one
    truth = torch.randn(FEATURES, 1, generator=torch.Generator().manual_seed(0))
    x = torch.randn(4096, FEATURES, generator=torch.Generator().manual_seed(config.seed))
    data = [{"x": row, "labels": label} for row, label in zip(x, x @ truth, strict=True)]
    training, model = config.training, Regression()
    replica = None if "ALONE" in os.environ else Replica(config, folder, Said())
    by_hand = [ByHand(config.diloco)] if os.environ.get("ALONE") == "by-hand" else []
    arguments = TrainingArguments(
        output_dir=str(folder / "scratch"), max_steps=training.steps, per_device_train_batch_size=32, use_cpu=True,
        learning_rate=1e-2, lr_scheduler_type="constant", report_to=[], disable_tqdm=True, logging_steps=1000,
        save_strategy="steps" if training.checkpoint_every else "no", save_steps=training.checkpoint_every or 500,
    )  # fmt: skip
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        callbacks=[Held(folder / "hold"), *([replica] if replica else []), *by_hand],
    )
    checkpoints = sorted((folder / "scratch").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    try:
        trainer.train(resume_from_checkpoint=str(checkpoints[-1]) if checkpoints else None)
    finally:
        if replica:
            replica.close()
    save_file({name: value.contiguous() for name, value in model.state_dict().items() if "frozen" not in name},
              folder / "weights.safetensors")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
