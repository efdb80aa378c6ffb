"""Do the pairs carry signal? The origin's spike 003, with its threshold: 5 pairs per trace, and not random ones.

Reads traces, replies and pairs, writes `SignalReport`. *Distance from random pairs*: the reference policy's margin,
log p(chosen) − log p(rejected), at each pair, minus the margin at the same state when the chosen side is taken from
another pair of the same kind. Above 0, the teachers' choice fits its state and not just its kind. The origin asks for a
KL distance without a definition; this is ours. The margin itself is often negative: the policy likes its own mistakes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice

import numpy as np
from pydantic import computed_field

from composer_replication.records import (
    Message,
    PreferencePair,
    Record,
    TeacherReply,
    Trace,
    render_action,
)

from .calibrate import LEVEL, beta_quantile
from .canonical import parse_action
from .vote import Chamber, vote

THRESHOLD = {"pairs_per_trace": 5.0, "distance_lo": 0.0, "traces": 5}
"""The last is ours: an interval over fewer says nothing, and over one it has no width."""
AGREED = ("paired", "agrees_with_actor", "policy_agrees", "no_sample_differs", "low_precision")
"""Ends of a state at which the teachers agreed on an action."""
LogProb = Callable[[PreferencePair, Message], float]
"""Log-probability of an answer after the prompt of a pair, under the reference policy."""


class Interval(Record):
    """A mean over `n` pairs with its 95 % t interval over traces."""

    mean: float
    lo: float
    hi: float
    n: int
    traces: int


class TeacherRecord(Record):
    """`wins` of the `votes` that a teacher cast at states with an agreement were for the agreed action."""

    answers: int
    valid: int
    votes: int
    wins: int

    @computed_field
    @property
    def win_rate(self) -> float | None:
        return self.wins / self.votes if self.votes else None


class LengthBias(Record):
    """In characters."""

    chosen: float
    rejected: float
    chosen_longer: float
    """Share of pairs."""


class SignalReport(Record):
    traces: int
    pairs: int
    pairs_per_trace: float
    funnel: dict[str, int]
    """In this order: states asked about, replies, those that may vote, votes of families, states agreed on, pairs."""
    dropped_replies: dict[str, int]
    dropped_states: dict[str, int]
    kappa: float | None
    """Fleiss' kappa among families on whole calls; None where no state has two votes or chance alone would agree."""
    kappa_tool: float | None
    """The same on the tool's name alone."""
    teachers: dict[str, TeacherRecord]
    length: LengthBias | None
    margin: Interval | None = None
    distance: Interval | None = None
    simulated: bool

    @computed_field
    @property
    def meets_threshold(self) -> bool:
        distance = self.distance
        is_far = distance and distance.lo > THRESHOLD["distance_lo"] and distance.traces >= THRESHOLD["traces"]
        return bool(is_far) and self.pairs_per_trace >= THRESHOLD["pairs_per_trace"]


def signal_report(
    traces: Sequence[Trace],
    replies: Sequence[TeacherReply],
    pairs: Sequence[PreferencePair],
    verdicts: Mapping[str, int],
    own_family: bool = False,
) -> SignalReport:
    """Traces that no teacher was asked about do not count."""
    asked = {reply.trace_id for reply in replies}
    known = {trace.trace_id: trace for trace in traces if trace.trace_id in asked}
    ballots, teachers, invalid = _ballots(known, replies, own_family)
    answers, valid = (sum(getattr(one, name) for one in teachers.values()) for name in ("answers", "valid"))
    states = Counter({reason: number for reason, number in verdicts.items() if reason != "paired"})
    outcomes = Counter(reply.outcome for reply in replies if reply.outcome != "answered")
    outcomes.update({"own_family": len(replies) - answers, "unusable_call": answers - valid - outcomes.total()})
    outcomes.update(invalid)
    outcomes["unusable_call"] -= invalid.total()
    return SignalReport(
        traces=len(known),
        pairs=len(pairs),
        pairs_per_trace=len(pairs) / len(known) if known else 0.0,
        funnel={
            "states": sum(verdicts.values()),
            "replies": len(replies),
            "parsed": valid,
            "votes": sum(map(len, ballots)),
            "agreements": sum(verdicts.get(reason, 0) for reason in AGREED),
            "pairs": len(pairs),
        },
        dropped_replies=dict(+outcomes),
        dropped_states=dict(+states),
        kappa=fleiss_kappa(ballots),
        kappa_tool=fleiss_kappa([[_tool(action) for action in votes] for votes in ballots]),
        teachers=teachers,
        length=_length_bias(pairs),
        simulated=any(reply.simulated for reply in replies),
    )


