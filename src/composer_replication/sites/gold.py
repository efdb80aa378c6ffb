"""Scores the detectors on the gold set: precision and recall by kind, and how well two readers agreed on the labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, cast

import zstandard

from composer_replication.records import ErrorKind, ErrorSite, Trace

from .detect import find_sites

MIN_CASES = 10
"""A kind with fewer labelled cases is shown, and left out of the pooled figures."""
JUDGED: frozenset[ErrorKind] = frozenset({"style", "communication", "effort"})
BY_THE_USER: frozenset[ErrorKind] = frozenset({"user_rejection", "interruption", "correction"})
WILSON_Z = 1.96

Place = tuple[int | None, str]
"""Position of the call in its turn, and the kind."""


class LabelledTurn(NamedTuple):
    trace_id: str
    turn: int
    file: str
    places: frozenset[Place]
    second: frozenset[Place] | None


class Tally(NamedTuple):
    hits: int
    found: int
    labelled: int


def load_gold(fresh: bool = False) -> tuple[list[LabelledTurn], dict[str, Trace]]:
    """The gold set; or the fresh draw, labelled after the detectors were finished; its labels mended none of them."""
    folder, prefix = files("composer_replication") / "data" / "gold_sites", "fresh_" if fresh else ""
    rows = [json.loads(line) for line in (folder / f"{prefix}labels.jsonl").read_text(encoding="utf-8").splitlines()]
    items = [_labelled(row) for row in rows]
    return items, {item.trace_id: _traces()[item.trace_id] for item in items}


@cache
def _traces() -> dict[str, Trace]:
    """Of both draws. What they share is stored once, with the first."""
    folder, opened = files("composer_replication") / "data" / "gold_sites", zstandard.ZstdDecompressor()
    packed = [(folder / name).read_bytes() for name in ("traces.jsonl.zst", "fresh_traces.jsonl.zst")]
    lines = [line for data in packed for line in opened.decompress(data, max_output_size=1 << 30).splitlines()]
    return {trace.trace_id: trace for trace in map(Trace.model_validate_json, lines)}


def _labelled(row: dict[str, Any]) -> LabelledTurn:
    second = _places(row["second"]["sites"]) if "second" in row else None
    return LabelledTurn(row["trace_id"], row["turn"], row["file"], _places(row["sites"]), second)


def _places(sites: Iterable[dict[str, Any]]) -> frozenset[Place]:
    return frozenset((site["call"], site["kind"]) for site in sites)


def score(detector: Callable[[Trace], list[ErrorSite]] = find_sites) -> dict[str, Any]:
    """Each estimate is `{mean, lo, hi, n}` with Wilson's 95 % interval. `fresh` pools all tool and runtime kinds."""
    items, traces = load_gold()
    tallies = _tallies(items, traces, detector)
    scored = [kind for kind, tally in tallies.items() if tally.labelled >= MIN_CASES and kind not in JUDGED]
    fresh = _tallies(*load_gold(fresh=True), detector)
    return {
        "items": len(items),
        "formats": len({item.file.split("/")[0] for item in items}),
        "kinds": {kind: _row(tallies[kind], kind in scored) for kind in sorted(tallies)},
        "pooled": _row(_sum(tallies[kind] for kind in scored if kind not in BY_THE_USER), True),
        "fresh": _row(_sum(tally for kind, tally in fresh.items() if kind not in BY_THE_USER | JUDGED), True),
        "kappa": _kappa([item for item in items if item.second is not None]),
    }


def _tallies(
    items: Sequence[LabelledTurn], traces: Mapping[str, Trace], detector: Callable[[Trace], list[ErrorSite]]
) -> dict[str, Tally]:
    predicted = {trace_id: _by_turn(trace, detector(trace)) for trace_id, trace in traces.items()}
    tallies: dict[str, Tally] = {}
    for item in items:
        found = predicted[item.trace_id].get(item.turn, frozenset())
        for kind in {kind for _, kind in found | item.places}:
            ours, theirs = ({place for place in places if place[1] == kind} for places in (found, item.places))
            old = tallies.get(kind, Tally(0, 0, 0))
            tallies[kind] = Tally(old.hits + len(ours & theirs), old.found + len(ours), old.labelled + len(theirs))
    return tallies


def _by_turn(trace: Trace, sites: Sequence[ErrorSite]) -> dict[int, frozenset[Place]]:
    """Underlying kinds: whether a failure repeats an earlier one, and which edit caused it, is not labelled."""
    where = {
        call["id"]: (turn, position)
        for turn, at in enumerate(trace.turns)
        for position, call in enumerate(trace.messages[at.start].get("tool_calls", []))
    }
    places: dict[int, set[Place]] = {}
    for site in sites:
        turn, position = where.get(site.call_id or "", (site.turn, None))
        places.setdefault(turn, set()).add((position, site.secondary_kind or site.error_kind))
    return {turn: frozenset(found) for turn, found in places.items()}


def _sum(tallies: Iterable[Tally]) -> Tally:
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


def _row(tally: Tally, scored: bool) -> dict[str, Any]:
    return {
        "labelled": tally.labelled,
        "scored": scored,
        "precision": wilson(tally.hits, tally.found),
        "recall": wilson(tally.hits, tally.labelled),
    }


def wilson(hits: int, n: int) -> dict[str, float | int | None]:
    if not n:
        return {"mean": None, "lo": None, "hi": None, "n": 0}
    share, z2 = hits / n, WILSON_Z**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = WILSON_Z / (1 + z2 / n) * (share * (1 - share) / n + z2 / (4 * n * n)) ** 0.5
    return {"mean": share, "lo": max(0.0, middle - half), "hi": min(1.0, middle + half), "n": n}


def _kappa(items: Sequence[LabelledTurn]) -> dict[str, Any]:
    """Cohen's kappa over turns, the whole label of a turn being one category."""
    pairs = [(_category(item.places), _category(cast("frozenset[Place]", item.second))) for item in items]
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    first, second = (Counter(column) for column in zip(*pairs, strict=True))
    chance = sum(first[name] * second[name] for name in first) / len(pairs) ** 2
    return {"kappa": (agreed - chance) / (1 - chance), "agreement": agreed, "n": len(pairs)}


def _category(places: frozenset[Place]) -> str:
    return " ".join(sorted(f"{call}:{kind}" for call, kind in places)) or "nothing"
