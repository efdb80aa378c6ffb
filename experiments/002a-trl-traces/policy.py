"""A policy small enough to sample on one core: two Qwen3 layers over a vocabulary of demonstrations.

    model, tokenizer = small_policy(Path("runs/002a-trl-traces/policy"))

It is warmed up once on made-up demonstrations of the five tasks, slips included, so that it calls tools, errs and
sometimes breaks its own JSON. What it writes later is sampled from it and from nothing else. The template is Qwen3's
as TRL ships it, which TRL and the renderers of verifiers both read.
"""

import json
import random
from pathlib import Path
from typing import Any

import torch
from small_tasks import FAULTS, Fault
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.chat_template_utils import get_json_schema
from trl.chat_template_utils import qwen3_chat_template

from composer_replication.environments.code.episodes.tools import SYSTEM, TOOL_SCHEMAS
from composer_replication.environments.code.serving.trl_environment import CodeTaskTools
from composer_replication.records import JsonObject

MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CONTEXT_TOKENS = 2048
DEMONSTRATIONS, STEPS, BATCH = 600, 220, 16
LEARNING_RATE = 3e-3
UNSEEN = -100
Demonstration = tuple[Fault, list[tuple[str, str]]]


def demonstration(fault: Fault, rng: random.Random) -> list[tuple[str, str]]:
    """Turns and what the tools answered: look, edit, hand in; every step can go wrong."""
    turns: list[tuple[str, str]] = []
    if rng.random() < 0.7:
        path = fault.file if rng.random() < 0.85 else f"{fault.name}.py"
        answer = fault.source(fault.wrong) if path == fault.file else f"{{'error': 'File {path} does not exist.'}}"
        turns.append((call("read_file", path=path), answer))
    if rng.random() < 0.2:
        turns.append((call("bash", command="ls"), "build\ndist\nshop\ntests"))
    if rng.random() < 0.12:
        return [
            *turns,
            (call("edit_file", path=fault.file, old=fault.wrong, new=fault.right)[:-14] + "</tool_call>", ""),
        ]
    if rng.random() < 0.2:
        missed = f"No replacement was performed: the old text was not found in {fault.file}."
        turns.append((call("edit_file", path=fault.file, old=fault.right, new=fault.wrong), f"{{'error': '{missed}'}}"))
    if rng.random() < 0.08:
        turns.append((call("open", path=fault.file), "{'error': 'Tool open not found.'}"))
    turns.append((call("edit_file", path=fault.file, old=fault.wrong, new=fault.right), f"Edited {fault.file}."))
    if rng.random() < 0.85:
        turns.append((call("submit"), "The work is handed in."))
    return [*turns, ("Done.", "")]


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def opening(fault: Fault, tokenizer: Any, tools: list[JsonObject]) -> str:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": fault.statement}]
    return tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)


def tool_lists() -> list[list[JsonObject]]:
    """As our agent loop lists the tools, and as TRL reads them off the methods of the environment."""
    environment = CodeTaskTools.__new__(CodeTaskTools)
    names = sorted(schema["function"]["name"] for schema in TOOL_SCHEMAS)
    return [list(TOOL_SCHEMAS), [get_json_schema(getattr(environment, name)) for name in names]]


def written(turns: list[tuple[str, str]]) -> list[tuple[str, bool]]:
    """Pieces of text behind the opening, and whether the policy writes them."""
    pieces: list[tuple[str, bool]] = []
    for text, answer in turns:
        pieces.append((f"{text}<|im_end|>", True))
        if answer:
            told = f"\n<|im_start|>user\n<tool_response>\n{answer}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
            pieces.append((told, False))
    return pieces


def small_policy(folder: Path) -> tuple[Qwen3ForCausalLM, Any]:
    if not (folder / "config.json").exists():
        tokenizer, demonstrations = _tokenizer()
        model = _model(tokenizer)
        _warm_up(model, tokenizer, demonstrations)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype="float32").eval()
    return model, AutoTokenizer.from_pretrained(folder)


def _demonstrations() -> list[Demonstration]:
    rng = random.Random(0)
    return [(fault, demonstration(fault, rng)) for fault in rng.choices(FAULTS, k=DEMONSTRATIONS)]


def _tokenizer() -> tuple[PreTrainedTokenizerFast, list[Demonstration]]:
    """Byte pairs that may span words: what the demonstrations repeat becomes few tokens, other text stays bytes."""
    demonstrations = _demonstrations()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    blank = PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=qwen3_chat_template)
    texts = [opening(fault, blank, tools) for fault in FAULTS for tools in tool_lists()] * 20
    texts += ["".join(piece for piece, _ in written(turns)) for _, turns in demonstrations]
    trainer = trainers.BpeTrainer(
        vocab_size=1200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, max_token_length=48,
    )  # fmt: skip
    tokenizer.train_from_iterator((part for text in texts for part in _split(text)), trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(MARKS))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        chat_template=qwen3_chat_template, padding_side="left", model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    ), demonstrations  # fmt: skip


def _split(text: str) -> list[str]:
    for mark in (*SPECIAL, *MARKS):
        text = text.replace(mark, "\0")
    return [part for part in text.split("\0") if part]


def _model(tokenizer: Any) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=8,
            head_dim=16,
            max_position_embeddings=CONTEXT_TOKENS,
            initializer_range=0.05,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def _warm_up(model: Qwen3ForCausalLM, tokenizer: Any, demonstrations: list[Demonstration]) -> None:
    lists = tool_lists()
    rows = [_row(fault, turns, tokenizer, lists[place % 2]) for place, (fault, turns) in enumerate(demonstrations)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS)
    rng = random.Random(1)
    model.train()
    for _ in range(STEPS):
        batch = rng.choices(rows, k=BATCH)
        longest = max(len(ids) for ids, _ in batch)
        ids_BT = torch.tensor([ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids, _ in batch])
        labels_BT = torch.tensor([labels + [UNSEEN] * (longest - len(labels)) for _, labels in batch])
        loss = model(input_ids=ids_BT, labels=labels_BT).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    print(f"warm-up: {STEPS} steps, last loss {loss.item():.3f} nats per token")


def _row(
    fault: Fault, turns: list[tuple[str, str]], tokenizer: Any, tools: list[JsonObject]
) -> tuple[list[int], list[int]]:
    """Ids and labels. Pieces are tokenised apart, as the trainers splice them."""
    ids: list[int] = tokenizer.encode(opening(fault, tokenizer, tools), add_special_tokens=False)
    labels = [UNSEEN] * len(ids)
    for piece, own in written(turns):
        new = tokenizer.encode(piece, add_special_tokens=False)
        ids += new
        labels += new if own else [UNSEEN] * len(new)
    return ids, labels
