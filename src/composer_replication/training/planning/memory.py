"""How much memory a training step, `ingest` and `evaluate` need on one device, by part, before anything is loaded.

Exact: weights, gradients, optimiser, teacher and cache, which follow from counts and types. Estimated: activations (the
tensors that a dense decoder layer with SDPA attention keeps for its backward pass), what sampling holds for a moment,
and the buffers of the output head.
Not counted: the libraries themselves, a CUDA context (about half a GiB), fragmentation, mixtures of experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from composer_replication.config import Config
from composer_replication.losses.kernels.chunking import CHUNK_BYTES, CHUNK_BYTES_FROZEN
from composer_replication.objective import SdpoSettings

from ..models.shape import ModelShape

Phase = Literal["always", "rollouts", "teacher pass", "policy pass", "stored pass"]
FLOAT32, BFLOAT16 = 4, 2
ADAM_MOMENTS, MUON_MOMENTS = 2, 1
# TRL projects hidden states onto the vocabulary in tiles of this size, and folds them in place on a GPU.
TILE_TOKENS, TILE_WORDS = 4096, 32_768
TILES_ALIVE_GPU, TILES_ALIVE_CPU = 1, 4
# Of the sampler with slots: what it reads in one pass, and what it rounds the room of a slot up to.
PREFILL_TOKENS, SLOT_COLUMNS = 1 << 16, 128
MOST_AT_ONCE = 512
"""Rollouts of `ingest`, `evaluate` and probes at a time, if memory and settings take as many."""


class Part(NamedTuple):
    name: str
    bytes: int
    when: Phase
    is_estimate: bool = False


@dataclass(frozen=True)
class Workload:
    """What one device has to hold at once."""

    rows: int
    """Rollouts of one forward and backward pass."""
    row_tokens: int
    sampled_rows: int
    """Rollouts that are sampled at once."""
    slot_tokens: int = 0
    """Room that a sampler with slots gives each of them; 0: as many as `row_tokens`."""
    prompt_tokens: int = 0
    """Of one prompt, at most."""
    stored_rows: int = 0
    stored_row_tokens: int = 0
    processes: int = 1
    is_sharded: bool = False
    replicas: int = 1
    """Groups of processes that share the weights, if they do."""
    on_gpu: bool = False

    @property
    def tokens(self) -> int:
        return self.rows * self.row_tokens

    @property
    def shards(self) -> int:
        return self.processes // self.replicas if self.is_sharded else 1


class MemoryEstimate(NamedTuple):
    parts: list[Part]
    activations_bytes: int
    """Of the policy's pass, or without rollouts of the stored pass; without checkpointing."""
    checkpointed_bytes: int

    @property
    def peak_bytes(self) -> int:
        return sum(part.bytes for part in self.parts if part.when == "always") + max(self.phases().values(), default=0)

    def phases(self) -> dict[str, int]:
        """Bytes beside the permanent ones; only one phase runs at a time."""
        names = {part.when for part in self.parts} - {"always"}
        return {name: sum(part.bytes for part in self.parts if part.when == name) for name in sorted(names)}


