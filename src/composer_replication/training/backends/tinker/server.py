"""A server of the Tinker API as the engine of a step: rows read, rows sent, steps made, state saved and loaded.

Every answer is awaited in slices, and between them the server is asked whether it is still there: the SDK itself would
ask on for ever.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError, UsageError

from ...step.sampled import PulledRow
from .contract import Contract, filled

SLICE_S, AWAY_S = 10.0, 40.0
HEALTH = "/api/v1/healthz"
LOCAL_KEY = "tml-local"
"""The SDK wants a key of this form; a server of one's own does not look at it."""


class Adam(NamedTuple):
    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-8
    grad_clip_norm: float = 1.0


class TinkerServer:
    """Adapters on a base model: those of `state`, a path that `save` gave, or fresh ones of `rank`."""

    def __init__(self, url: str, contract: Contract | None = None) -> None:
        self.url, self.contract = url.rstrip("/"), contract or Contract()
        self._sdk: Any = _sdk()
        self._must_answer()
        # What is trained on is nobody else's business.
        os.environ.setdefault("TINKER_TELEMETRY", "0")
        key = os.environ.get("TINKER_API_KEY", LOCAL_KEY)
        self._service: Any = self._sdk.ServiceClient(base_url=self.url, api_key=key)
        self._trainer: Any = None

    def models(self) -> list[str]:
        told: Any = self._service.get_server_capabilities()
        return [model.model_name for model in told.supported_models if model.model_name]

    def begin(self, model: str, rank: int, seed: int) -> None:
        self._trainer = self._asked(
            f"adapters of rank {rank} on {model}",
            lambda: self._service.create_lora_training_client(base_model=model, rank=rank, seed=seed),
        )

    def resume(self, path: str) -> None:
        """With the state of the optimiser."""
        self._trainer = self._asked(
            f"the checkpoint {path}", lambda: self._service.create_training_client_from_state_with_optimizer(path)
        )

    def read(self, rows: Sequence[list[int]]) -> list[list[float]]:
        """Log-probabilities of the ids of each row but its first, under the adapters as they are."""
        whole = filled([PulledRow(row, []) for row in rows])
        data = [self._datum(row.ids, weights=[1.0] * (len(row.ids) - 1)) for row in whole]
        found = self._wait(self._trainer.forward(data, "cross_entropy"))
        return [one["logprobs"].tolist() for one in found.loss_fn_outputs[: len(rows)]]

    def send(self, *requests: Sequence[PulledRow]) -> None:
        """The gradient of one step: every row at ratio 1, its pulls as advantages."""
        whole = [filled(rows) for rows in requests]
        for rows, divisors in zip(whole, self.contract.divisors(whole), strict=True):
            data = [self._pulled(row, divisor) for row, divisor in zip(rows, divisors, strict=True)]
            self._wait(self._trainer.forward_backward(data, "importance_sampling"))

    def step(self, adam: Adam) -> dict[str, float]:
        asked = self._sdk.AdamParams(**adam._asdict())
        return dict(self._wait(self._trainer.optim_step(asked)).metrics or {})

    def sampler(self) -> Any:
        """Of the adapters as they are."""
        return self._asked("a sampler", self._trainer.save_weights_and_get_sampling_client)

    def save(self, name: str) -> str:
        return self._wait(self._trainer.save_state(name, overwrite=True)).path

    def frozen_reader(self, model: str) -> Callable[[Sequence[list[int]]], list[list[float]]]:
        """Of the base model without adapters."""
        base = self._asked(model, lambda: self._service.create_sampling_client(base_model=model))

        def read(rows: Sequence[list[int]]) -> list[list[float]]:
            asked = [base.compute_logprobs(self._sdk.ModelInput.from_ints(row)) for row in rows]
            # SkyRL leaves the first token out, the hosted service gives None for it.
            return [self._wait(one)[-(len(row) - 1) :] for one, row in zip(asked, rows, strict=True)]

        return read

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        return [self._wait(future) for future in futures]

    def sampling(self, context: Sequence[int], seed: int, max_tokens: int, temperature: float, stop: int) -> Any:
        """Arguments of a sampling client's `sample`."""
        asked = self._sdk.SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed, stop=[stop])
        return {"prompt": self._sdk.ModelInput.from_ints(list(context)), "num_samples": 1, "sampling_params": asked}

    def adapters(self, name: str) -> dict[str, Any]:
        """The trained tensors by their names in PEFT, out of the archive that the server packs."""
        from safetensors.torch import load_file

        path = self._wait(self._trainer.save_weights_for_sampler(name)).path
        try:
            packed = self._archive(path)
            with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
                (found,) = Path(folder).rglob("adapter_model.safetensors")
                return load_file(found)
        except (OSError, ValueError, tarfile.TarError) as error:
            raise RecomposeError(
                f"training is done, but {self.url} gives no archive of {path}: {error}",
                f"tinker checkpoint download {path}, and merge it into RUN/policy/model with peft",
            ) from error

    def _archive(self, path: str) -> bytes:
        import httpx

        run, _, checkpoint = path.removeprefix("tinker://").partition("/")
        rest: Any = self._service.create_rest_client()
        told = self._wait(rest.get_checkpoint_archive_url(run, checkpoint))
        try:
            return httpx.get(told.url, follow_redirects=True, timeout=600).raise_for_status().content
        except httpx.HTTPError as error:
            raise OSError(str(error)) from error

    def _pulled(self, row: PulledRow, factor: float) -> Any:
        advantages = [factor * pull for pull in row.pulls[1:]]
        return self._datum(row.ids, logprobs=row.logprobs[1:], advantages=advantages)

    def _datum(self, ids: list[int], **inputs: list[float]) -> Any:
        return self._sdk.Datum(
            model_input=self._sdk.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], **inputs}
        )

    def _asked(self, what: str, ask: Callable[[], Any]) -> Any:
        self._must_answer()
        try:
            return ask()
        except Exception as error:
            raise UsageError(
                f"{self.url} refused {what}: {error}",
                "read the server's log; a restarted server needs the folder and the database it had before",
            ) from error

    def _wait(self, future: Any) -> Any:
        away_s = 0.0
        while True:
            began = time.monotonic()
            try:
                return future.result(timeout=SLICE_S)
            except (NotYet, TimeoutError) as error:
                if time.monotonic() - began < SLICE_S / 2:
                    raise self._failure(error) from error  # not this wait ran out, but something on the other side
                away_s = away_s + SLICE_S if self._is_away() else 0.0
                if away_s >= AWAY_S:
                    raise RecomposeError(
                        f"the Tinker server {self.url} has not answered for {away_s:.0f} seconds",
                        "start it again with its folder and database, then the same command: it goes on from the last "
                        "checkpoint (training.checkpoint_every)",
                    ) from None
            except Exception as error:
                raise self._failure(error) from error

    def _failure(self, error: Exception) -> RecomposeError:
        return RecomposeError(
            f"the Tinker server {self.url} failed: {error or type(error).__name__}",
            "read its log, then the same command: it goes on from the last checkpoint",
        )

    def _is_away(self) -> bool:
        import httpx

        try:
            return httpx.get(self.url + HEALTH, timeout=5).is_server_error
        except httpx.HTTPError:
            return True

    def _must_answer(self) -> None:
        if self._is_away():
            raise UsageError(
                f"no Tinker server answers at {self.url}", "start it (docs/engines/tinker.md), check --url"
            )


def _sdk() -> Any:
    try:
        import tinker  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise UsageError(
            "--backend tinker needs the Tinker SDK", "pip install 'composer-replication[tinker]'"
        ) from error
    return tinker
