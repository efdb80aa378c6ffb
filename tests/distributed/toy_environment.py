"""TRL's own tool loop on a toy: a file environment, a tokenizer that TRL can parse, and turns that are given."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig
from trl.chat_template_utils import qwen3_chat_template

MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
# What every prompt says of tools, which byte by byte would be nine tenths of it.
PHRASES = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within ",
    '{"name": <function-name>, "arguments": <args-json-object>}',
    '{"type": "function", "function": ',
    '"parameters": {"type": "object", "properties": ',
    '"type": "string", "description": ',
    '"return": ',
    '"required": ',
)


def call(name: str = "read", **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


DONE = "The answer is 42."
FOUND, MISSING = call(path="a.txt"), call(path="b.txt")
MALFORMED = '<tool_call>\n{"name": "read", "arguments": {"path": \n</tool_call>'


class Files:
    """One file. To read another one fails."""

    def reset(self, **row: Any) -> None:
        self.read_files = 0

    def read(self, path: str) -> str:
        """
        Read a file.

        Args:
            path: Path of the file.

        Returns:
            The contents of the file.
        """
        if path != "a.txt":
            raise FileNotFoundError(f"no such file: {path}")
        self.read_files += 1
        return "42"

    async def fetch(self, address: str) -> str:
        """
        Fetch a page.

        Args:
            address: Address of the page.

        Returns:
            The contents of the page.
        """
        return f"page {address}"

    def get_reward(self) -> float:
        return float(self.read_files)


@cache
def qwen_like_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, and the marks and phrases of Qwen3, under its template, which TRL recognises."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([*MARKS, *PHRASES])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        chat_template=qwen3_chat_template, padding_side="left", model_max_length=4096,
    )  # fmt: skip


def new_qwen_like_model() -> Qwen3ForCausalLM:
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(qwen_like_tokenizer()), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=4096, initializer_range=0.12,
        tie_word_embeddings=False, pad_token_id=qwen_like_tokenizer().pad_token_id, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def giving(kind: type[Any], scripts: list[list[str]] | None = None) -> type[Any]:
    """`kind` with turns that are given instead of sampled: those of the prompt's script, or any turn at random."""

    class Giving(kind):
        def _generate_single_turn(self, prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
            texts = [self._text(self.processing_class.decode(ids)) for ids in prompt_ids]
            return [self.processing_class(f"{text}<|im_end|>")["input_ids"] for text in texts], None

        def _text(self, context: str) -> str:
            if scripts is None:
                # From the global generator, as sampling would.
                return (FOUND, MISSING, DONE, MALFORMED)[int(torch.randint(4, ()))]
            script = scripts[int(context.partition("row ")[2].partition(".")[0])]
            turn = context.count("<|im_start|>assistant") - 1
            return script[turn] if turn < len(script) else DONE

    Giving.__name__ = kind.__name__
    return Giving


def environment_trainer(
    kind: type[Any], folder: str, scripts: list[list[str]] | None = None, model: Any = None, **options: Any
) -> Any:
    arguments: dict[str, Any] = {
        "per_device_train_batch_size": 2 * len(scripts) if scripts else 4, "num_generations": 2, "max_steps": 1,
        **options.pop("arguments", {}),
    }  # fmt: skip
    rows = len(scripts) if scripts else 40
    prompts = [[{"role": "user", "content": f"What is in row {place}.?"}] for place in range(rows)]
    trainer = giving(kind, scripts)(
        model=model or new_qwen_like_model(),
        processing_class=qwen_like_tokenizer(),
        args=GRPOConfig(
            output_dir=folder,
            seed=5,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            beta=0.0,
            use_cpu=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            shuffle_dataset=False,
            bf16=False,
            gradient_checkpointing=False,
            max_completion_length=1024,
            **arguments,
        ),
        reward_funcs=lengths,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        environment_factory=Files,
        **options,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def lengths(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [float(len(ids) % 7) for ids in completion_ids]
