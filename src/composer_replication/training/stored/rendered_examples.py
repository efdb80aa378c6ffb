"""States of ingested traces as examples: rendered once by the policy's chat template, one example per state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from composer_replication.records import ErrorSite, Hint, PreferencePair, Trace

from ..models.loading import Policy
from .contexts import Contexts
from .examples import PairTokens, SiteTokens, TraceExample, label_smoothing


def render_examples(
    policy: Policy,
    traces: Iterable[Trace],
    sites: Mapping[str, ErrorSite],
    hints: Iterable[Hint],
    pairs: Iterable[PreferencePair],
    max_tokens: int,
) -> tuple[list[TraceExample], Counter[str]]:
    """Hints and pairs of `traces`, less those that do not fit or that the template or the vocabulary cannot say."""
    contexts, skipped = Contexts(policy, [], max_tokens), Counter[str]()
    hints_at: dict[tuple[str, int], list[Hint]] = defaultdict(list)
    for hint in hints:
        site = sites[hint.site_id]
        hints_at[site.trace_id, site.turn].append(hint)
    pairs_at: dict[tuple[str, int], list[PreferencePair]] = defaultdict(list)
    for pair in pairs:
        pairs_at[pair.trace_id, pair.turn].append(pair)
    examples: list[TraceExample] = []
    for trace in traces:
        for turn in range(len(trace.turns)):
            at = trace.trace_id, turn
            if at in hints_at or at in pairs_at:
                examples += _example(policy, contexts, trace, turn, hints_at[at], pairs_at[at], max_tokens, skipped)
    return examples, skipped


def _example(
    policy: Policy,
    contexts: Contexts,
    trace: Trace,
    turn: int,
    hints: list[Hint],
    pairs: list[PreferencePair],
    max_tokens: int,
    skipped: Counter[str],
) -> list[TraceExample]:
    context = contexts.before(trace.state_id(turn), trace.state(turn)["messages"], trace.tools)
    own = _turn_ids(contexts, trace.messages[trace.turns[turn].start])
    if context is None or own is None:
        return _skip(skipped, "too_long_or_refused_by_the_template", hints, pairs)
    if policy.tokenizer.unk_token_id in {*context, *own} - {None}:
        return _skip(skipped, "unknown_tokens", hints, pairs)
    sites: list[SiteTokens] = []
    for hint in hints[:1]:
        site = SiteTokens(len(context), len(context) + len(own), policy.tokens.splice_hint(context, hint.text))
        if len(site.teacher_context) + len(own) > max_tokens:
            skipped["site_too_long"] += 1
        else:
            sites.append(site)
    skipped["second_site_of_its_turn"] += len(hints[1:])
    kept: list[PairTokens] = []
    for pair in pairs:
        chosen = own if pair.chosen_from == "actor" else _turn_ids(contexts, pair.chosen)
        rejected = own if pair.rejected_from == "actor" else _turn_ids(contexts, pair.rejected)
        if chosen is None or rejected is None or len(context) + max(len(chosen), len(rejected)) > max_tokens:
            skipped["pair_too_long"] += 1
        else:
            kept.append(PairTokens(context, chosen, rejected, label_smoothing=label_smoothing(pair)))
    if not sites and not kept:
        return []
    return [TraceExample(context + own, [0] * len(context) + [1] * len(own), trace.outcome or 0.0, sites, kept)]


def _turn_ids(contexts: Contexts, message: Any) -> list[int] | None:
    """None where the turn holds a call whose arguments are not JSON: no template writes it."""
    try:
        return contexts.turn(message)
    except ValueError:
        return None


def _skip(skipped: Counter[str], reason: str, hints: list[Hint], pairs: list[PreferencePair]) -> list[TraceExample]:
    skipped[f"site_{reason}"] += len(hints)
    skipped[f"pair_{reason}"] += len(pairs)
    return []
