"""The size of a model without its weights, from its config alone. Large models of the recipes are known by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# As in the config.json of these hub ids. Only what decides their size.
_QWEN3_8B = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
}
KNOWN_CONFIGS: dict[str, dict[str, Any]] = {
    "smollm2": {
        "model_type": "llama",
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    # The GGUF has an output head of its own, where the released model shares it with the embeddings.
    "qwen2.5-coder-1.5b": {
        "model_type": "qwen2",
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": False,
    },
    "Qwen/Qwen3-8B": _QWEN3_8B,
    "Qwen/Qwen3-32B": {
        **_QWEN3_8B,
        "hidden_size": 5120,
        "intermediate_size": 25_600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
    },
}


@dataclass(frozen=True)
class ModelShape:
    parameters: int
    linear_parameters: int
    """Those of linear layers, the output head included."""
    adapter_parameters_per_rank: int
    """What LoRA adds for each rank on all linear layers but the head."""
    layers: int
    hidden: int
    intermediate: int
    attention: int
    """Heads times their width."""
    key_value: int
    vocabulary: int
    max_positions: int
    normalises_queries: bool

    @property
    def head_parameters(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def hidden_matrices(self) -> int:
        """Parameters that Muon takes."""
        return self.linear_parameters - self.head_parameters


def shape_of(config: Any) -> ModelShape:
    """Of a transformers config: the model is built without memory, so the number of parameters is exact."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    head = model.get_output_embeddings()
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ModelShape(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        linear_parameters=sum(layer.weight.numel() for layer in linear),
        adapter_parameters_per_rank=sum(
            layer.in_features + layer.out_features for layer in linear if layer is not head
        ),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=text.intermediate_size,
        attention=text.num_attention_heads * width,
        key_value=(getattr(text, "num_key_value_heads", None) or text.num_attention_heads) * width,
        vocabulary=text.vocab_size,
        max_positions=text.max_position_embeddings,
        normalises_queries=any(name.endswith("q_norm") for name, _ in model.named_modules()),
    )


def find_config(where: str | Path, name: str | None = None) -> Any | None:
    """The config of a model that lies at `where`, or is known by name. Nothing is downloaded."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(where, local_files_only=True)
    except (OSError, ValueError):
        known = KNOWN_CONFIGS.get(name or str(where))
        return AutoConfig.for_model(**known) if known else None
