"""The origin's rule: majority of teachers over the student, student over the minority.

Kept for comparison with the paper. Its quirks, on purpose: one vote per teacher, not per family; teachers of the
actor's own family vote too; more than half is enough; calls are compared as they were written, key order aside; and
the actor's action is preferred to every minority action even where the majority rejects both, so one state may give
several pairs, and an action nobody vouched for may be chosen. A tie gives nothing. A call that no listed tool takes
neither votes nor is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from composer_replication.records import (
    Agreement,
    Message,
    PreferencePair,
    TeacherReply,
    Trace,
    canonical_tool_call,
    content_id,
)
from composer_replication.replay.valid_calls import objection

from .canonical import parse_action
from .sides import action_message, is_well_formed


def majority_pairs(
    trace: Trace, turn: int, replies: Sequence[TeacherReply], policy_model: str | None
) -> tuple[list[PreferencePair], str]:
    valid = [
        reply
        for reply in replies
        if reply.outcome == "answered" and reply.finish_reason != "length" and _is_valid(reply.action, trace)
    ]
    votes = Counter(reply.action or "" for reply in valid)
    if votes.total() < 2:
        return [], "too_few_votes"
    top, count = votes.most_common(1)[0]
    if 2 * count <= votes.total():
        return [], "no_majority"
    actor = trace.messages[trace.turns[turn].start]
    calls = [canonical_tool_call(call) for call in actor.get("tool_calls", [])]
    mine = calls[0] if len(calls) == 1 else None

    def pair(chosen: Message, rejected: Message, action: str, from_actor: bool) -> PreferencePair:
        voters = [reply for reply in valid if reply.action == action]
        return PreferencePair(
            pair_id=content_id("majority", trace.trace_id, turn, action, from_actor),
            state_id=trace.state_id(turn),
            trace_id=trace.trace_id,
            turn=turn,
            chosen=chosen,
            rejected=rejected,
            tools=trace.tools,
            agreement=Agreement(
                tier="exact", votes=count, n=votes.total(), families=tuple(sorted({reply.family for reply in voters}))
            ),
            chosen_from="actor" if from_actor else "teachers",
            rejected_from="teacher" if from_actor else "actor",
            off_policy=policy_model is None or trace.turns[turn].source_model != policy_model,
            provenance=tuple(sorted(reply.key for reply in voters)),
            simulated=any(reply.simulated for reply in voters),
        )

    pairs = [] if mine == top else [pair(action_message(top), actor, top, from_actor=False)]
    if is_well_formed(actor) and (mine is None or _is_valid(mine, trace)):
        pairs += [
            pair(actor, action_message(action), action, from_actor=True)
            for action in votes
            if action not in (top, mine)
        ]
    return pairs, "paired" if pairs else "agrees_with_actor"


def _is_valid(action: str | None, trace: Trace) -> bool:
    return bool(parse_action(action)) and not objection(action or "", trace.tools, trace.tools_inferred)
