"""Turns from one key-value cache that lives across turns, with a CUDA graph for the step that writes one token.

Each conversation owns a slot: a row of the cache in which its token at position p lies in column p. A new turn only
reads what was appended since; whatever else stands in a slot is overwritten. Rows that do not take part in a step write
to a last column that nobody reads, so the shapes of a step never change and a graph can be replayed.

transformers' `StaticCache` keeps one position for all rows and its attention copies the keys once per query head. Here
the attention function itself writes to the slots, and the queries of one key head are read as a longer sequence.

The cache takes 2 · layers · key heads · head size · (`max_tokens` + 1) · `batch` numbers: 6 GB for SmolLM2-135M in bf16
with 512 conversations of 512 tokens. Weights are a copy in `dtype`; `refresh` takes them from the policy again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from composer_replication.errors import UsageError

from ..models.states import language_model
from ..models.tokens import ChatTokens, shared_length
from ..models.whole import can_be_merged, is_sharded, whole_tensors
from ..planning.memory import PREFILL_TOKENS, SLOT_COLUMNS
from .sampling import (
    DynamicSampler,
    SampledTurn,
    SamplingOptions,
    TurnSampler,
    WrittenTurns,
    choose_tokens,
    left_pad,
)

ATTENTION = "composer_static"
COLUMNS_PER_GRAPH = SLOT_COLUMNS
COLUMNS_PER_KERNEL = 16
"""Masks of other widths are copied by the attention kernels."""
STEPS_PER_LOOK = 4
"""How often to ask which rows have ended: asking waits for the device."""
WARMUP_STEPS = 3
KERNELS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN plans anew for every shape, which is slow in general but happens once per graph here."""
NOT_COMPUTED = ("softcap", "s_aux")


def turn_sampler(model: Any, tokens: ChatTokens, batch: int, max_tokens: int, *, is_fixed: bool = False) -> TurnSampler:
    """The fast sampler on a GPU; the plain one elsewhere, and for models that the fast one cannot copy or compute.

    Adapters are merged into the copy, so they cost nothing. `is_fixed`: the weights will not change, so that those in
    the right type need no copy.

    Weights that processes share (FSDP2) are sampled from a copy anywhere: in a pass through the shards every process
    must take part, and each samples as long as its own rollouts go on.
    """
    is_static = can_be_copied(model) and attends_plainly(model, max_tokens)
    if is_sharded(model) and not is_static:
        raise UsageError(
            "such adapters, quantised weights or attention cannot be sampled from shards", "launch without FSDP"
        )
    if is_sharded(model) or (model.device.type == "cuda" and is_static):
        return StaticSampler(model, tokens, batch, max_tokens, is_fixed=is_fixed)
    return DynamicSampler(model, tokens, batch)


def can_be_copied(model: Any) -> bool:
    """False with quantised weights, and with adapters that are more than a product of low rank."""
    from transformers import PreTrainedModel

    base = language_model(model)
    return isinstance(base, PreTrainedModel) and not getattr(base, "is_quantized", False) and can_be_merged(model)


def attends_plainly(model: Any, max_tokens: int) -> bool:
    """Whether every layer attends to all that stands before, up to `max_tokens`, without soft caps or sinks."""
    network = language_model(model)
    settings = network.config.get_text_config()
    window = getattr(settings, "sliding_window", None)
    sees_all = window is None or window >= _rounded_up(max_tokens, COLUMNS_PER_GRAPH)
    # Configs without a list of layers, such as Mistral's, have one kind alone.
    kinds = set(getattr(settings, "layer_types", None) or ["sliding_attention" if window else "full_attention"])
    is_capped = getattr(settings, "attn_logit_softcapping", None) is not None
    has_sinks = any(hasattr(module, "sinks") for module in network.modules())
    return kinds <= {"full_attention", *(["sliding_attention"] if sees_all else [])} and not is_capped and not has_sinks


class _Place(NamedTuple):
    """Where the tokens of one forward pass go, and what each may see."""

    rows_R: Tensor
    is_every_slot: bool
    columns_RT: Tensor
    mask_R1TS: Tensor


