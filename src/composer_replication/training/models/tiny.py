"""The embedded default policy: a two-layer Llama and a word-level tokenizer that cover one small world."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from composer_replication.hints import HintContext, dispatch

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

UNKNOWN = "<|unk|>"
SPECIAL = ("<|pad|>", UNKNOWN, "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# JSON glue, file names and types are single tokens; digits are not merged, so any integer can be written.
PIECES = (
    r'\{"name":"|","arguments":\{"|"\}\}|\}\}|":"|","|,"|":|"\}|"|\}|\{|:str|:int|\)\n|[a-z]+\.(?:py|md|cfg|csv|txt)'
    r"|_?[A-Za-z]+|[0-9]|[^A-Za-z0-9]"
)
HINTED_KINDS = ("tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure")
_CONTEXT: HintContext = {
    "error_message": "no file app.py",
    "available_tools": ["read_file", "write_file"],
    "tool_name": "set_key",
    "tool_schema": {"properties": {"key": {"type": "string"}, "value": {"type": "integer"}}},
}


def build_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))  # type: ignore[call-arg]
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")  # type: ignore[assignment]
    tokenizer.decoder = decoders.Fuse()  # type: ignore[assignment]
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL), show_progress=False)  # type: ignore[call-arg]
    tokenizer.train_from_iterator([*texts, *(dispatch(kind, _CONTEXT) or "" for kind in HINTED_KINDS)], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        unk_token=UNKNOWN,
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL[3:]),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def warn_of_unknown_words(tokenizer: Any, where: str, texts: Iterable[str]) -> None:
    """The tiny model reads all words that it lacks as one and the same; other tokenizers know how to spell."""
    if tokenizer.unk_token != UNKNOWN:
        return
    words = dict.fromkeys(word for text in texts for word in text.split())
    if lacking := [word for word in words if tokenizer.unk_token_id in tokenizer(word)["input_ids"]]:
        warnings.warn(
            f"{len(lacking)} words in {where} are unknown to the tiny model: {', '.join(lacking[:5])}; next: put them "
            "into a text of the environment's vocabulary()",
            stacklevel=2,
        )


def build_model(tokenizer: Any, seed: int) -> LlamaForCausalLM:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.05,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)
