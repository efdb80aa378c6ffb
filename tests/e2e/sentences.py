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
