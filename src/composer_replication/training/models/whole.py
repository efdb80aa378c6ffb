"""A model's weights as one plain set: shards gathered and adapters merged, a tensor at a time, the model untouched."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from .. import processes
from .states import language_model


def whole_tensors(model: Any) -> Iterator[tuple[str, Tensor]]:
    """By the names that the model has without adapters. Where processes share the weights, all must read to the end.

    A merged tensor is in float32: the sum is rounded once, by whoever keeps it.
    """
    base = language_model(model)
    adapted = {name: module for name, module in base.named_modules() if is_adapted(module)}
    for name, tensor in base.state_dict(keep_vars=True).items():
        owner = next((prefix for prefix in _prefixes(name) if prefix in adapted), None)
        if owner is None:
            yield name, gathered(tensor)
        elif (rest := name.removeprefix(f"{owner}.")).startswith("base_layer."):
            whole, part = gathered(tensor), rest.removeprefix("base_layer.")
            yield f"{owner}.{part}", _merged(whole, adapted[owner]) if part == "weight" else whole


def whole_weights(model: Any) -> dict[str, Tensor] | None:
    """Of a model whose weights are shared over processes, which must all call this; None of any other model.

    As `weights_of_main` gives them.
    """
    return weights_of_main(model) if is_sharded(model) else None


def weights_of_main(model: Any) -> dict[str, Tensor]:
    """For the main process, on the CPU; nothing is kept by the others. Processes that share the weights must all call.

    Tied weights stay tied.
    """
    network = language_model(model)
    kept: dict[str, Tensor] = {}
    for name, tensor in whole_tensors(model):
        if processes.is_main():
            kept[name] = tensor.detach().to("cpu", network.dtype)
    for name, source in tied_names(network).items():
        if source in kept:
            kept[name] = kept[source]
    return kept


def save_adapters(model: Any, base_name: str, folder: Path) -> None:
    """As `PeftModel.from_pretrained` reads them. All processes must call this; the main one writes."""
    from peft import get_peft_model_state_dict  # pyright: ignore[reportMissingImports]
    from safetensors.torch import save_file

    own: dict[str, Tensor] = get_peft_model_state_dict(model)
    whole = {name: gathered(tensor).detach().cpu().contiguous() for name, tensor in own.items()}
    if not processes.is_main():
        return
    folder.mkdir(parents=True, exist_ok=True)
    settings = copy.deepcopy(model.peft_config[model.active_adapter])
    settings.base_model_name_or_path, settings.inference_mode = base_name, True
    settings.save_pretrained(folder)
    save_file(whole, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def gathered(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_sharded(model: Any) -> bool:
    """By FSDP2. Its modules are asked: after a forward pass some weights may still be gathered."""
    return any(isinstance(module, FSDPModule) for module in model.modules())


def is_adapted(module: Any) -> bool:
    return hasattr(module, "base_layer") and hasattr(module, "lora_A")


def can_be_merged(model: Any) -> bool:
    """Whether its adapters, if it has any, are plain low-rank ones over plain linear layers."""
    layers = [module for module in language_model(model).modules() if hasattr(module, "base_layer")]
    return all(is_adapted(layer) and _is_plain(layer) for layer in layers)


def tied_names(model: Any) -> dict[str, str]:
    """Names of weights that are another one's, and whose."""
    first: dict[int, str] = {}
    tied: dict[str, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        owner = first.setdefault(id(tensor), name)
        if owner != name:
            tied[name.replace(".base_layer.", ".")] = owner.replace(".base_layer.", ".")
    return tied


def _is_plain(layer: Any) -> bool:
    is_linear = isinstance(layer.base_layer, torch.nn.Linear) and layer.base_layer.weight.is_floating_point()
    variants = (getattr(layer, name, {}) for name in ("use_dora", "lora_bias", "fan_in_fan_out"))
    return is_linear and not any(any(each.values()) if isinstance(each, dict) else each for each in variants)


def _merged(weight: Tensor, layer: Any) -> Tensor:
    total = weight.float()
    for adapter in layer.active_adapters:
        down, up = gathered(layer.lora_A[adapter].weight), gathered(layer.lora_B[adapter].weight)
        total = total + layer.scaling[adapter] * (up.float() @ down.float())
    return total


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
