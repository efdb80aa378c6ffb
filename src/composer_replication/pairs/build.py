"""Preference pairs from teacher replies: what the teachers agree on, over what the policy or the actor did.

Reads traces, replies and, where there are any, fresh samples of the policy; writes `PreferencePair`. The chosen side is
the policy's own sample where one is in the agreed cluster, else the canonical call. The rejected side is a sample
outside the cluster, else the actor's turn. Both are put into one style by `sides.py`. The origin's simpler rule is in
`majority.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Literal, NamedTuple

from composer_replication.records import (
    Message,
    PreferencePair,
    StoredRecord,
    TeacherReply,
    Trace,
    canonical_json,
    canonical_tool_call,
    content_id,
)
from composer_replication.replay.roster import ENOUGH_FAMILIES

from .majority import majority_pairs
from .sides import action_message, even_sides, is_well_formed
from .vote import Chamber, Equivalence, Tier, VoteVerdict, vote

Samples = Mapping[str, Sequence[Message]]
Rule = Literal["agreement", "majority"]
VERDICTS = "verdicts.jsonl.zst"


class StateVerdict(StoredRecord):
    """What became of one state that teachers were asked about; kept beside the pairs, as `VERDICTS`."""

    state_id: str
    """As `Trace.state_id` makes it."""
    trace_id: str
    """Of its trace."""
    turn: int
    """Its place in `trace.turns`, from 0."""
    verdict: str
    """A key of `PairSet.verdicts`."""


class PairSet(NamedTuple):
    """Preference pairs, and how every state ended."""

    pairs: list[PreferencePair]
    verdicts: Counter[str]
    """How many states ended in which way: paired, agrees_with_actor, policy_agrees, no_majority, too_few_votes; with
    one teacher also no_sample_differs; after calibration also low_precision."""


def extract_dpo_pairs(
    traces: Iterable[Trace],
    replies: Sequence[TeacherReply],
    policy_model: str | None = None,
    *,
    rule: Rule = "agreement",
    equivalent: Equivalence | None = None,
    samples: Samples | None = None,
    kinds: Mapping[str, str] | None = None,
    failed_calls: Mapping[str, Set[str]] | None = None,
    critical: bool = True,
    free_text: bool = False,
    own_family: bool = False,
    one_teacher: bool = False,
    on_verdict: Callable[[StateVerdict], None] = lambda verdict: None,
) -> PairSet:
    """One pair per state where the agreed action differs. Replies to other traces are ignored.

    Args:
        policy_model: Name of the policy. Pairs whose rejected side another model wrote are marked `off_policy`.
        rule: `majority` is the origin's: it knows only `kinds` and `failed_calls`, lets everybody vote and may give
            several pairs per state.
        samples: Turns that the policy wrote, by state id, for the rejected side.
        kinds: Kind of error, by state id.
        failed_calls: Ids of the calls that failed, by trace id.
        own_family: Let teachers of the family that made a turn vote on it, for their own habits.
        one_teacher: Let one family's word stand against samples of the policy, and against nothing else; such pairs
            are of the tier `single`.
        on_verdict: Is told how each state ended.
    """
    by_state: dict[tuple[str, int], list[TeacherReply]] = defaultdict(list)
    for reply in replies:
        by_state[reply.trace_id, reply.turn].append(reply)
    known = {trace.trace_id: trace for trace in traces}
    pairs: list[PreferencePair] = []
    verdicts: Counter[str] = Counter()
    for (trace_id, turn), answers in by_state.items():
        if trace_id not in known:
            continue
        trace = known[trace_id]
        if rule == "majority":
            found, reason = majority_pairs(trace, turn, answers, policy_model)
        else:
            chamber = Chamber(
                trace.tools,
                trace.state(turn),
                equivalent,
                critical,
                free_text,
                trace.tools_inferred,
                1 if one_teacher else ENOUGH_FAMILIES,
            )
            fresh = (samples or {}).get(trace.state_id(turn), ())
            voting = answers if own_family else _without_family(answers, trace.turns[turn].family)
            found, reason = _pair_at(trace, turn, voting, policy_model, chamber, fresh)
        failed = (failed_calls or {}).get(trace_id, frozenset[str]())
        kind = (kinds or {}).get(trace.state_id(turn))
        alike = [_in_one_style(pair, failed, kind) for pair in found]
        kept = [pair for pair in alike if pair.chosen != pair.rejected]
        # By the origin's rule sides may differ in their spelling alone.
        verdict = "agrees_with_actor" if found and not kept else reason
        verdicts[verdict] += 1
        on_verdict(StateVerdict(state_id=trace.state_id(turn), trace_id=trace_id, turn=turn, verdict=verdict))
        pairs += kept
    return PairSet(pairs, verdicts)


def _in_one_style(pair: PreferencePair, failed_calls: Set[str], kind: str | None) -> PreferencePair:
    sides = even_sides(pair.chosen, pair.rejected, pair.tools, failed_calls)
    return pair.model_copy(update={"kind": kind, **sides._asdict()})


def _pair_at(
    trace: Trace,
    turn: int,
    replies: Sequence[TeacherReply],
    policy_model: str | None,
    chamber: Chamber,
    samples: Sequence[Message],
) -> tuple[list[PreferencePair], str]:
    verdict = vote(replies, chamber)
    if verdict.action is None or verdict.agreement is None:
        return [], verdict.reason
    sides = _sides(trace.messages[trace.turns[turn].start], samples, verdict, chamber)
    if isinstance(sides, str):
        return [], sides
    by_policy = policy_model is not None and trace.turns[turn].source_model == policy_model
    voters = [
        reply
        for reply in replies
        if reply.family in verdict.agreement.families and chamber.ballot(reply) is not None
    ]  # fmt: skip
    pair = PreferencePair(
        pair_id=content_id(trace.trace_id, turn, verdict.action),
        state_id=trace.state_id(turn),
        trace_id=trace.trace_id,
        turn=turn,
        chosen=sides.chosen or action_message(verdict.action),
        rejected=sides.rejected,
        tools=trace.tools,
        agreement=verdict.agreement,
        chosen_from="policy" if sides.chosen else "teachers",
        rejected_from=sides.rejected_from,
        off_policy=sides.rejected_from == "actor" and not by_policy,
        provenance=tuple(sorted(reply.key for reply in voters)),
        simulated=any(reply.simulated for reply in voters),
    )
    return [pair], "paired"


def _without_family(replies: Iterable[TeacherReply], family: str | None) -> list[TeacherReply]:
    return [reply for reply in replies if family is None or reply.family != family]


class _Sides(NamedTuple):
    chosen: Message | None
    """The policy's own sample of the agreed action, where there is one."""
    rejected: Message
    rejected_from: Literal["actor", "policy"]