def estimate_memory(shape: ModelShape, config: Config, work: Workload) -> MemoryEstimate:
    training, hardware, sdpo = config.training, config.hardware, config.channel(SdpoSettings)
    weight_bytes = FLOAT32 if hardware.weights == "float32" else BFLOAT16
    compute_bytes = BFLOAT16 if hardware.autocasts(work.on_gpu) else weight_bytes
    rank = hardware.lora_rank or 0
    adapters = rank * shape.adapter_parameters_per_rank
    trainable, trained_bytes = (adapters, FLOAT32) if rank else (shape.parameters, weight_bytes)
    matrices = (adapters if rank else shape.hidden_matrices) if training.optimizer == "muon" else 0
    moments = MUON_MOMENTS * matrices + ADAM_MOMENTS * (trainable - matrices)
    online = sdpo.weight > 0 and sdpo.source == "rollouts"
    parts = [
        Part("weights", (shape.parameters * weight_bytes + adapters * FLOAT32) // work.shards, "always"),
        Part("gradients", trainable * trained_bytes // work.shards, "always"),
        Part("optimiser", moments * trained_bytes // work.shards, "always"),
        *_teacher(sdpo, trainable, trained_bytes, work.shards),
    ]
    if training.reference_kl and not rank:
        parts.append(Part("reference model", shape.parameters * weight_bytes // work.shards, "always"))
    if hardware.vllm == "off" and config.sampling.server is None and work.sampled_rows:
        parts += sampling_parts(shape, work, weight_bytes)
    layer = layer_activations(shape, compute_bytes, weight_bytes)
    stored = work.stored_rows * work.stored_row_tokens
    plain, checkpointed = _activations(shape, layer, work.tokens if work.rows else stored, weight_bytes)
    gradient_pass: Phase = "policy pass" if work.rows else "stored pass"
    if work.rows:
        kept = checkpointed if hardware.gradient_checkpointing else plain
        head = _head(shape, work.tokens, compute_bytes, work, bool(rank))
        parts.append(Part("activations", kept, "policy pass", is_estimate=True))
        parts.append(Part("output head", head, "policy pass", is_estimate=True))
    if compute_bytes != weight_bytes and not work.is_sharded:
        parts.append(Part("bfloat16 copies of the weights", shape.linear_parameters * BFLOAT16, gradient_pass))
    if work.is_sharded:
        gathered = 2 * (shape.parameters - 2 * shape.head_parameters) // shape.layers * compute_bytes
        parts.append(Part("gathered layers", gathered, gradient_pass, is_estimate=True))
    if online:
        parts.append(Part("divergence buffers", _divergence(shape, work.tokens, bool(rank)), "policy pass", True))
        passed = work.tokens * shape.hidden * compute_bytes * 8
        parts.append(Part("hinted contexts", passed, "teacher pass", is_estimate=True))
    if work.stored_rows:
        stored_kept = _activations(shape, layer, stored, weight_bytes)[hardware.gradient_checkpointing]
        parts.append(Part("activations of stored rows", stored_kept, "stored pass", is_estimate=True))
        parts.append(Part("divergence buffers", _divergence(shape, stored, bool(rank)), "stored pass", True))
    return MemoryEstimate(parts, plain, checkpointed)


def layer_activations(shape: ModelShape, compute_bytes: int, weight_bytes: int) -> int:
    """Bytes per token that one layer keeps for its backward pass.

    Four tensors of the feed-forward width, four of attention's (keys and values are repeated for every head), and six
    of the hidden width, of which the norms keep theirs in float32.
    """
    norms = 24 if weight_bytes == FLOAT32 else 16
    per_token = 4 * compute_bytes * (shape.intermediate + shape.attention) + norms * shape.hidden
    if shape.normalises_queries:
        per_token += (8 if compute_bytes == FLOAT32 else 6) * (shape.attention + shape.key_value)
    return per_token


def _activations(shape: ModelShape, layer_bytes: int, tokens: int, stream_bytes: int) -> tuple[int, int]:
    """Without and with checkpointing: all layers, or the inputs of all and the inside of one."""
    return tokens * shape.layers * layer_bytes, tokens * (shape.layers * shape.hidden * stream_bytes + layer_bytes)


def _teacher(sdpo: SdpoSettings, trainable: int, trained_bytes: int, shards: int) -> list[Part]:
    if not sdpo.weight or sdpo.teacher == "live":
        return []
    kept_bytes = FLOAT32 if sdpo.teacher == "ema" else trained_bytes
    return [
        Part("teacher", trainable * kept_bytes // shards, "always"),
        Part("policy set aside", trainable * trained_bytes // shards, "teacher pass"),
    ]


def sampling_parts(shape: ModelShape, work: Workload, weight_bytes: int, is_fixed: bool = False) -> list[Part]:
    """Of the sampler that `turn_sampler` would choose. On a GPU and for shards it has slots for whole episodes, which
    it keeps, and weights of its own unless they are `is_fixed` and in its type."""
    number_bytes = BFLOAT16 if work.on_gpu else weight_bytes
    read = min(PREFILL_TOKENS, work.sampled_rows * (work.prompt_tokens or work.row_tokens))
    widths = 3 * shape.intermediate + 4 * shape.hidden + 2 * shape.attention
    logits = work.sampled_rows * shape.vocabulary * (number_bytes + 3 * FLOAT32)
    reading = Part("contexts read at once, next tokens", read * widths * number_bytes + logits, "rollouts", True)
    if not (work.on_gpu or work.is_sharded):
        cache = cache_bytes(shape, work.row_tokens, work.sampled_rows, weight_bytes)
        return [Part("key-value cache", cache, "rollouts"), reading]
    columns = -(-(work.slot_tokens or work.row_tokens) // SLOT_COLUMNS) * SLOT_COLUMNS + 1
    parts = [Part("key-value cache", cache_bytes(shape, columns, work.sampled_rows, number_bytes), "always"), reading]
    if is_fixed and number_bytes == weight_bytes and not work.is_sharded:
        return parts
    return [Part("whole copy to sample from", shape.parameters * number_bytes, "always"), *parts]


def estimate_playing(shape: ModelShape, config: Config, work: Workload) -> MemoryEstimate:
    """Of `ingest`, `evaluate` and probes: one model that is only sampled from, in one process."""
    weight_bytes = FLOAT32 if config.hardware.weights == "float32" else BFLOAT16
    parts = [
        Part("weights", shape.parameters * weight_bytes, "always"),
        *sampling_parts(shape, work, weight_bytes, is_fixed=True),
    ]
    return MemoryEstimate(parts, 0, 0)


def cache_bytes(shape: ModelShape, tokens: int, rows: int, number_bytes: int) -> int:
    """Keys and values of every layer."""
    return 2 * shape.layers * shape.key_value * number_bytes * rows * tokens


def _head(shape: ModelShape, tokens: int, compute_bytes: int, work: Workload, is_frozen: bool) -> int:
    """Tiles of logits, and gradients of hidden states and head in float32."""
    tile = min(tokens, TILE_TOKENS) * min(shape.vocabulary, TILE_WORDS) * compute_bytes
    gradients = tokens * shape.hidden * FLOAT32 + (0 if is_frozen else shape.head_parameters * FLOAT32)
    return tile * (TILES_ALIVE_GPU if work.on_gpu else TILES_ALIVE_CPU) + gradients


def _divergence(shape: ModelShape, tokens: int, is_frozen: bool) -> int:
    """The chunks of logits are bounded; next to them the gradient of the head."""
    bound = CHUNK_BYTES_FROZEN if is_frozen else CHUNK_BYTES
    logits = min(bound, tokens * shape.vocabulary * FLOAT32)
    return logits + (0 if is_frozen else shape.head_parameters * FLOAT32)
