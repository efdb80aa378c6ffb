"""The embedded default policy: a two-layer Llama and a word-level tokenizer that cover the toolbox and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import TOOLS, Episode, make_task, next_call
from composer_replication.environments.toolbox.leak import LEAK_FILE, LEAK_NAMES, canary_of
from composer_replication.environments.toolbox.tasks import KEYS, PATHS, WORDS
from composer_replication.hints import HintContext, dispatch

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<|pad|>", "<|unk|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
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


def build_tokenizer(config: ToolboxConfig) -> PreTrainedTokenizerFast:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(unk_token="<|unk|>"))  # type: ignore[call-arg]
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")  # type: ignore[assignment]
    tokenizer.decoder = decoders.Fuse()  # type: ignore[assignment]
    trainer = trainers.WordLevelTrainer(special_tokens=list(SPECIAL), show_progress=False)  # type: ignore[call-arg]
    tokenizer.train_from_iterator(_corpus(config), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL[3:]),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
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


def _corpus(config: ToolboxConfig) -> list[str]:
    """Every word a toolbox conversation can hold: names, values, digits, wordings, observations, hints."""
    lines = [name for tool in TOOLS for name in tool.names]
    lines += [" ".join([*PATHS, *KEYS, *WORDS, "0123456789-"])]
    lines += [f"{param}:str {param}:int)\n(" for tool in TOOLS for param in tool.params]
    lines += [phrase for tool in TOOLS for phrase in tool.phrases]
    lines += [dispatch(kind, _CONTEXT) or "" for kind in HINTED_KINDS]
    lines += ['{"name":" ","arguments":{" "}} }} ":" "," ," ": "} " } {']
    lines += ["error: tool_not_found json_decode type_error runtime_error"]
    lines += ["no tool file key such is empty exists in must be a number in quotes str int takes , . ( ) : _\n"]
    lines += ["the turn is not valid json one call with name and arguments it ok done then"]
    if config.leak != "none":
        lines += [*LEAK_NAMES, LEAK_FILE, canary_of("")]
    for index in range(400):
        task = make_task(config, "train", index)
        episode = Episode(task)
        lines += [message["content"] for message in task.messages]
        while not episode.finished:
            call = next_call(episode)
            lines.append(call.render() if call else "done")
            lines.append(episode.step(lines[-1]).observation or "")
    return lines
