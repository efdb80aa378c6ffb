"""One replica: trains with TRL as it would alone, and meets the others after every window of steps.

    inner steps … inner steps ─▶ meet (quorum; who is behind gets the state) ─▶ average the moves ─▶ outer Nesterov step

Reads and leaves the weights of the policy, writes a line per meeting to `RUN/training/diloco.jsonl`, and the outer
state beside each checkpoint. All replicas end with the same weights. Unlike in torchft's own loop, the replicas meet
before the first step too, so that no window is thrown away, and after the last one, until every fragment is averaged.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from composer_replication.config import Config, DilocoConfig
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.progress import Progress

from ..metrics import StepLines
from .meeting import NUMBER, lighthouse_of, open_group, open_store, own_address, replica_number
from .transport import StateServer, packed, unpacked

SPARE = 2
"""Times `training.steps` that a replica may take, lost windows included."""
MOST_LOST = 3
"""Windows in a row."""
ASK_AGAIN_S = 0.5
ALIKE = {"model": True, "training": True, "channels": True, "diloco": set(DilocoConfig.model_fields) - {"lighthouse"}}
"""Settings that torchft does not compare: with other windows or steps, replicas would wait for each other for ever."""


def fragments_of(model: nn.Module, number: int) -> list[nn.ParameterList]:
    """The trainable parameters in their order, in parts of about the same size. Frozen ones stay at home; tied ones
    come once, where torchft, given modules, would send them in every fragment that names them."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    parts: list[list[nn.Parameter]] = [[] for _ in range(number)]
    total, seen = sum(parameter.numel() for parameter in trained), 0
    for parameter in trained:
        parts[min(number - 1, (seen + parameter.numel() // 2) * number // total)].append(parameter)
        seen += parameter.numel()
    if not all(parts):
        raise UsageError(
            f"{len(trained)} trainable tensors do not fill {number} fragments", "set fewer [diloco] fragments"
        )
    return [nn.ParameterList(part) for part in parts]


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Of all bits, so that anyone can see whether the replicas agree."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(memoryview(tensor.view(torch.uint8).numpy()))  # pyright: ignore[reportArgumentType]
    return found.hexdigest()[:16]


class OuterOptimizer(torch.optim.SGD):
    """Nesterov's. Where replicas only meet, and nobody has trained, its momentum must not move them."""

    counts = True

    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.counts:
            super().step()


class Replica(TrainerCallback):
    def __init__(self, config: Config, folder: Path, progress: Progress) -> None:
        settings, self._steps = config.diloco, config.training.steps
        self._settings, self._progress = settings, progress
        self._number, self._lighthouse = replica_number(), lighthouse_of(settings)
        self._host = own_address(self._lighthouse)
        self._lines = StepLines(folder / "diloco.jsonl")
        self._window = settings.sync_every // settings.fragments
        self._total = self._steps // self._window
        self._agreed: dict[str, Any] = config.model_dump(mode="json", include=ALIKE)
        self.windows = self._since = self._lost = 0
        self._manager: Any = None

    # Events of the trainer

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        args.max_steps = SPARE * self._steps

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **kwargs: Any
    ) -> None:
        state.max_steps = self._steps  # schedules are over the steps that count
        self._open(model, getattr(optimizer, "optimizer", optimizer))
        self._lines.begin(state.global_step)
        if state.global_step:
            self._restore(Path(args.output_dir) / f"checkpoint-{state.global_step}" / "diloco.safetensors")
        self._join(state.global_step)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._since += 1
        if self._since == self._window:
            self._since = 0
            self._sync(state.global_step + 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = self.windows >= self._total
        if control.should_save:
            self._keep(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def _keep(self, folder: Path) -> None:
        """Before the trainer writes the last file, by which a checkpoint counts: one that counts has this one too."""
        kept = {
            "manager": self._manager.state_dict(),
            "windows": self.windows,
            "outer": [optimizer.state_dict() for optimizer in self._outer],
            "weights": [fragment.original_parameters for fragment in self._fragments],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "diloco.safetensors"
        partial = path.with_suffix(".partial")
        partial.write_bytes(packed(kept))
        partial.replace(path)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.windows < self._total:
            return  # something ended it early, which is told elsewhere
        while self.windows < self._total + len(self._fragments) - 1:
            self._sync(state.global_step)
        for fragment in self._fragments:
            fragment.restore_parameters()
        with suppress(RecomposeError):
            self._meet()  # whoever lost the last window gets it now

    # Meetings

    def _open(self, model: nn.Module, inner: torch.optim.Optimizer) -> None:
        from torchft import Manager  # pyright: ignore[reportMissingImports]
        from torchft.local_sgd import DiLoCo  # pyright: ignore[reportMissingImports]

        # It is written for any transport, module and optimiser, and typed for its own alone.
        open_manager: Any = Manager
        open_diloco: Any = DiLoCo
        settings, timeout = self._settings, timedelta(seconds=self._settings.transfer_timeout_s)
        self._inner, parts = inner, fragments_of(model, settings.fragments)
        self._trained = [parameter for part in parts for parameter in part]
        self._agreed["shapes of weights"] = [list(parameter.shape) for parameter in self._trained]
        self._outer = [
            OuterOptimizer(
                part, settings.outer_learning_rate, settings.outer_momentum, nesterov=settings.outer_momentum > 0
            )
            for part in parts
        ]
        self._group, self._server = open_group(self._host, timeout), StateServer(self._host, timeout)
        self._store = open_store(self._host)  # kept: it ends with the object
        self._manager = open_manager(
            pg=self._group,
            state_dict=self._state,
            load_state_dict=self._load,
            min_replica_size=1,  # too few wait at the lighthouse; here they would throw window after window away
            use_async_quorum=False,
            timeout=timeout,
            # torchft's minute is for steps; a window of rollouts takes many.
            quorum_timeout=timedelta(seconds=settings.patience_s),
            rank=0,
            world_size=1,
            store_addr=self._host,
            store_port=self._store.port,
            lighthouse_addr="http://{}:{}".format(*self._lighthouse),
            replica_id=f"replica{self._number}",
            hostname=self._host,
            checkpoint_transport=self._server,
        )
        diloco = open_diloco(
            self._manager,
            parts,
            inner,
            self._outer,
            settings.sync_every,
            pin_memory=torch.cuda.is_available(),
            # Its buckets leave out what does not fit the last one, and the replicas drift apart.
            use_bucketization=False,
        )
        self._fragments: list[Any] = diloco._fragments

    def _join(self, step: int) -> None:
        """Before the first step: all wait for each other and take the same weights. Later on, one that joins waits for
        the end of a window, gets the state and takes part in its average, with the move of whoever sent it."""
        own = self._manager.current_step()
        self._progress.note(f"replica {self._number} at {self._host} waits for the others")
        while True:
            self._meet()
            if self._group.replicas.count(self._number) > 1:
                raise UsageError(
                    f"there are two replicas {self._number}, which would play the same tasks",
                    f"set {NUMBER}; one that was killed is forgotten after {self._settings.heartbeat_timeout_s:g} s",
                )
            ahead = self._manager.current_step() > own
            if (ahead or self._manager.num_participants() >= self._settings.replicas) and self._exchange(step, False):
                return
            time.sleep(ASK_AGAIN_S)

    def _sync(self, step: int) -> None:
        if not all(bool(parameter.isfinite().all()) for parameter in self._trained):
            raise RecomposeError(
                f"step {step}: weights of replica {self._number} are not finite; the others go on without it",
                "start it again: it gets their weights",
            )
        self._meet()
        self._lost = 0 if self._exchange(step, True) else self._lost + 1
        if self._lost > MOST_LOST:
            raise RecomposeError(f"step {step}: {self._lost} windows in a row were lost", "look at the other replicas")

    def _meet(self) -> None:
        try:
            self._manager.start_quorum()
        except (RuntimeError, TimeoutError, OSError) as error:
            where = "{}:{}".format(*self._lighthouse)
            raise RecomposeError(
                f"replica {self._number} does not meet the others at {where}: {error}",
                "start it again once the lighthouse is there: it goes on from its checkpoint, or joins the others",
            ) from error

    def _exchange(self, step: int, has_trained: bool) -> bool:
        started = time.monotonic()
        place = self._manager.current_step() % len(self._fragments)
        fragment = self._fragments[place]
        fragment.prepare_sync()
        trained = torch.tensor([float(has_trained)])
        self._manager.allreduce(trained).wait()
        self._outer[place].counts = bool(trained)
        committed: bool = fragment.perform_sync()
        if committed and trained:
            self.windows += 1
        number = self._manager.num_participants()
        self._lines.append(
            {
                "step": step,
                "window": self.windows,
                "fragment": place,
                "replicas": self._group.replicas,
                "trained": round(float(trained) * number),
                "committed": committed,
                # Since this process began. What a replica sends to average is (n - 1) / n · 2 of what it sums.
                "summed_bytes": self._group.summed_bytes,
                "state_bytes": self._server.sent_bytes,
                "seconds": round(time.monotonic() - started, 3),
                "fingerprint": fingerprint(
                    each for part in self._fragments for each in part.original_parameters.values()
                ),
            }
        )
        if not committed:
            self._progress.note(f"step {step}: a replica was lost in the middle, so this window is")
        return committed

    # State

    def _state(self) -> dict[str, Any]:
        return {
            "weights": list(self._trained),
            "inner": self._inner.state_dict(),
            "windows": self.windows,
            "agreed": self._agreed,
        }

    def _load(self, state: dict[str, Any]) -> None:
        for key, value in self._agreed.items():
            if state["agreed"][key] != value:
                raise UsageError(
                    f"the other replicas have other settings: {key}", "give every replica the same config and model"
                )
        with torch.no_grad():
            for parameter, sent in zip(self._trained, state["weights"], strict=True):
                parameter.copy_(sent)
        self._inner.load_state_dict(state["inner"])
        self.windows = state["windows"]

    def _restore(self, path: Path) -> None:
        if not path.exists():
            raise UsageError(f"the checkpoint {path.parent} was made without --diloco", "train into another run")
        kept = unpacked(path.read_bytes())
        self._manager.load_state_dict(kept["manager"])
        self.windows = kept["windows"]
        for fragment, optimizer, outer, weights in zip(
            self._fragments, self._outer, kept["outer"], kept["weights"], strict=True
        ):
            optimizer.load_state_dict(outer)
            for name, sent in weights.items():
                fragment.original_parameters[name].copy_(sent)

    def close(self) -> None:
        if self._manager is not None:
            self._manager.shutdown(wait=False)
            self._group.shutdown()
