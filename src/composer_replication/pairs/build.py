"""Preference pairs from teacher replies: what the teachers agree on, over what the actor did."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from composer_replication.records import (
    Message,
    PreferencePair,
    TeacherReply,
    Trace,
    canonical_json,
    canonical_tool_call,
    content_id,
)

from .vote import vote


class PairSet(NamedTuple):
    pairs: list[PreferencePair]
    verdicts: Counter[str]
    """How many states ended in which way: paired, agrees_with_actor, no_majority, too_few_votes."""


def extract_dpo_pairs(
    traces: Iterable[Trace], replies: Sequence[TeacherReply], policy_model: str | None = None
) -> PairSet:
    """One pair per state where the agreed action differs from the actor's. Replies to other traces are ignored."""
    by_state: dict[tuple[str, int], list[TeacherReply]] = defaultdict(list)
    for reply in replies:
        by_state[reply.trace_id, reply.turn].append(reply)
    known = {trace.trace_id: trace for trace in traces}
    pairs: list[PreferencePair] = []
    verdicts: Counter[str] = Counter()
    for (trace_id, turn), answers in by_state.items():
        if trace_id not in known:
            continue
        pair, reason = _pair_at(known[trace_id], turn, answers, policy_model)
        verdicts[reason] += 1
        if pair:
            pairs.append(pair)
    return PairSet(pairs, verdicts)


def _pair_at(
    trace: Trace, turn: int, replies: Sequence[TeacherReply], policy_model: str | None
) -> tuple[PreferencePair | None, str]:
    # A teacher of the actor's own family would vote for its own habits.
    own_family = trace.turns[turn].family
    replies = [reply for reply in replies if own_family is None or reply.family != own_family]
    verdict = vote(replies)
    if verdict.action is None or verdict.agreement is None:
        return None, verdict.reason
    rejected = trace.messages[trace.turns[turn].start]
    if [canonical_tool_call(call) for call in rejected.get("tool_calls", [])] == [verdict.action]:
        return None, "agrees_with_actor"
    voters = [
        reply for reply in replies if reply.family in verdict.agreement.families and reply.action == verdict.action
    ]
    pair = PreferencePair(
        pair_id=content_id(trace.trace_id, turn, verdict.action),
        state_id=trace.state_id(turn),
        trace_id=trace.trace_id,
        turn=turn,
        prompt=tuple(trace.history(turn)),
        chosen=call_message(verdict.action),
        rejected=rejected,
        tools=trace.tools,
        agreement=verdict.agreement,
        off_policy=policy_model is None or trace.turns[turn].source_model != policy_model,
        provenance=tuple(sorted(reply.key for reply in voters)),
        simulated=any(reply.simulated for reply in voters),
    )
    return pair, "paired"


def call_message(action: str) -> Message:
    """The assistant message that makes one canonical call."""
    call: dict[str, Any] = json.loads(action)
    function = {"name": call["name"], "arguments": canonical_json(call["arguments"])}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_chosen", "type": "function", "function": function}],  # type: ignore[typeddict-item]
    }
