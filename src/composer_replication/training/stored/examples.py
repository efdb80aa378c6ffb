"""Stored rollouts, hints and pairs as token rows for the collator. Ids are spliced, never rendered again."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from composer_replication.environments.calls import Call
from composer_replication.records import ErrorSite, Hint, Message, PreferencePair

from ..models.tokens import ChatTokens
from .records import TokenizedTrace

# Beyond a half the preference would be turned round.
MAX_SMOOTHING = 0.5


@dataclass(frozen=True)
class SiteTokens:
    """One hinted turn: where it lies in its trace, and the same turn behind the hinted context."""

    start: int
    end: int
    teacher_context: list[int]


@dataclass(frozen=True)
class PairTokens:
    prompt: list[int]
    chosen: list[int]
    rejected: list[int]
    reference_chosen: float = 0.0
    reference_rejected: float = 0.0
    label_smoothing: float = 0.0
    """The chance that the preference is wrong, where it was measured."""


@dataclass(frozen=True)
class TraceExample:
    ids: list[int]
    response_mask: list[int]
    reward: float
    sites: list[SiteTokens] = field(default_factory=list[SiteTokens])
    pairs: list[PairTokens] = field(default_factory=list[PairTokens])
    advantage: float = 0.0
    logprobs: list[float] = field(default_factory=list[float])
    """With which the ids were sampled, where they were; empty for traces of other models."""


def build_examples(
    tokens: ChatTokens,
    tokenized: Iterable[TokenizedTrace],
    sites: Mapping[str, ErrorSite],
    hints: Iterable[Hint],
    pairs: Iterable[PreferencePair],
    max_tokens: int,
    advantages: Mapping[str, float] | None = None,
) -> tuple[list[TraceExample], Counter[str]]:
    """One example per stored trace with something to learn from. What cannot be used is counted, by reason.

    `advantages`, by trace, are for training without rollouts.
    """
    advantages = advantages or {}
    skipped: Counter[str] = Counter()
    rows = {row.trace_id: row for row in tokenized}
    hints_of: dict[str, list[tuple[int, Hint]]] = defaultdict(list)
    for hint in hints:
        site = sites[hint.site_id]
        hints_of[site.trace_id].append((site.turn, hint))
    pairs_of: dict[str, list[PreferencePair]] = defaultdict(list)
    for pair in pairs:
        pairs_of[pair.trace_id].append(pair)
    examples: list[TraceExample] = []
    for trace_id in sorted(rows.keys() & (hints_of.keys() | pairs_of.keys() | advantages.keys())):
        example = _example(tokens, rows[trace_id], hints_of[trace_id], pairs_of[trace_id], max_tokens, skipped)
        example = replace(example, advantage=advantages.get(trace_id, 0.0), logprobs=list(rows[trace_id].logprobs))
        if example.sites or example.pairs or example.advantage:
            examples.append(example)
    return examples, skipped


def _example(
    tokens: ChatTokens,
    row: TokenizedTrace,
    hints: Sequence[tuple[int, Hint]],
    pairs: Sequence[PreferencePair],
    max_tokens: int,
    skipped: Counter[str],
) -> TraceExample:
    ids = list(row.ids)
    mask = [0] * len(ids)
    for start, end in row.turn_spans:
        mask[start:end] = [1] * (end - start)
    sites: list[SiteTokens] = []
    for turn, hint in hints:
        start, end = row.turn_spans[turn]
        site = SiteTokens(start, end, tokens.splice_hint(ids[:start], hint.text))
        if max(len(site.teacher_context) + end - start, len(ids)) > max_tokens:
            skipped["site_too_long"] += 1
        else:
            sites.append(site)
    kept: list[PairTokens] = []
    for pair in pairs:
        start, end = row.turn_spans[pair.turn]
        actor = ids[start:end]
        chosen = actor if pair.chosen_from == "actor" else tokens.turn(policy_text(pair.chosen))
        rejected = actor if pair.rejected_from == "actor" else tokens.turn(policy_text(pair.rejected))
        tokenized = PairTokens(ids[:start], chosen, rejected, label_smoothing=label_smoothing(pair))
        if len(tokenized.prompt) + max(len(tokenized.chosen), len(tokenized.rejected)) > max_tokens:
            skipped["pair_too_long"] += 1
        else:
            kept.append(tokenized)
    return TraceExample(ids, mask, row.reward, sites, kept)


def label_smoothing(pair: PreferencePair) -> float:
    return 0.0 if pair.precision is None else min(MAX_SMOOTHING, 1 - pair.precision)


def policy_text(message: Message) -> str:
    """What the policy would write for a message: its call as compact JSON, or its text."""
    for call in message.get("tool_calls", []):
        arguments: dict[str, Any] = json.loads(call["function"]["arguments"])
        return Call(call["function"]["name"], arguments).render()
    return message["content"]