def _sides(actor: Message, samples: Sequence[Message], verdict: VoteVerdict, chamber: Chamber) -> _Sides | str:
    """Both sides of the pair, or the reason why there is none."""
    assert verdict.action is not None and verdict.agreement is not None
    tier = verdict.agreement.tier
    fresh = [sample for sample in samples if is_well_formed(sample)]
    agreeing = [sample for sample in fresh if _includes(sample, verdict.action, tier, chamber)]
    outside = [sample for sample in fresh if sample not in agreeing]
    # Nobody vouched for what else a sample calls.
    alone = (sample for sample in agreeing if len(sample.get("tool_calls", [])) < 2)
    chosen = next((sample for sample in alone if _is_valid(sample, chamber)), None)
    if outside:
        return _Sides(chosen, outside[0], "policy")
    if fresh:
        # Nothing is left to correct; the actor's old turn would be a stale rejection.
        return "policy_agrees"
    if tier == "single":
        return "no_sample_differs"
    if _includes(actor, verdict.action, tier, chamber):
        return "agrees_with_actor"
    return _Sides(None, actor, "actor")


def _is_valid(message: Message, chamber: Chamber) -> bool:
    return not any(chamber.objection(canonical_tool_call(call)) for call in message.get("tool_calls", []))


def _includes(message: Message, action: str, tier: Tier, chamber: Chamber) -> bool:
    """Whether it does that, perhaps beside other calls: whoever calls twice is not wrong about the first."""
    calls = message.get("tool_calls", [])
    if tier == "text":
        return not calls and canonical_json({"text": " ".join(message["content"].split())}) == action
    return any(chamber.same(canonical_tool_call(call), action) for call in calls)