def fleiss_kappa(states: Iterable[Sequence[str]]) -> float | None:
    """Generalised to a varying number of raters; categories are what was said anywhere."""
    rated = [Counter(votes) for votes in states if len(votes) > 1]
    raters = sum(votes.total() for votes in rated)
    if not raters:
        return None
    observed = [sum(c * (c - 1) for c in v.values()) / (v.total() * (v.total() - 1)) * v.total() for v in rated]
    by_chance = sum((count / raters) ** 2 for count in sum(rated, Counter[str]()).values())
    return None if by_chance == 1 else (sum(observed) / raters - by_chance) / (1 - by_chance)


def distance_from_random(
    pairs: Sequence[PreferencePair], logprob: LogProb, seed: int = 0
) -> tuple[Interval, Interval | None]:
    """The margin of the pairs, and what it loses when chosen sides are exchanged within a kind."""
    choices: dict[str | None, dict[str, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for pair in pairs:
        choices[pair.kind][render_action(pair.chosen)].append(pair.chosen)
    rng = np.random.default_rng(seed)
    margins: list[tuple[str, float]] = []
    losses: list[tuple[str, float]] = []
    for pair in pairs:
        own = logprob(pair, pair.chosen)
        margins.append((pair.trace_id, own - logprob(pair, pair.rejected)))
        action, kind = render_action(pair.chosen), choices[pair.kind]
        others = sum(map(len, kind.values())) - len(kind[action])
        if others:
            drawn = int(rng.integers(others))
            other = next(islice(chain(*(said for name, said in kind.items() if name != action)), drawn, None))
            # The rejected side is the same in both margins and cancels.
            losses.append((pair.trace_id, own - logprob(pair, other)))
    return _over_traces(margins), _over_traces(losses) if losses else None


def _over_traces(values: Sequence[tuple[str, float]]) -> Interval:
    """Pairs of one trace are not independent, so their deviations are summed before they are squared."""
    mean = math.fsum(value for _, value in values) / len(values)
    sums: dict[str, float] = defaultdict(float)
    for trace_id, value in values:
        sums[trace_id] += value - mean
    half, degrees = 0.0, len(sums) - 1
    if degrees:
        error = math.sqrt(math.fsum(total**2 for total in sums.values()) * len(sums) / degrees) / len(values)
        share = beta_quantile(1 - LEVEL, degrees / 2, 0.5)
        half = error * math.sqrt(degrees * (1 - share) / share)  # Student's t
    return Interval(mean=mean, lo=mean - half, hi=mean + half, n=len(values), traces=len(sums))


def _ballots(
    traces: Mapping[str, Trace], replies: Sequence[TeacherReply], own_family: bool
) -> tuple[list[list[str]], dict[str, TeacherRecord], Counter[str]]:
    """Also why calls that parse have no vote."""
    by_state: dict[tuple[str, int], list[TeacherReply]] = defaultdict(list)
    for reply in replies:
        trace = traces.get(reply.trace_id)
        if trace and (own_family or reply.family != trace.turns[reply.turn].family):
            by_state[reply.trace_id, reply.turn].append(reply)
    ballots: list[list[str]] = []
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    invalid: Counter[str] = Counter()
    for (trace_id, _), answers in by_state.items():
        trace = traces[trace_id]
        chamber = Chamber(trace.tools, inferred=trace.tools_inferred)
        said = [(reply, chamber.ballot(reply)) for reply in answers]
        by_family: dict[str, set[str]] = defaultdict(set)
        verdict = vote(answers, chamber)
        for reply, action in said:
            mine = tally[reply.teacher]
            mine["answers"] += 1
            if action is None:
                why = chamber.objection(reply.action or "") if parse_action(reply.action) else None
                invalid.update([why] if why else [])
                continue
            mine["valid"] += 1
            by_family[reply.family].add(action)
            if verdict.agreement and verdict.action:
                mine["votes"] += 1
                mine["wins"] += chamber.same(action, verdict.action)
        ballots.append([next(iter(actions)) for actions in by_family.values() if len(actions) == 1])
    records = {
        name: TeacherRecord(**{field: counts[field] for field in TeacherRecord.model_fields})
        for name, counts in sorted(tally.items())
    }
    return ballots, records, invalid


def _tool(action: str) -> str:
    call = parse_action(action)
    return call.name if call else action


def _length_bias(pairs: Sequence[PreferencePair]) -> LengthBias | None:
    if not pairs:
        return None
    sides = [(render_action(pair.chosen), render_action(pair.rejected)) for pair in pairs]
    sizes = np.array([(len(chosen), len(rejected)) for chosen, rejected in sides], dtype=float)
    chosen, rejected = sizes.mean(0)
    return LengthBias(
        chosen=float(chosen), rejected=float(rejected), chosen_longer=float((sizes[:, 0] > sizes[:, 1]).mean())
    )
