"""Log-probabilities of stored pairs under the policy before training, computed once per policy.

Reads pairs as token rows; with `cache`, reads and writes one JSON file that says under which fingerprint of weights,
tokeniser, chat template and precision its numbers hold. Under another fingerprint they are computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_replication.errors import RecomposeError
from composer_replication.losses import sequence_logprobs
from composer_replication.runs import write_atomically

from ..models.loading import Policy
from ..models.states import evaluating, padded
from ..processes import by_main
from .collator import ComposerDataCollator
from .example_file import StoredExamples
from .examples import PairTokens, TraceExample

CACHE_VERSION = 1
TOKENS_PER_BATCH = 8192
LONG_PROMPT = 1024
"""Tokens from which on a prompt is read once for all answers at its state; below, one more pass costs more."""

Logprobs = dict[str, tuple[float, float]]
"""By `pair_key`: of the chosen and of the rejected action."""


@dataclass(frozen=True)
class _Row:
    prompt: Sequence[int]
    answer: Sequence[int]

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.answer)


def with_reference_logprobs(
    policy: Policy,
    examples: Sequence[TraceExample],
    collator: ComposerDataCollator,
    cache: Path | None = None,
    *,
    batch_tokens: int = TOKENS_PER_BATCH,
) -> Sequence[TraceExample]:
    """The examples with each pair's log-probabilities under the policy as it is now.

    They hold for the precision of the caller's autocast; call it under the one that training uses. Of several
    processes, which must all call it, the main one computes them.
    """
    pairs = {pair_key(pair): pair for example in examples for pair in example.pairs}
    known: Logprobs = {}
    if pairs:
        known = by_main(lambda: _known_logprobs(policy, pairs, collator.pad_id, cache, batch_tokens))

    def referenced(example: TraceExample) -> TraceExample:
        return replace(example, pairs=[_with_reference(pair, known[pair_key(pair)]) for pair in example.pairs])

    return examples.changed(referenced) if isinstance(examples, StoredExamples) else [*map(referenced, examples)]


def pair_key(pair: PairTokens) -> str:
    """Changes with any token of the pair."""
    ids = json.dumps([pair.prompt, pair.chosen, pair.rejected])
    return hashlib.sha256(ids.encode()).hexdigest()


def policy_fingerprint(policy: Policy) -> str:
    """Hash of all weights and buffers by name, the tokeniser with its template, and the precision of a forward."""
    device = policy.model.device.type
    precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else "as stored"
    tensors: dict[str, Tensor] = {**dict(policy.model.named_parameters()), **dict(policy.model.named_buffers())}
    names = sorted(tensors)
    # Hashing gives up the interpreter's lock, so threads help.
    with ThreadPoolExecutor() as pool:
        contents = pool.map(_tensor_hash, [tensors[name] for name in names])
        lines = [f"{name} {content}" for name, content in zip(names, contents, strict=True)]
    return hashlib.sha256("\n".join([policy.tokenizer_fingerprint, str(precision), *lines]).encode()).hexdigest()


def _tensor_hash(tensor: Tensor) -> str:
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return f"{tensor.dtype} {list(tensor.shape)} {hashlib.sha256(content).hexdigest()}"


def _with_reference(pair: PairTokens, logprobs: tuple[float, float]) -> PairTokens:
    return replace(pair, reference_chosen=logprobs[0], reference_rejected=logprobs[1])


def _known_logprobs(
    policy: Policy, pairs: Mapping[str, PairTokens], pad_id: int, cache: Path | None, batch_tokens: int
) -> Logprobs:
    if cache is None:
        return _compute(policy.model, pairs, pad_id, batch_tokens)
    fingerprint = policy_fingerprint(policy)
    known = _read(cache, fingerprint)
    missing = {key: pair for key, pair in pairs.items() if key not in known}
    if missing:
        known |= _compute(policy.model, missing, pad_id, batch_tokens)
        content = {"version": CACHE_VERSION, "fingerprint": fingerprint, "logprobs": known}
        write_atomically(cache, json.dumps(content) + "\n")
    return known


def _read(cache: Path, fingerprint: str) -> Logprobs:
    """What the file holds for this policy; a missing, damaged or foreign file holds nothing."""
    try:
        content = json.loads(cache.read_text(encoding="utf-8"))
        if (content["version"], content["fingerprint"]) != (CACHE_VERSION, fingerprint):
            return {}
        return {key: (float(chosen), float(rejected)) for key, (chosen, rejected) in content["logprobs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _compute(model: Any, pairs: Mapping[str, PairTokens], pad_id: int, batch_tokens: int) -> Logprobs:
    short = {key: pair for key, pair in pairs.items() if len(pair.prompt) < LONG_PROMPT}
    states: dict[tuple[int, ...], dict[str, PairTokens]] = defaultdict(dict)
    for key, pair in pairs.items():
        if key not in short:
            states[tuple(pair.prompt)][key] = pair
    found: Logprobs = {}
    with evaluating(model):
        rows = [_Row(pair.prompt, answer) for pair in short.values() for answer in (pair.chosen, pair.rejected)]
        found |= _by_pair(short, _row_logprobs(model, rows, pad_id, batch_tokens))
        for prompt, own in states.items():
            answers = [answer for pair in own.values() for answer in (pair.chosen, pair.rejected)]
            found |= _by_pair(own, _answer_logprobs(model, prompt, answers, pad_id))
    for key, sides in found.items():
        if not all(map(math.isfinite, sides)):
            raise RecomposeError(f"the policy gives pair {key[:16]} the log-probabilities {sides}", "check its weights")
    return found


def _by_pair(pairs: Mapping[str, PairTokens], logprobs: Sequence[float]) -> Logprobs:
    return dict(zip(pairs, zip(logprobs[::2], logprobs[1::2], strict=True), strict=True))


@torch.no_grad()
def _answer_logprobs(model: Any, prompt: Sequence[int], answers: Sequence[Sequence[int]], pad_id: int) -> list[float]:
    """Of all answers at one state: the prompt is read once, and its cache serves every answer."""
    ids = torch.tensor([prompt], device=model.device)
    cache = model(input_ids=ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values
    cache.batch_repeat_interleave(len(answers))
    # The last token of the prompt predicts the first of each answer.
    rows_BT = padded([[prompt[-1], *answer] for answer in answers], pad_id).to(model.device)
    own_BT = padded([[0] + [1] * len(answer) for answer in answers], 0).to(model.device)
    # Padding is on the right, so causal attention alone keeps it out.
    logits = model(input_ids=rows_BT, past_key_values=cache, use_cache=True).logits
    return sequence_logprobs(logits, rows_BT, own_BT).tolist()


@torch.no_grad()
def _row_logprobs(model: Any, rows: Sequence[_Row], pad_id: int, batch_tokens: int) -> list[float]:
    logprobs = [0.0] * len(rows)
    for numbers in _batches(rows, batch_tokens):
        batch = [rows[number] for number in numbers]
        ids = padded([[*row.prompt, *row.answer] for row in batch], pad_id).to(model.device)
        attention = padded([[1] * row.length for row in batch], 0).to(model.device)
        own = padded([[0] * len(row.prompt) + [1] * len(row.answer) for row in batch], 0).to(model.device)
        # The position before an answer predicts its first token; nothing earlier needs logits.
        first = max(0, min(len(row.prompt) for row in batch) - 1)
        kept = ids.shape[1] - first
        logits = model(input_ids=ids, attention_mask=attention, use_cache=False, logits_to_keep=kept).logits
        found = sequence_logprobs(logits, ids[:, first:], own[:, first:]).tolist()
        for number, logprob in zip(numbers, found, strict=True):
            logprobs[number] = logprob
    return logprobs


def _batches(rows: Sequence[_Row], batch_tokens: int) -> Iterator[list[int]]:
    """Row numbers by length of prompt, so that little is padded and few positions need logits."""
    batch: list[int] = []
    width = 0
    for number in sorted(range(len(rows)), key=lambda number: (len(rows[number].prompt), rows[number].length)):
        wider = max(width, rows[number].length)
        if batch and wider * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, wider = [], rows[number].length
        batch.append(number)
        width = wider
    if batch:
        yield batch
