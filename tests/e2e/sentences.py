"""What tests of the whole sentence share: a model without a download, and the verbs of a person with a config file."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from composer_replication.cli.evaluate import evaluate
from composer_replication.cli.monitor import monitor
from composer_replication.cli.train import train
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.training.models.tiny import CHAT_TEMPLATE, SPECIAL

CONFIG = """
[model]
name = "{model}"
[environment]
completion_tokens = 2048
concurrency = 2
{environment}
[warmup]
steps = 0
[ingestion]
rollouts = 2
[training]
steps = 2
prompts_per_step = 1
group_size = 2
max_turn_tokens = {turn_tokens}
[[channels]]
name = "grpo"
[[channels]]
name = "sdpo"
source = "rollouts"
[monitor]
enabled = true
[evaluation]
tasks = 2
samples = {samples}
"""


def config_file(folder, environment, turn_tokens, samples):
    """One step's worth of everything, for a random model in `folder / "model"`."""
    path = folder / "config.toml"
    model = random_model(folder / "model")
    path.write_text(CONFIG.format(model=model, environment=environment, turn_tokens=turn_tokens, samples=samples))
    return path


def random_model(folder):
    """Bytes in, bytes out, random weights; in `folder`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({name: place for place, name in enumerate([*SPECIAL, *alphabet])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[0],
        unk_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        additional_special_tokens=list(SPECIAL[3:]),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
    )
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"pad_token_id": wrapped.pad_token_id, "eos_token_id": wrapped.eos_token_id, "bos_token_id": None}
    LlamaForCausalLM(
        LlamaConfig(vocab_size=len(wrapped), max_position_embeddings=8192, **shape, **ends)
    ).save_pretrained(folder)
    return folder


def sentence(path, run):
    """Train, measure, collect rollouts and look at them."""
    train(run, config=path)
    evaluate(run)
    opened = Run.open(run)
    run_stage(opened, "ingestion", Silent())
    monitor(run)
    return opened
