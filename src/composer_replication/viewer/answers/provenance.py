"""What a record came from, down to the bytes of a file, and what was made of it, up to the steps of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from composer_replication.records import JsonObject

from ..lookup import CachedRecord, RunView, state_of
from .parts import ref, refs
from .run import turn_of_step
from .training import read_in_training


def show(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    kind, record_id = view.resolve(query.get("id", ""))
    came_from, made = _WAYS[kind](view, record_id)
    return {"kind": kind, "id": record_id, "from": came_from, "to": made}


Way = tuple[list[JsonObject], list[JsonObject]]


def _trace(view: RunView, record_id: str) -> Way:
    found = view.get("trace", record_id)
    place = {"kind": "file", "file": found.body["source"]["file"], "agent": found.body["source"]["agent"]}
    made = view.all("trace_id = ? AND kind IN ('site', 'pair', 'finding') ORDER BY turn LIMIT 200", record_id)
    task = [ref("task", found.body["task_id"])] if found.body["task_id"] else []
    return [place, *task], [*refs(made, "error_kind"), *_steps(view, record_id)]


def _turn(view: RunView, record_id: str) -> Way:
    trace_id, _, text = record_id.rpartition(":")
    turn = int(text)
    made = view.all("state_id = ? AND kind IN ('site', 'reply', 'pair') ORDER BY number", state_of(trace_id, turn))
    return _bytes(view, trace_id, turn)[1:], [*_labelled(made), *_steps(view, trace_id)]


def _site(view: RunView, record_id: str) -> Way:
    found = view.get("site", record_id)
    hints = view.all("parent = ? AND kind = 'hint'", record_id)
    made = view.all("state_id = ? AND kind IN ('reply', 'pair') ORDER BY number", found.state_id)
    return _turn_of(view, found), [*_labelled([*hints, *made]), *_steps(view, str(found.trace_id))]


def _hint(view: RunView, record_id: str) -> Way:
    found = view.get("hint", record_id)
    site = view.get("site", str(found.parent))
    return [*_labelled([site]), *_turn_of(view, site)], _steps(view, str(site.trace_id))


def _reply(view: RunView, record_id: str) -> Way:
    found = view.get("reply", record_id)
    pairs = view.all("state_id = ? AND kind = 'pair'", found.state_id)
    sites = view.all("state_id = ? AND kind = 'site'", found.state_id)
    made = [pair for pair in pairs if record_id in pair.body["provenance"]]
    return [*_labelled(sites), *_turn_of(view, found)], [
        *_labelled(made),
        *(_steps(view, str(found.trace_id)) if made else []),
    ]


def _pair(view: RunView, record_id: str) -> Way:
    found = view.get("pair", record_id)
    voters = set(found.body["provenance"])
    around = view.all("state_id = ? AND kind IN ('reply', 'site') ORDER BY number", found.state_id)
    before = [each for each in around if each.kind == "site" or each.id in voters]
    return [*_labelled(before), *_turn_of(view, found)], _steps(view, str(found.trace_id))


def _rollout(view: RunView, record_id: str) -> Way:
    found = view.get("rollout", record_id)
    task = [ref("task", found.parent)] if found.parent else []
    tokens = view.facts("kind = 'tokens' AND id = ?", record_id)
    weights = [ref("tokens", record_id, ", ".join(each["channel"] for each in tokens))] if tokens else []
    return task, [*weights, ref("step", str(found.facts["step"]), "trained on in this step")]


def _finding(view: RunView, record_id: str) -> Way:
    found = view.get("finding", record_id)
    turn = turn_of_step(view, str(found.trace_id), found.body["step"])
    return [
        ref("trace", str(found.trace_id)),
        *(_bytes(view, str(found.trace_id), turn) if turn is not None else []),
    ], []


def _task(view: RunView, record_id: str) -> Way:
    traces = view.all("kind = 'trace' AND facts ->> 'task_id' = ? LIMIT 200", record_id)
    others = view.all("parent = ? AND kind = 'rollout' ORDER BY number LIMIT 200", record_id)
    outcomes = view.facts("parent = ? AND kind = 'outcome'", record_id)
    told = [ref("outcome", each["phase"], f"{each['split']}, reward {each['reward']:g}") for each in outcomes]
    return [], [*refs([*traces, *others], "reward"), *told]


_WAYS: dict[str, Callable[[RunView, str], Way]] = {
    "trace": _trace,
    "turn": _turn,
    "site": _site,
    "hint": _hint,
    "reply": _reply,
    "pair": _pair,
    "rollout": _rollout,
    "finding": _finding,
    "task": _task,
}
_LABELS = {"site": "error_kind", "hint": "text", "reply": "teacher", "pair": "tier"}


def _labelled(found: list[CachedRecord]) -> list[JsonObject]:
    return [ref(each.kind, each.id, str(each.facts.get(_LABELS[each.kind]) or "")) for each in found]


def _turn_of(view: RunView, found: CachedRecord) -> list[JsonObject]:
    return _bytes(view, str(found.trace_id), int(found.turn or 0))


def _bytes(view: RunView, trace_id: str, turn: int) -> list[JsonObject]:
    stored: list[Any] = view.cache.part(trace_id, "t", turn, turn + 1)
    source = view.get("trace", trace_id).body["source"]
    place = {"kind": "bytes", "file": source["file"], "byte_range": stored[0].get("byte_range")}
    return [ref("turn", f"{trace_id}:{turn}", source["agent"]), ref("trace", trace_id), place]


def _steps(view: RunView, trace_id: str) -> list[JsonObject]:
    return [ref("step", str(step), "read by the added channels") for step in read_in_training(view, trace_id)]
