"""Which states are worth asking the teachers about.

Three buckets: `error` (the policy was at fault), `entropy` (samples of the policy differ most there; only where samples
are given) and `audit` (a seeded random share of the rest, for what the other two overlook). Equal requests are asked
once, early turns come first. `yields` tells what each bucket brought, so that one sees whether the gate is any good.
"""

from __future__ import annotations

import hashlib
import heapq
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
from composer_replication.sites.marking import StoredTraces

Bucket = Literal["error", "entropy", "audit"]
Traces = StoredTraces | Sequence[Trace]


class State(NamedTuple):
    """One frozen turn of a trace."""

    trace: Trace
    turn: int
    """Its place in `trace.turns`, from 0."""

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


class TurnPlace(NamedTuple):
    """A turn of a trace that is not in memory."""

    trace_id: str
    turn: int


def choose_states(
    traces: Traces,
    sites: Iterable[ErrorSite],
    config: GateConfig,
    limit: int,
    seed: int,
    samples: Mapping[str, Sequence[Message]] | None = None,
) -> list[Choice]:
    """At most `limit` states: errors, then entropy, then the audit, which keeps its share where the limit cuts.

    `samples` holds turns that the policy wrote, by state id. Without them nothing is chosen for its entropy.
    """
    seen: set[bytes] = set()
    errors = _distinct(traces, _error_places(sites), seen)
    entropies = {id_: action_entropy(turns) for id_, turns in (samples or {}).items()}
    sampled: list[tuple[float, TurnPlace]] = []
    audited: list[tuple[float, TurnPlace]] = []
    for place, state_id in _rest(traces, seen) if samples or config.audit_rate else ():
        if state_id in entropies:
            sampled.append((entropies[state_id], place))
        if (draw := _draw(state_id, seed)) < config.audit_rate:
            audited.append((draw, place))
    unsure = _unsure(sampled, config.entropy_share)
    taken = set(unsure)
    drawn = [place for _, place in sorted(audited, key=lambda one: one[0]) if place not in taken]
    asked: list[tuple[TurnPlace, Bucket]] = [(place, "error") for place in errors]
    asked.extend((place, "entropy") for place in unsure)
    asked = asked[: limit - min(len(drawn), math.ceil(limit * config.audit_rate))]
    asked.extend([(place, "audit") for place in _early_first(drawn[: limit - len(asked)])])
    states = _states(traces, [place for place, _ in asked])
    return [Choice(state, bucket) for state, (_, bucket) in zip(states, asked, strict=True)]


def states_to_ask(traces: Traces, sites: Iterable[ErrorSite], limit: int | None = None) -> list[State]:
    """States where the policy erred, earliest turn of each trace first, each once."""
    return _states(traces, _error_places(sites)[:limit])


def states_to_sample(traces: Traces, sites: Iterable[ErrorSite], limit: int, seed: int) -> list[State]:
    """Where the policy is worth sampling: error states, then all others in a random order that stays."""
    seen: set[bytes] = set()
    errors = _distinct(traces, _error_places(sites), seen)
    rest = ((_draw(state_id, seed), place) for place, state_id in _rest(traces, seen))
    drawn = heapq.nsmallest(max(0, limit - len(errors)), rest, key=lambda one: one[0])
    return _states(traces, [*errors, *(place for _, place in drawn)][:limit])


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


def _error_places(sites: Iterable[ErrorSite]) -> list[TurnPlace]:
    found = (TurnPlace(site.trace_id, site.turn) for site in sites if site.fault == "policy")
    return _early_first(dict.fromkeys(found))


def _unsure(sampled: Sequence[tuple[float, TurnPlace]], share: float) -> list[TurnPlace]:
    """The share of the sampled states with the highest entropy. Where all samples agree there is nothing to ask."""
    ranked = sorted(sampled, key=lambda one: (-one[0], one[1].turn))[: math.ceil(len(sampled) * share)]
    return _early_first(place for entropy, place in ranked if entropy)


def _early_first(places: Iterable[TurnPlace]) -> list[TurnPlace]:
    return sorted(places, key=lambda place: place.turn)


def _draw(state_id: str, seed: int) -> float:
    """A number from 0 to 1 that stays with the state, whatever else is in the run."""
    digest = hashlib.sha256(f"{seed}:{state_id}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _states(traces: Traces, places: Sequence[TurnPlace]) -> list[State]:
    """The states themselves: only their traces are held, and of a run's no more than is shown of them."""
    found = {trace.trace_id: trace for trace in _chosen(traces, places, marked=True)}
    return [State(found[place.trace_id], place.turn) for place in places]


def _chosen(traces: Traces, places: Iterable[TurnPlace], marked: bool = False) -> Iterable[Trace]:
    last: dict[str, int] = {}
    for place in places:
        last[place.trace_id] = max(place.turn, last.get(place.trace_id, 0))
    if isinstance(traces, StoredTraces):
        return traces.chosen(last, marked)
    return (trace for trace in traces if trace.trace_id in last)


def _distinct(traces: Traces, places: Sequence[TurnPlace], seen: set[bytes]) -> list[TurnPlace]:
    """Places whose request is not among those seen; theirs are added."""
    turns: dict[str, list[int]] = defaultdict(list)
    for place in places:
        turns[place.trace_id].append(place.turn)
    keys = {
        TurnPlace(trace.trace_id, turn): key
        for trace in _chosen(traces, places)
        for turn, key in zip(turns[trace.trace_id], _requests(trace, turns[trace.trace_id]), strict=True)
    }
    first: list[TurnPlace] = []
    for place in places:
        if keys[place] not in seen:
            seen.add(keys[place])
            first.append(place)
    return first


def _rest(traces: Traces, seen: set[bytes]) -> Iterator[tuple[TurnPlace, str]]:
    """Every turn whose request is not among those seen, with the id of its state; its request is added."""
    for trace in traces:
        for turn, key in enumerate(_requests(trace, range(len(trace.turns)))):
            if key not in seen:
                seen.add(key)
                yield TurnPlace(trace.trace_id, turn), trace.state_id(turn)


def _requests(trace: Trace, turns: Iterable[int]) -> Iterator[bytes]:
    """Names of what teachers would be shown; eight bytes, because there may be as many as turns in a run."""
    known, tools = {id(message): _digest(message) for message in trace.messages}, canonical_json(trace.tools).encode()
    for turn in turns:
        parts = [known.get(id(message)) or _digest(message) for message in trace.history(turn)]
        yield hashlib.sha256(tools + b"".join(parts)).digest()[:8]


def _digest(message: Message) -> bytes:
    """`is_error` stays on this machine, so it makes no other request."""
    return hashlib.sha256(canonical_json({**message, "is_error": None}).encode()).digest()
