"""A byte-level tokenizer of our own for each stored chat template, with the template's own marks as single tokens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.jinja")))
_MARKS = re.compile(
    r"<\|[\w▁]+\|>|<\|\w+>|<\w+\|>|<｜[^｜]+｜>|\[/?[A-Z_]{3,}\]|<(?:start|end)_of_turn>|</?(?:think|tool_call|tool_response)>"
)
_ENDS = {
    "llama": ("<|begin_of_text|>", "<|eot_id|>"),
    "gemma": ("<bos>", "<eos>"),
    "mistral": ("<s>", "</s>"),
    "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "phi": ("<s>", "<|endoftext|>"),
    "cohere": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "glm": (None, "<|endoftext|>"),
    "gpt-oss": ("<|startoftext|>", "<|return|>"),
}


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def template_tokenizer(name: str) -> Any:
    source = source_of(name)
    begin, end = next((ends for family, ends in _ENDS.items() if name.startswith(family)), (None, "<|im_end|>"))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(sorted({"<|pad|>", end, *([begin] if begin else []), *_MARKS.findall(source)}))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=begin,
        eos_token=end,
        pad_token="<|pad|>",
        chat_template=source,
        clean_up_tokenization_spaces=False,
        name_or_path=name,
    )
