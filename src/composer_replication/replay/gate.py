"""Which states are worth asking the teachers about.

Three buckets: `error` (the policy was at fault), `entropy` (samples of the policy differ most there; only where samples
are given) and `audit` (a seeded random share of the rest, for what the other two overlook). Equal requests are asked
once, early turns come first. `yields` tells what each bucket brought, so that one sees whether the gate is any good.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from composer_replication.config import GateConfig
from composer_replication.records import (
    ErrorSite,
    Message,
    PreferencePair,
    StoredRecord,
    Trace,
    canonical_json,
    canonical_tool_call,
)

Bucket = Literal["error", "entropy", "audit"]


class State(NamedTuple):
    """One frozen turn of a trace."""

    trace: Trace
    turn: int

    @property
    def state_id(self) -> str:
        return self.trace.state_id(self.turn)


class Choice(NamedTuple):
    """A state to ask about, and why."""

    state: State
    bucket: Bucket

    def stored(self) -> AskedState:
        return AskedState(state_id=self.state.state_id, bucket=self.bucket)


class AskedState(StoredRecord):
    """A choice as a run keeps it."""

    state_id: str
    bucket: Bucket


class StateSamples(StoredRecord):
    """Turns that the policy wrote at one state."""

    state_id: str
    trace_id: str
    turn: int
    messages: tuple[Message, ...]


class Yield(NamedTuple):
    """What a bucket brought. `judged` pairs are those about which an oracle knows, `correct` those it calls right."""

    states: int
    pairs: int
    judged: int
    correct: int


def choose_states(
    traces: Sequence[Trace],
    sites: Iterable[ErrorSite],
    config: GateConfig,
    limit: int,
    seed: int,
    samples: Mapping[str, Sequence[Message]] | None = None,
) -> list[Choice]:
    """At most `limit` states: errors, then entropy, then the audit, which keeps its share where the limit cuts.

    `samples` holds turns that the policy wrote, by state id. Without them nothing is chosen for its entropy.
    """
    seen: set[str] = set()
    errors = list(_unseen(states_to_ask(traces, sites), seen))
    rest: list[State] = []
    if samples or config.audit_rate:
        rest = list(_unseen((State(trace, turn) for trace in traces for turn in range(len(trace.turns))), seen))
    unsure = _unsure(rest, samples or {}, config.entropy_share)
    taken = {state.state_id for state in unsure}
    draws = {state.state_id: _draw(state, seed) for state in rest if state.state_id not in taken}
    drawn = [state for state in rest if draws.get(state.state_id, 1) < config.audit_rate]
    drawn.sort(key=lambda state: draws[state.state_id])
    asked = [Choice(state, "error") for state in errors] + [Choice(state, "entropy") for state in unsure]
    asked = asked[: limit - min(len(drawn), math.ceil(limit * config.audit_rate))]
    return asked + [Choice(state, "audit") for state in _early_first(drawn[: limit - len(asked)])]


def states_to_ask(traces: Sequence[Trace], sites: Iterable[ErrorSite], limit: int | None = None) -> list[State]:
    """States where the policy erred, earliest turn of each trace first, each once."""
    known = {trace.trace_id: trace for trace in traces}
    turns = dict.fromkeys((site.turn, site.trace_id) for site in sites if site.fault == "policy")
    return _early_first([State(known[trace_id], turn) for turn, trace_id in turns])[:limit]


def states_to_sample(traces: Sequence[Trace], sites: Iterable[ErrorSite], limit: int, seed: int) -> list[State]:
    """Where the policy is worth sampling: error states, then all others in a random order that stays."""
    seen: set[str] = set()
    errors = list(_unseen(states_to_ask(traces, sites), seen))
    rest = list(_unseen((State(trace, turn) for trace in traces for turn in range(len(trace.turns))), seen))
    return [*errors, *sorted(rest, key=lambda state: _draw(state, seed))][:limit]


def action_entropy(samples: Sequence[Message]) -> float:
    """How much the actions of some turns differ: 0 when all are the same, 1 when no two are.

    Calls count in their canonical spelling. Turns without a call count as one action, because words always differ.
    """
    if len(samples) < 2:
        return 0.0
    counts = Counter(tuple(map(canonical_tool_call, sample.get("tool_calls", []))) for sample in samples)
    shares = [count / len(samples) for count in counts.values()]
    return -sum(share * math.log(share) for share in shares) / math.log(len(samples)) + 0.0


def yields(
    asked: Iterable[AskedState],
    pairs: Iterable[PreferencePair],
    is_right: Callable[[PreferencePair], bool | None] = lambda pair: None,
) -> dict[Bucket, Yield]:
    """Per bucket: states asked, pairs that came of them, and how many an oracle calls right, where there is one."""
    buckets: dict[str, Bucket] = {state.state_id: state.bucket for state in asked}
    states: Counter[Bucket] = Counter(buckets.values())
    found: dict[Bucket, list[bool | None]] = defaultdict(list)
    for pair in pairs:
        if pair.state_id in buckets:
            found[buckets[pair.state_id]].append(is_right(pair))
    return {
        bucket: Yield(number, len(found[bucket]), sum(v is not None for v in found[bucket]), found[bucket].count(True))
        for bucket, number in states.items()
    }


def _unsure(states: Sequence[State], samples: Mapping[str, Sequence[Message]], share: float) -> list[State]:
    """The share of the sampled states with the highest entropy. Where all samples agree there is nothing to ask."""
    entropies = {id_: action_entropy(turns) for id_, turns in samples.items()}
    sampled = [state for state in states if state.state_id in entropies]
    ranked = sorted(sampled, key=lambda state: (-entropies[state.state_id], state.turn))[
        : math.ceil(len(sampled) * share)
    ]
    return _early_first([state for state in ranked if entropies[state.state_id]])


def _early_first(states: Iterable[State]) -> list[State]:
    return sorted(states, key=lambda state: state.turn)


def _draw(state: State, seed: int) -> float:
    """A number from 0 to 1 that stays with the state, whatever else is in the run."""
    digest = hashlib.sha256(f"{seed}:{state.state_id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _unseen(states: Iterable[State], seen: set[str]) -> Iterator[State]:
    """States whose request is not among those seen; theirs are added."""
    digests: dict[str, dict[int, bytes]] = {}
    for state in states:
        trace = state.trace
        if trace.trace_id not in digests:
            digests[trace.trace_id] = {id(message): _digest(message) for message in trace.messages}
        known = digests[trace.trace_id]
        parts = [known.get(id(message)) or _digest(message) for message in trace.history(state.turn)]
        key = hashlib.sha256(canonical_json(trace.tools).encode() + b"".join(parts)).hexdigest()
        if key not in seen:
            seen.add(key)
            yield state


def _digest(message: Message) -> bytes:
    """`is_error` stays on this machine, so it makes no other request."""
    return hashlib.sha256(canonical_json({**message, "is_error": None}).encode()).digest()
