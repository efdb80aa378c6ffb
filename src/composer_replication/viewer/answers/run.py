"""Answers about a whole run: its funnel with reasons, spend and agreement; two arms side by side; the monitor."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from composer_replication import __version__
from composer_replication.errors import UsageError, quoted
from composer_replication.ingestion.inputs import is_whole_file
from composer_replication.records import JsonObject
from composer_replication.runs import LOCK, NEXT_COMMAND

from ..annotations import all_votes
from ..lookup import RunView, listing
from .parts import replies_at, shown_turn, trace_card
from .training import training

REASON = "{reason}"
FUNNEL = (
    ("ingestion", "traces", "traces", {"skipped": None, "quarantined": None}),
    ("sites", "sites", "sites", {"faults": {"page": "sites", "fault": REASON}}),
    ("hints", "hints", "hints", {"dropped": None}),
    ("replay", "replies", "replies", {"outcomes": {"page": "replies", "outcome": REASON}, "not_asked": None}),
    ("pairs", "pairs", "pairs", {"verdicts": {"page": "sites", "verdict": REASON}}),
    ("training", "steps", "training", {"skipped": None, "untaught": None}),
)
"""Noun of a stage, count that it leaves, page, and counts that say why something is gone, with a filter for them."""
WITHOUT = {"hints": "sites without a hint", "pairs": "sites without a pair"}
"""By noun, what a link calls the sites that a stage left none for."""
KEPT = ("answered", "paired")
POINTS, MAX_LISTED = 200, 500


def run(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    stages = [(noun, view.run.stage(noun).manifest) for noun in NEXT_COMMAND]
    counts = {noun: manifest["counts"] for noun, manifest in stages if manifest}
    origin = _json_file(view, "manifest.json") or {}
    config, now = view.run.config, _now(view)
    return {
        "run": view.name,
        "path": view.place,
        **{name: origin.get(name) for name in ("created", "version")},
        "trained_on": _trained_on(view),
        "model": config.model.name,
        "seed": config.seed,
        "config": config.model_dump(mode="json"),
        "stages": [_stage(noun, manifest) for noun, manifest in stages],
        "funnel": [_funnel_row(view, counts, *row) for row in FUNNEL],
        "spend": _spend(view, counts),
        "result": _result(view),
        "now": now,
        "next": None if now else view.run.next_command(view.run.up_to_date(), view.place),
    }


def compare(view: RunView, query: Mapping[str, str], other: RunView | None = None) -> JsonObject:
    """Arms on the same tasks: before and after of one run, or one phase of two runs."""
    from composer_replication.evaluation.compare import difference_of
    from composer_replication.evaluation.stats import mean_interval, said

    phases = query.get("phase") or ("after" if other else "before"), query.get("with_phase") or "after"
    arms = list(zip((view, other or view), phases, strict=True))
    rewards = [_rewards(each, phase) for each, phase in arms]
    splits = [split for split in rewards[0] if split in rewards[1]]
    split = query.get("split") or (splits[0] if splits else "")
    one, two = (found.get(split, {}) for found in rewards)
    tasks = [task for task in one if task in two]
    a, b = ([fmean(found[task]) for task in tasks] for found in (one, two))
    return {
        "splits": splits,
        "split": split,
        "arms": [
            {
                "run": each.name,
                "phase": phase,
                "label": f"{each.name}, {phase}",
                "success": _worded(said(mean_interval(values))) if values else None,
            }
            for (each, phase), values in zip(arms, (a, b), strict=True)
        ],
        "difference": _worded(said(difference_of(a, b, _repositories(view, tasks)))) if tasks else None,
        "tasks": [{"task_id": task, "a": x, "b": y} for task, x, y in zip(tasks, a, b, strict=True)],
        "metrics": {"a": training(view, {})["rows"], "b": training(other, {})["rows"] if other else []},
    }


def monitor(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    stage = view.run.stage("monitor")
    order = "ORDER BY facts ->> 'alarm' DESC, facts ->> 'p' DESC, facts ->> 'auditor_p' DESC LIMIT ?"
    return {
        "done": stage.is_done,
        "next": None if stage.is_done else NEXT_COMMAND["monitor"].replace("RUN", quoted(view.place)),
        "counts": stage.counts if stage.is_done else {},
        "verdicts": view.facts(f"kind = 'verdict' {order}", MAX_LISTED),
        "findings": [found.body for found in view.all("kind = 'finding' ORDER BY number LIMIT ?", MAX_LISTED)],
    }


def finding(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    found = view.get("finding", query.get("id", ""))
    turn = turn_of_step(view, str(found.trace_id), found.body["step"])
    return {
        "finding": found.body,
        "trace": trace_card(view, str(found.trace_id)),
        "turn": None if turn is None else shown_turn(view, str(found.trace_id), turn),
    }


def turn_of_step(view: RunView, trace_id: str, step: int) -> int | None:
    """The turn of a tool call, counted over the whole trace; None for an attempt as a whole."""
    turns, calls = view.get("trace", trace_id).facts["turns"], 0
    if step < 0:
        return None
    for start in range(0, turns, MAX_LISTED):
        window = view.cache.part(trace_id, "t", start, start + MAX_LISTED)
        first = window[0]["start"]
        messages = view.cache.part(trace_id, "m", first, window[-1]["end"])
        for place, turn in enumerate(window, start):
            calls += len(messages[turn["start"] - first].get("tool_calls") or ())
            if step < calls:
                return place
    return None


def about(views: Sequence[RunView]) -> JsonObject:
    shown = [
        {
            "run": view.name,
            "path": view.place,
            "created": (_json_file(view, "manifest.json") or {}).get("created"),
            "trained_on": _trained_on(view),
            "model": view.run.config.model.name,
            "seed": view.run.config.seed,
        }
        for view in views
    ]
    return {"version": __version__, "is_export": False, "runs": shown}


def _trained_on(view: RunView) -> str:
    return view.run.config.environment.name if view.run.config.training.rollouts else "sessions"


def _stage(noun: str, manifest: JsonObject | None) -> JsonObject:
    found = manifest or {}
    return {
        "noun": noun,
        "done": bool(manifest),
        **{name: found.get(name) for name in ("records", "seconds", "counts")},
    }


def _funnel_row(
    view: RunView, counts: Mapping[str, Any], noun: str, label: str, page: str, why: Mapping[str, Any]
) -> JsonObject:
    own = counts.get(noun)
    drops = [
        drop
        for name, filters in why.items()
        for reason, count in ((own or {}).get(name) or {}).items()
        if count and reason not in KEPT
        for drop in _drops(view, reason, count, filters)
    ]
    drops.sort(key=lambda drop: (not is_whole_file(drop["reason"]), -drop["count"]))
    row = {"noun": noun, "label": label, "count": own and own.get(label, 0), "page": page, "drops": drops}
    return {**row, "links": _links(view, noun) if own else []}


def _drops(view: RunView, reason: str, count: int, filters: Mapping[str, str] | None) -> list[JsonObject]:
    """With the number of rows that the filter shows; what it cannot show is said beside it, without a link."""
    filled = {name: reason if value == REASON else value for name, value in (filters or {}).items()}
    shown = _listed(view, filled) if filled else 0
    linked = [{"reason": reason, "count": shown, "filters": filled}] if shown else []
    rest = f"{reason}, not a listed {filled['page'].removesuffix('s')}" if linked else reason
    return [*linked, *([{"reason": rest, "count": count - shown, "filters": None}] if count > shown else [])]


def _links(view: RunView, noun: str) -> list[JsonObject]:
    found = [(WITHOUT[noun], {"page": "sites", "lacks": noun})] if noun in WITHOUT else []
    if noun == "pairs":
        found += [("sites never asked about", {"page": "sites", "lacks": "replies"})]
        found += [("doubtful pairs", {"page": "pairs", "doubtful": "true"})]
    counted = ({"reason": text, "count": _listed(view, filters), "filters": filters} for text, filters in found)
    return [link for link in counted if link["count"]]


def _listed(view: RunView, filters: Mapping[str, str]) -> int:
    """How many rows a page shows with these filters."""
    kinds = {"sites": "site", "pairs": "pair", "replies": "reply"}
    query = {name: value for name, value in filters.items() if name != "page"}
    return listing(view, {**query, "kind": kinds[filters["page"]], "limit": "1"})["total"]


def _spend(view: RunView, counts: Mapping[str, Any]) -> JsonObject | None:
    from composer_replication.llm.bill import bills
    from composer_replication.llm.ledger import Ledger

    path = view.run.path / "ledger.sqlite"
    if not path.exists():
        return None
    ledger = Ledger(path, read_only=True)
    try:
        totals, found = ledger.totals(), bills(ledger)
        columns = {row[0] for row in ledger.rows("SELECT name FROM pragma_table_info('attempts')")}
        clock = "began_at" if "began_at" in columns else "NULL"
        calls = ledger.rows(f"SELECT cost_micros, {clock} FROM attempts ORDER BY id")  # noqa: S608
    finally:
        ledger.close()
    pairs = counts.get("pairs", {}).get("pairs")
    return {
        "spent_micros": totals.charged_micros,
        "held_micros": totals.held_micros,
        "cap_micros": totals.cap_micros,
        "simulated": bool(counts.get("replay", {}).get("simulated")),
        "micros_per_pair": round(totals.charged_micros / pairs, 1) if pairs else None,
        "teachers": [
            {
                **{name: getattr(bill, name) for name in ("teacher", "attempts", "latency_s", "prompt_tokens")},
                "completion_tokens": bill.completion_tokens,
                "spent_micros": bill.spent_micros,
            }
            for bill in found
        ],
        "over_calls": _cumulative(calls),
    }


def _cumulative(calls: Sequence[Sequence[Any]]) -> list[JsonObject]:
    """`after_s`: when the call began, since the first; null where the ledger is from before it had a clock."""
    every, total, points = max(1, len(calls) // POINTS), 0, list[JsonObject]()
    for place, (cost, at) in enumerate(calls, 1):
        total += cost
        if place % every == 0 or place == len(calls):
            points.append({"call": place, "after_s": None if at is None else at - calls[0][1], "micros": total})
    return points


def agreement(view: RunView, query: Mapping[str, str]) -> JsonObject:
    """How often two teachers gave the same canonical call, where both gave one."""
    by_state: dict[str, dict[str, str]] = defaultdict(dict)
    answered = (
        "SELECT state_id, facts ->> 'teacher', facts ->> 'call' FROM records "
        "WHERE kind = 'reply' AND facts ->> 'outcome' = 'answered'"
    )
    for state, teacher, action in view.fresh().rows(answered):
        by_state[state][teacher] = action
    same: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for calls in by_state.values():
        for one, other in combinations(sorted(calls), 2):
            same[one, other].append(calls[one] == calls[other])
    names = sorted({teacher for calls in by_state.values() for teacher in calls})
    cells = [[same.get((min(a, b), max(a, b)), []) for b in names] for a in names]
    return {
        "teachers": names,
        "same": [[fmean(cell) if cell else None for cell in row] for row in cells],
        "n": [[len(cell) for cell in row] for row in cells],
        "people": people(view),
    }


def people(view: RunView) -> JsonObject:
    """How far people choose what the teachers' vote chose, beyond chance: `blind` and `open` votes apart.

    One item per site that became a pair. Its options are the chosen call, each other call, and, where it is not the
    chosen one, what the actor did, and none. A vote for a tie prefers nothing and is left out.
    """
    found: dict[str, list[tuple[float, float]]] = {"blind": [], "open": []}
    for site_id, votes in all_votes(view.run.path).items():
        site = view.first("id = ? AND kind = 'site'", site_id)
        pair = view.first("state_id = ? AND kind = 'pair'", site.state_id) if site else None
        if site is None or pair is None:
            continue
        chosen = {*pair.body["provenance"], *(["actor"] if pair.body["chosen_from"] == "actor" else [])}
        replies = [reply for reply in replies_at(view, str(site.state_id)) if reply["outcome"] == "answered"]
        others = {reply["action"] for reply in replies if reply["key"] not in chosen}
        options = 1 + len(others) + len({"actor", "none"} - chosen)
        for name, items in found.items():
            ballots = [vote["choice"] in chosen for vote in votes.values() if _counts(vote, name)]
            if ballots:
                items.append((fmean(ballots), 1 / options))
    return {name: _kappa(items) for name, items in found.items()}


def _counts(vote: JsonObject, name: str) -> bool:
    return vote["choice"] != "tie" and bool(vote.get("blind")) == (name == "blind")


def _kappa(items: Sequence[tuple[float, float]]) -> JsonObject | None:
    if not items:
        return None
    from composer_replication.evaluation.stats import kappa, said

    return _worded(said(kappa(*zip(*items, strict=True))))


def _now(view: RunView) -> str | None:
    """What the command that holds the lock does: training has written since then, and has not ended."""
    if not view.run.is_in_use():
        return None
    began, wrote = view.run.path / LOCK, view.run.path / "training" / "windows.jsonl"
    found = training(view, {})
    if found["done"] or not wrote.exists() or wrote.stat().st_mtime_ns < began.stat().st_mtime_ns:
        return "another command works on this run"
    done = found["rows"][-1]["step"] if found["rows"] else 0
    return f"training, step {min(done + 1, found['steps'])} of {found['steps']}"


def _result(view: RunView) -> JsonObject | None:
    result = _json_file(view, "report.json")
    names = ("success_before", "success_after", "difference")
    return result and result | {name: _worded(result[name]) for name in names if result.get(name)}


def _worded(estimate: JsonObject) -> JsonObject:
    """With `why` it has no interval; null where it has one."""
    from composer_replication.evaluation.stats import no_interval

    return {**estimate, "why": no_interval(estimate["n"]) if estimate["lo"] is None else None}


def _rewards(view: RunView, phase: str) -> dict[str, dict[str, list[float]]]:
    """Whether each episode got the full reward, by split and task."""
    view.fresh()
    found: dict[str, dict[str, list[float]]] = {}
    for facts in view.facts("kind = 'outcome' AND facts ->> 'phase' = ? ORDER BY number", phase):
        found.setdefault(facts["split"], {}).setdefault(facts["task_id"], []).append(float(facts["reward"] >= 1))
    if not found:
        raise UsageError(f"{view.place} has no outcomes {phase} training", f"recompose evaluate {quoted(view.place)}")
    return found


def _repositories(view: RunView, tasks: Sequence[str]) -> list[str | None]:
    from composer_replication.evaluation.compare import REPOSITORY

    outcomes = view.facts("kind = 'outcome'")
    by_task = {facts["task_id"]: facts.get("labels", {}).get(REPOSITORY) for facts in outcomes}
    return [by_task[task] for task in tasks]


def _json_file(view: RunView, name: str) -> JsonObject | None:
    path = view.run.path / name
    if path.is_symlink():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
