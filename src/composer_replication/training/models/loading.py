"""Policies by name: the tiny built-in one, one that was fetched, or any local or hub causal language model."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.environments.protocol import Environment
from composer_replication.errors import UsageError
from composer_replication.records import canonical_json

from .. import processes
from .chat_template import TemplateRefusal
from .embedded import place_of
from .presence import REMEDY, refuse_missing_model, refuse_unreachable_hub
from .tokens import ChatTokens

TemplateSettings = Mapping[str, Any]
LENT_SHARE = 0.75
"""Of a GPU's free memory for whole weights; the rest is for the pass through them."""


@dataclass
class Policy:
    """The model in training with its tokenizer."""

    name: str
    """What it was loaded by; traces carry it as `source_model`."""
    model: Any
    """A causal language model of `transformers`."""
    tokens: ChatTokens
    """Its tokenizer and chat template."""

    @property
    def tokenizer(self) -> Any:
        """That of `transformers`, for TRL's `processing_class`."""
        return self.tokens.tokenizer

    @property
    def tokenizer_fingerprint(self) -> str:
        """Changes when ids, the chat template or its settings would."""
        state = self.tokenizer.backend_tokenizer.to_str() + str(self.tokenizer.chat_template)
        if settings := self.tokens.template.settings:
            state += canonical_json(settings)
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def save(self, folder: Path, weights: dict[str, Any] | None = None) -> None:
        """With `weights` in place of the model's own, which may be shards or lack what adapters learnt."""
        # A forked run may share the files of before.
        shutil.rmtree(folder, ignore_errors=True)
        self.model.save_pretrained(folder, state_dict=weights)
        self.tokenizer.save_pretrained(folder)


def load_policy(
    name: str,
    environment: Environment | None,
    seed: int,
    weights: str = "float32",
    chat_template_kwargs: TemplateSettings | None = None,
) -> Policy:
    """The starting policy of a run.

    Args:
        name: `tiny`, a model that `recompose model fetch` has fetched, a folder, or a hub id.
        environment: The tiny model is built for its words; others do not need it.
        seed: Of the tiny model's random weights.
        weights: The dtype that they are kept in.
        chat_template_kwargs: Settings of the chat template, such as `enable_thinking`.
    """
    if name == "tiny":
        import torch

        from .tiny import build_model

        tokenizer = tiny_tokenizer(environment)
        model = build_model(tokenizer, seed).to(getattr(torch, weights))
        return Policy(name, _place(model), ChatTokens(tokenizer, None, chat_template_kwargs))
    refuse_missing_model(name)
    refuse_unreachable_hub(name)
    return load_saved_policy(place_of(name), name, weights, chat_template_kwargs)


def tiny_tokenizer(environment: Environment | None) -> Any:
    from .tiny import build_tokenizer

    words = environment.vocabulary() if environment else None
    if words is None:
        where = environment.name if environment else "code tasks"
        raise UsageError(f"the tiny model has no words for {where}", "choose a model: smollm2, a folder or a hub id")
    return build_tokenizer(words)


def load_saved_policy(
    where: str | Path, name: str, weights: str = "float32", chat_template_kwargs: TemplateSettings | None = None
) -> Policy:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if str(where).startswith(("/", ".", "~")) and not Path(where).is_dir():
        raise UsageError(f"there is no model folder {where}", "recompose model fetch smollm2, or give another folder")
    # Straight to where they are wanted: on the way through the CPU they would be there twice.
    placed = {"device_map": {"": "cuda"}} if first_device() == "cuda" else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        # A template that cannot be used is told before the weights are read.
        tokens = ChatTokens(tokenizer, None, chat_template_kwargs)
        model = AutoModelForCausalLM.from_pretrained(
            where, dtype=weights, attn_implementation="sdpa", use_safetensors=True, **placed
        )
    except TemplateRefusal:
        raise
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"cannot load model {where}: {reason}", REMEDY) from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(name, _place(model), tokens)


def device_type() -> str:
    """Of the device that this process trains and samples on."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def first_device() -> str:
    """Where weights are read to. Those to be shared wait on the CPU, as no GPU need hold them all: accelerate hands
    out the shards."""
    return "cpu" if processes.is_sharded() else device_type()


@contextmanager
def at_work(model: Any) -> Generator[str]:
    """The kind of device that the model works on meanwhile: of the weights that wait on the CPU to be shared, the main
    process puts those that fit its GPU there, and takes them back."""
    from ..machine import free_bytes

    weight_bytes = sum(parameter.nbytes for parameter in model.parameters())
    fits = weight_bytes <= free_bytes() * LENT_SHARE
    if not (processes.is_sharded() and processes.is_main() and device_type() == "cuda" and fits):
        yield model.device.type
        return
    model.to("cuda")
    try:
        yield "cuda"
    finally:
        model.to("cpu")


def _place(model: Any) -> Any:
    import torch

    if device_type() == "cpu":
        return model.eval()
    # cuDNN plans its attention anew for every shape, and rollouts hardly ever repeat one.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return (model.to("cuda") if first_device() == "cuda" else model).eval()