class _Slots:
    """Keys and values of every layer, (slot, column, head, feature)."""

    def __init__(self, batch: int, columns: int) -> None:
        self._batch, self._columns = batch, columns
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self.place: _Place | None = None

    def extend(self, layer: int, key_RKTD: Tensor, value_RKTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Write to one layer; return its visible keys and values, and the mask."""
        assert self.place is not None
        rows_R, is_every_slot, columns_RT, mask_R1TS = self.place
        if layer not in self._layers:
            self._layers[layer] = self._empty(key_RKTD), self._empty(value_RKTD)
        width = mask_R1TS.shape[-1]
        seen: list[Tensor] = []
        for cache_BSKD, new_RKTD in zip(self._layers[layer], (key_RKTD, value_RKTD), strict=True):
            cache_BSKD[rows_R[:, None], columns_RT] = new_RKTD.transpose(1, 2)
            visible_RSKD = cache_BSKD[:, :width] if is_every_slot else cache_BSKD[rows_R, :width]
            seen.append(visible_RSKD.transpose(1, 2))
        return seen[0], seen[1], mask_R1TS

    def _empty(self, like_RKTD: Tensor) -> Tensor:
        heads, features = like_RKTD.shape[1], like_RKTD.shape[3]
        return like_RKTD.new_zeros(self._batch, self._columns, heads, features)


def _attend(
    module: Any,
    query_RHTD: Tensor,
    key_RKTD: Tensor,
    value_RKTD: Tensor,
    attention_mask: Tensor | None,
    slots: _Slots,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    keys_RKSD, values_RKSD, mask_R1TS = slots.extend(module.layer_idx, key_RKTD, value_RKTD)
    if any(options.get(name) is not None for name in NOT_COMPUTED) or (
        sliding_window is not None and sliding_window < mask_R1TS.shape[-1]
    ):
        raise UsageError("the static sampler computes plain attention only", "sample with DynamicSampler")
    rows, heads, length, features = query_RHTD.shape
    key_heads = keys_RKSD.shape[1]
    group = heads // key_heads
    # Heads of one group stand one after another, each with all its queries.
    mask_RKQS = mask_R1TS if length == 1 else mask_R1TS.repeat(1, 1, group, 1)
    mixed = scaled_dot_product_attention(
        query_RHTD.reshape(rows, key_heads, group * length, features),
        keys_RKSD,
        values_RKSD,
        attn_mask=mask_RKQS.expand(-1, key_heads, group * length, -1),
        scale=scaling,
    )
    return mixed.reshape(rows, heads, length, -1).transpose(1, 2), None


class StaticSampler:
    """Samples turns for `batch` slots. `graphs` off runs the same steps eagerly, as on a CPU."""

    def __init__(
        self,
        model: Any,
        tokens: ChatTokens,
        batch: int,
        max_tokens: int,
        *,
        dtype: torch.dtype | None = None,
        graphs: bool = True,
        is_fixed: bool = False,
    ) -> None:
        self.batch, self.max_tokens = batch, max_tokens
        self._device = model.device
        self._tokens = tokens
        self._graphs_on = graphs and self._device.type == "cuda"
        native = torch.bfloat16 if self._device.type == "cuda" else model.dtype
        wanted = dtype or native
        shares = is_fixed and model.dtype == wanted and model is language_model(model) and not is_sharded(model)
        self._model = _twin(model) if shares else _copy_for_sampling(language_model(model), model.device, wanted)
        self._cached: list[list[int]] = [[] for _ in range(batch)]
        self._unseen_column = _rounded_up(max_tokens, COLUMNS_PER_GRAPH)
        self._slots = _Slots(batch, self._unseen_column + 1)
        self._token_B, self._position_B, self._column_B = (
            torch.zeros(batch, dtype=torch.long, device=self._device) for _ in range(3)
        )
        self._every_slot_B = torch.arange(batch, device=self._device)
        self._captured: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._pool: Any = torch.cuda.graph_pool_handle() if self._graphs_on else None
        self.refresh(model)

    @torch.no_grad()
    def refresh(self, model: Any) -> None:
        """Take the weights of `model`, in place, so that captured graphs see them. Shards are gathered one by one."""
        own = self._model.state_dict()
        for name, tensor in whole_tensors(model):
            if own[name].data_ptr() != tensor.data_ptr():
                own[name].copy_(tensor)
        self._cached = [[] for _ in range(self.batch)]

    @torch.no_grad()
    def sample(
        self, slots: Sequence[int], contexts: Sequence[Sequence[int]], **options: Unpack[SamplingOptions]
    ) -> list[SampledTurn]:
        longest = max(map(len, contexts)) + options["max_new_tokens"]
        if longest > self.max_tokens:
            raise ValueError(f"{longest} tokens do not fit into slots of {self.max_tokens}")
        width = _rounded_up(longest, COLUMNS_PER_GRAPH)
        with torch.autocast(self._device.type, enabled=False):
            logits_BV = self._read(slots, contexts)
            written = WrittenTurns(len(slots), options["max_new_tokens"], self._device, options.get("on_turn"))
            self._write(slots, contexts, logits_BV, width, options, written)
        turns = written.all()
        for slot, context, turn in zip(slots, contexts, turns, strict=True):
            # The last token of a turn was sampled but never read.
            self._cached[slot] = [*context, *turn.ids[:-1]]
        return turns

    def _read(self, slots: Sequence[int], contexts: Sequence[Sequence[int]]) -> Tensor:
        """Append to each slot what it does not hold yet; logits after the last token of each."""
        news = [(slot, *self._unread(slot, context)) for slot, context in zip(slots, contexts, strict=True)]
        news.sort(key=lambda new: len(new[2]))
        logits_BV: Tensor | None = None
        for group in _groups(news):
            rows, starts, unread = zip(*group, strict=True)
            ids_RT, mask_RT = left_pad(unread, self._tokens.tokenizer.pad_token_id, self._device)
            start_R1 = torch.tensor(starts, device=self._device)[:, None]
            position_RT = (start_R1 + mask_RT.cumsum(1) - 1) * mask_RT
            rows_R = torch.tensor(rows, device=self._device)
            width = _rounded_up(max(start + len(ids) for _, start, ids in group), COLUMNS_PER_KERNEL)
            column_RT = torch.where(mask_RT.bool(), position_RT, self._unseen_column)
            logits_RV = self._forward(ids_RT, position_RT, column_RT, width, rows_R, is_every_slot=False)
            if logits_BV is None:
                logits_BV = logits_RV.new_zeros(self.batch, logits_RV.shape[-1])
            logits_BV[rows_R] = logits_RV
        assert logits_BV is not None
        return logits_BV

    def _unread(self, slot: int, context: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Where the slot stops agreeing with the context, and the rest of the context: always at least one token."""
        held = self._cached[slot]
        agreed = len(held) if held == list(context[: len(held)]) else shared_length(held, context)
        start = min(agreed, len(context) - 1)
        return start, context[start:]

    def _write(
        self,
        slots: Sequence[int],
        contexts: Sequence[Sequence[int]],
        logits_BV: Tensor,
        width: int,
        options: SamplingOptions,
        written: WrittenTurns,
    ) -> None:
        slots_R = torch.tensor(slots, device=self._device)
        alive_B = torch.zeros(self.batch, dtype=torch.bool, device=self._device)
        alive_B[slots_R] = True
        length_B = torch.zeros(self.batch, dtype=torch.long, device=self._device)
        length_B[slots_R] = torch.tensor([len(context) for context in contexts], device=self._device)
        for step in range(options["max_new_tokens"]):
            next_B, logprob_B = choose_tokens(logits_BV, options["temperature"], options.get("generator"))
            written.add(step, torch.where(alive_B, next_B, -1)[slots_R], logprob_B[slots_R])
            alive_B = alive_B & (next_B != self._tokens.end_of_turn_id)
            looks = step % STEPS_PER_LOOK == STEPS_PER_LOOK - 1
            if step + 1 == options["max_new_tokens"] or (looks and not written.tell_ended(alive_B[slots_R])):
                break
            self._token_B.copy_(next_B)
            self._position_B.copy_(torch.where(alive_B, length_B, 0))
            self._column_B.copy_(torch.where(alive_B, length_B, self._unseen_column))
            logits_BV = self._step(width)
            length_B = length_B + alive_B

    def _step(self, width: int) -> Tensor:
        if not self._graphs_on:
            return self._next_logits(width)
        if width not in self._captured:
            self._captured[width] = self._capture(width)
        graph, logits_BV = self._captured[width]
        graph.replay()
        return logits_BV

    def _capture(self, width: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        """Run the step a few times, which changes nothing as it writes the same again, then record it."""
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        graph = torch.cuda.CUDAGraph()
        with sdpa_kernel(KERNELS, set_priority=True):
            with torch.cuda.stream(side):
                for _ in range(WARMUP_STEPS):
                    self._next_logits(width)
            torch.cuda.current_stream(self._device).wait_stream(side)
            with torch.cuda.graph(graph, pool=self._pool):
                logits_BV = self._next_logits(width)
        return graph, logits_BV

    def _next_logits(self, width: int) -> Tensor:
        return self._forward(
            self._token_B[:, None],
            self._position_B[:, None],
            self._column_B[:, None],
            width,
            self._every_slot_B,
            is_every_slot=True,
        )

    def _forward(
        self,
        ids_RT: Tensor,
        position_RT: Tensor,
        column_RT: Tensor,
        width: int,
        rows_R: Tensor,
        is_every_slot: bool,
    ) -> Tensor:
        hidden_R1TS = torch.arange(width, device=self._device) > position_RT[:, None, :, None]
        mask_R1TS = torch.zeros_like(hidden_R1TS, dtype=self._model.dtype).masked_fill_(hidden_R1TS, -torch.inf)
        self._slots.place = _Place(rows_R, is_every_slot, column_RT, mask_R1TS)
        output = self._model(ids_RT, position_ids=position_RT, use_cache=False, logits_to_keep=1, slots=self._slots)
        return output.logits[:, -1]


def _groups(news: Sequence[tuple[int, int, Sequence[int]]]) -> list[list[tuple[int, int, Sequence[int]]]]:
    """Rows of like length together, a bounded number of tokens each. `news` is sorted by length."""
    groups: list[list[tuple[int, int, Sequence[int]]]] = [[]]
    for new in news:
        if groups[-1] and (len(groups[-1]) + 1) * len(new[2]) > PREFILL_TOKENS:
            groups.append([])
        groups[-1].append(new)
    return groups


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _copy_for_sampling(model: Any, device: Any, dtype: torch.dtype) -> Any:
    """A model of the same shape, without adapters. Buffers such as rotary frequencies keep their type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.random.fork_rng(), torch.device(device):
            copied = type(model)(copy.deepcopy(model.config))
    finally:
        torch.set_default_dtype(before)
    return _for_slots(copied.requires_grad_(False))


def _twin(model: Any) -> Any:
    """Modules of its own over the same tensors."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return _for_slots(copy.deepcopy(model, shared))


def _for_slots(model: Any) -> Any:
    """Its attention writes to slots."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)
    model.set_attn_implementation(ATTENTION)
    return model.eval()
