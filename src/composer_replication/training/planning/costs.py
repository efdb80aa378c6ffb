"""How long a step takes and what goes over the wire, from counts of work and the fitted cost of each kind of it.

Reads `costs.json`: seconds per unit of work for each kind of hardware, fitted by `benchmarks/plan.py` to measured runs,
with date, command and error. Pure functions beyond that. Not counted: loading, environments that work slowly, stages
around training, and whatever of the communication an engine hides behind computing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings

from ..models.shape import ModelShape
from .memory import BFLOAT16, FLOAT32, Workload, cache_bytes, layer_activations

FORWARD_FLOP, BACKWARD_FLOP = 2, 4
"""Per weight and token. With adapters the frozen weights get no gradient of their own, which is half of the latter."""
SOFTMAX_PASSES = 3
"""How often float32 logits are read and written in sampling a token or in a loss."""


class Episodes(NamedTuple):
    """How the rollouts of a step go."""

    turns: int
    rounds: int
    """Tokens that are sampled one after another: those of the longest turn of each round, summed."""
    prompt_tokens: int


class SamplingWork(NamedTuple):
    """Of one process in one step. Every field has its cost in seconds."""

    read_flop: float
    rounds_layers: float
    """Layers times rounds: what it costs to start the work of a layer."""
    round_bytes: float
    """Weights, keys and values, and logits that the rounds read."""
    round_flop: float
    turns: float
    """Of all rollouts: cutting, parsing and answering them."""


class TrainingWork(NamedTuple):
    flop: float
    bytes: float
    """Activations and logits that passes write and read."""
    layers: float
    """Times passes: forward, again for checkpoints, and backward."""
    parameters: float
    """That the optimiser moves."""
    rollouts: float
    """Their traces, sites, hints and metrics."""
    steps: float
    wire_bytes: float


@dataclass(frozen=True)
class Costs:
    """Of one kind of hardware. `assumed` names costs that nobody here could measure."""

    kind: str
    device: str
    memory_bytes: int
    sampling: SamplingWork
    training: TrainingWork
    measured: tuple[tuple[str, int], ...]
    """Layouts and numbers of processes that the fit has seen."""
    held_out: dict[str, Any]
    """Relative errors of the runs that the fit has not seen: (foreseen − measured) / measured."""
    fitted: dict[str, Any]
    """Those of the runs that it has seen."""
    date: str
    command: str
    assumed: tuple[str, ...] = ()

    def interval(self, seconds: float) -> tuple[float, float | None]:
        """Around what is foreseen, wide enough for every measured run, fitted or held out. An error of 1 or more leaves
        no upper end."""
        error = max(self.held_out["largest_error"], self.fitted["largest_error"])
        return seconds / (1 + error), seconds / (1 - error) if error < 1 else None

    def sampling_s(self, work: SamplingWork) -> float:
        return sum(cost * amount for cost, amount in zip(self.sampling, work, strict=True))

    def training_s(self, work: TrainingWork) -> float:
        """Without the wire."""
        return sum(cost * amount for cost, amount in zip(self.training[:-1], work[:-1], strict=True))

    def wire_s(self, work: TrainingWork) -> float:
        return self.training.wire_bytes * work.wire_bytes


@cache
def known_costs(path: Path | None = None) -> dict[str, Costs]:
    """By kind of hardware; of a file of your own where `path` is given."""
    source = path or files("composer_replication.training.planning") / "costs.json"
    try:
        given: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        return {kind: _costs(kind, **fields) for kind, fields in given.items()}
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{path} holds no costs: {error}", "python benchmarks/plan.py --costs FILE writes some"
        ) from error


def _costs(kind: str, sampling: dict[str, float], training: dict[str, float], **fields: Any) -> Costs:
    fields["measured"] = tuple((layout, processes) for layout, processes in fields["measured"])
    fields["assumed"] = tuple(fields.get("assumed", ()))
    return Costs(kind=kind, sampling=SamplingWork(**sampling), training=TrainingWork(**training), **fields)


def costs_of(kind: str, path: Path | None = None) -> Costs:
    found = known_costs(path)
    if kind not in found:
        raise UsageError(
            f"no costs of {kind} are known", f"one of {', '.join(found)}; or measure it: benchmarks/plan.py"
        )
    return found[kind]


def sampling_work(shape: ModelShape, config: Config, work: Workload, episodes: Episodes) -> SamplingWork:
    """On a GPU, and for shards, a sampler reads every token once; elsewhere each turn reads its whole context again."""
    weight_bytes = FLOAT32 if config.hardware.weights == "float32" else BFLOAT16
    number_bytes = BFLOAT16 if work.on_gpu else weight_bytes
    rows, rounds, turns = work.sampled_rows, episodes.rounds, max(1, episodes.turns)
    grown = work.row_tokens - episodes.prompt_tokens
    read = work.row_tokens
    if not (work.on_gpu or work.is_sharded):
        read = round(turns * episodes.prompt_tokens + grown * (turns - 1) / 2)
    read_bytes = shape.linear_parameters * number_bytes + rows * shape.vocabulary * FLOAT32 * SOFTMAX_PASSES
    seen_bytes = cache_bytes(shape, round((episodes.prompt_tokens + work.row_tokens) / 2), rows, number_bytes)
    return SamplingWork(
        read_flop=rows * read * FORWARD_FLOP * shape.linear_parameters,
        rounds_layers=(rounds + turns) * shape.layers,
        round_bytes=rounds * (read_bytes + seen_bytes),
        round_flop=rounds * rows * FORWARD_FLOP * shape.linear_parameters,
        turns=rows * turns,
    )


def turn_s(shape: ModelShape, config: Config, costs: Costs, read_tokens: int, written_tokens: int) -> float:
    """Of one turn alone: what is read at once, and what is then written token by token."""
    tokens = read_tokens + written_tokens
    work = Workload(rows=1, row_tokens=tokens, sampled_rows=1, on_gpu=costs.kind != "cpu")
    return costs.sampling_s(sampling_work(shape, config, work, Episodes(1, written_tokens, read_tokens)))


def training_work(shape: ModelShape, config: Config, work: Workload, sites: float, wire_bytes: float) -> TrainingWork:
    """`sites`: hinted turns of the rollouts of one process, each of which the teacher reads once."""
    hardware, sdpo = config.hardware, config.channel(SdpoSettings)
    weight_bytes = FLOAT32 if hardware.weights == "float32" else BFLOAT16
    compute_bytes = BFLOAT16 if hardware.autocasts(work.on_gpu) else weight_bytes
    rank, again = hardware.lora_rank or 0, hardware.gradient_checkpointing
    passes = work.sampled_rows // work.rows if work.rows else 1
    rows_tokens = [(work.rows, work.row_tokens), (work.stored_rows, work.stored_row_tokens)]
    read_teacher = sites * work.row_tokens if sdpo.weight and sdpo.source == "rollouts" and work.rows else 0.0
    forward, backward = FORWARD_FLOP * (2 if again else 1), BACKWARD_FLOP // 2 if rank else BACKWARD_FLOP
    # What a token takes part in: the weights, and attention to half of its row on average.
    flop = FORWARD_FLOP * shape.linear_parameters * read_teacher
    traffic = 0.0
    layer_bytes = shape.layers * layer_activations(shape, compute_bytes, weight_bytes)
    head_bytes = shape.vocabulary * FLOAT32 * SOFTMAX_PASSES
    for rows, length in rows_tokens:
        weights = shape.linear_parameters + shape.layers * shape.attention * length
        flop += passes * rows * length * weights * (forward + backward)
        traffic += passes * rows * length * (layer_bytes * (2 if again else 1) + head_bytes)
    traffic += read_teacher * layer_bytes / 2
    kinds = sum(1 for rows, _ in rows_tokens if rows)
    # An adapter adds two products to each one; a teacher's pass is a forward pass.
    started = (3 + again) * kinds * (2 if rank else 1) + (1 if read_teacher else 0)
    return TrainingWork(
        flop=flop,
        bytes=traffic,
        layers=passes * shape.layers * started,
        parameters=trained_parameters(shape, config) / work.shards,
        rollouts=work.sampled_rows,
        steps=1,
        wire_bytes=wire_bytes,
    )


def trained_parameters(shape: ModelShape, config: Config) -> int:
    rank = config.hardware.lora_rank
    return rank * shape.adapter_parameters_per_rank if rank else shape.parameters


class SentBytes(NamedTuple):
    """Bytes that one process sends in one step, as rings do it, on average over a window of steps."""

    ddp: float
    fsdp2: float
    diloco: float
    """Of one site: all trained weights in float32, once every `sync_every` steps."""


def wire_bytes(
    shape: ModelShape, config: Config, work: Workload, processes: int, sites: int = 1, sync_every: int = 1
) -> SentBytes:
    hardware, rank = config.hardware, config.hardware.lora_rank or 0
    weight_bytes = FLOAT32 if hardware.weights == "float32" else BFLOAT16
    compute_bytes = BFLOAT16 if hardware.autocasts(work.on_gpu) else weight_bytes
    trainable, trained_bytes = trained_parameters(shape, config), FLOAT32 if rank else weight_bytes
    passes = work.sampled_rows // work.rows if work.rows else 1
    share, outer = (processes - 1) / processes, (sites - 1) / sites
    added = [channel for channel in config.channels if not isinstance(channel, GrpoSettings) and channel.weight]
    gathers = 2 * passes * (2 if work.stored_rows and added else 1)
    # Sharded weights are gathered before each forward and each backward pass, and once for the copy to sample from.
    gathered = gathers * shape.parameters * compute_bytes + shape.parameters * weight_bytes
    return SentBytes(
        ddp=2 * share * trainable * trained_bytes,
        fsdp2=share * (gathered + trainable * compute_bytes),
        diloco=2 * outer * trainable * FLOAT32 / sync_every,
    )
