"""Hidden states and output head of a policy, whatever wraps it: LoRA, DDP or FSDP2."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial
from transformers import masking_utils

from composer_replication.errors import UsageError
from composer_replication.losses import hidden_logprobs

from .loading import Policy


class Head(NamedTuple):
    weight_VH: Tensor
    bias_V: Tensor | None
    scale: float
    """What the model multiplies its logits with."""

    def logprobs(self, hidden_NH: Tensor, labels_N: Tensor, temperature: float = 1.0) -> Tensor:
        """Of the tokens that the states predict."""
        temperature = temperature / self.scale
        return hidden_logprobs(hidden_NH, self.weight_VH, labels_N, temperature=temperature, bias_V=self.bias_V)


def language_model(model: Any) -> Any:
    """The transformers model, also inside a LoRA wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def last_hidden(model: Any, input_ids_BT: Tensor, attention_mask_BT: Tensor | None = None) -> Tensor:
    """Without any row the network runs over one token all the same: processes with rows wait for it to do so."""
    backbone = language_model(model).base_model
    if not len(input_ids_BT):
        filler_11 = input_ids_BT.new_zeros(1, 1)
        hidden_11H = backbone(input_ids=filler_11, attention_mask=filler_11 + 1, use_cache=False).last_hidden_state
        return hidden_11H[:0].repeat(1, input_ids_BT.shape[1], 1)
    return backbone(input_ids=input_ids_BT, attention_mask=attention_mask_BT, use_cache=False).last_hidden_state


@contextmanager
def one_sequence_per_row() -> Generator[None]:
    """Spares transformers the question, in passes without a mask, whether rows hold several sequences.

    It asks the device and waits for the answer, until all that was queued before is done.
    """
    own = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = own


@contextmanager
def evaluating(model: Any) -> Generator[Any]:
    """In evaluation mode inside, and afterwards as it was."""
    was_training = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(was_training)


def acts_differently_in_training(model: Any) -> bool:
    """Dropout, or checkpoints of activations. To switch a deep model to evaluation and back takes milliseconds."""
    network = language_model(model)
    rates = [value for name, value in network.config.get_text_config().to_dict().items() if "drop" in name]
    return bool(network.is_gradient_checkpointing or network is not model or any(rates))


def without_dropout(model: Any) -> AbstractContextManager[Any]:
    """And without the recomputation that only a backward pass needs."""
    return evaluating(model) if acts_differently_in_training(model) else nullcontext()


def output_head(model: Any) -> Head:
    network = language_model(model)
    config = network.config.get_text_config()
    if getattr(config, "final_logit_softcapping", None):
        raise UsageError("the model caps its logits, which the channels do not compute", "train another model")
    layer = network.get_output_embeddings()
    scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1.0)
    bias = layer.bias if getattr(layer, "bias", None) is not None else None
    return Head(_whole(layer.weight), None if bias is None else _whole(bias), float(scale))


def _whole(parameter: Tensor) -> Tensor:
    """A shard of FSDP2, read outside the forward pass, must have its gradient averaged explicitly."""
    if isinstance(parameter, DTensor):
        return parameter.full_tensor(grad_placements=[Partial("avg")] * parameter.device_mesh.ndim)
    return parameter


def padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Rows of ids or marks as one tensor, filled up on the right; also of no row."""
    width = max(map(len, rows), default=0)
    filled = [[*row, *[fill] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).reshape(len(rows), width)


def sent(values: Tensor, device: Any) -> Tensor:
    """The host does not wait for a copy from the CPU: a plain one begins when all that was queued before is done."""
    if torch.device(device).type != "cuda" or values.device.type != "cpu":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


@torch.no_grad()
def turn_logprob(policy: Policy, context: Sequence[int], turn: Sequence[int]) -> float:
    """Sum of the log-probabilities of the turn's tokens, at temperature 1. Logits exist for these tokens alone."""
    ids_1T = torch.tensor([[*context, *turn]], device=policy.model.device)
    hidden_NH = last_hidden(policy.model, ids_1T)[0, len(context) - 1 : -1]
    return float(output_head(policy.model).logprobs(hidden_NH, ids_1T[0, len(context) :]).sum())
