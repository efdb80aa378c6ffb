"""Answers about training: curves while it runs, rollouts that were kept, tokens with their weights."""

from __future__ import annotations

import time
from collections.abc import Mapping

from composer_replication.records import JsonObject

from ..annotations import json_lines
from ..lookup import RunView, number
from .parts import ref

METRICS, ALARMS, READ = "training/metrics.jsonl", "training/alarms.jsonl", "training/read.jsonl"
LIVE_S, LIVE_STEPS = 60.0, 5
"""A training without a manifest that wrote within this time, or within that many steps, is taken to run."""
MAX_STEPS = 5000


def training(view: RunView, query: Mapping[str, str]) -> JsonObject:
    """Needs no cache, so that a page can ask every few seconds."""
    path, after = view.run.path / METRICS, number(query.get("after", ""), 0)
    updated = path.stat().st_mtime if path.exists() else None
    is_done = view.run.stage("training").is_done
    rows = [line for line in json_lines(path) if line.get("step", 0) > after and "train_runtime" not in line]
    patience_s = max(LIVE_S, LIVE_STEPS * float(rows[-1].get("step_time", 0)) if rows else 0)
    samples = sorted(int(file.name[5:12]) for file in (view.run.path / "training/samples").glob("step_*.jsonl.zst"))
    return {
        "live": not is_done and updated is not None and time.time() - updated < patience_s,
        "done": is_done,
        "steps": view.run.config.training.steps,
        "rows": rows[-MAX_STEPS:],
        "alarms": list(json_lines(view.run.path / ALARMS)),
        "samples": samples,
        "channels": [channel.name for channel in view.run.config.channels],
        "updated": updated,
    }


def read_in_training(view: RunView, trace_id: str) -> list[int]:
    """Steps in which the stored trace was read by the added channels."""
    lines = json_lines(view.run.path / READ)
    return [line["step"] for line in lines if trace_id in line.get("traces", ())]


def rollout(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    found = view.get("rollout", query.get("id", ""))
    body = found.body
    others = view.facts("parent = ? AND kind = 'rollout' AND id != ? ORDER BY number LIMIT 50", found.parent, found.id)
    evidence = view.first("kind = 'evidence' AND id = ?", found.trace_id)
    facts = evidence.body["evidence"] if evidence else {}
    return {
        "id": found.id,
        **{name: body[name] for name in ("step", "trace_id", "task_id", "reward", "prompt", "turns", "sampled_tokens")},
        "tokens": view.first("kind = 'tokens' AND id = ?", found.id) is not None,
        "findings": view.facts("kind = 'finding' AND trace_id = ?", found.trace_id),
        "canaries": facts.get("canary_hits", []),
        "tests": facts.get("grade"),
        "others": [
            ref("rollout", other["id"], f"step {other['step']}, reward {other['reward']:g}") for other in others
        ],
    }


def task(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    name = query.get("id", "")
    traces = view.facts("kind = 'trace' AND facts ->> 'task_id' = ? LIMIT 500", name)
    rollouts = view.facts("parent = ? AND kind = 'rollout' ORDER BY number LIMIT 500", name)
    outcomes = view.facts("parent = ? AND kind = 'outcome' ORDER BY number LIMIT 500", name)
    if not (traces or rollouts or outcomes):
        raise view.missing(f"task {name}")
    findings = [finding for each in traces for finding in _findings(view, each["trace_id"])]
    told = {"task_id": name, "statement": _statement(view, traces, rollouts)}
    return {**told, "traces": traces, "rollouts": rollouts, "outcomes": outcomes, "findings": findings}


def _statement(view: RunView, traces: list[JsonObject], rollouts: list[JsonObject]) -> str | None:
    """What the first attempt that the run keeps was told; outcomes alone hold no text."""
    if traces:
        trace_id = traces[0]["trace_id"]
        (first,) = view.cache.part(trace_id, "t", 0, 1) or [{"start": 1}]
        messages = view.cache.part(trace_id, "m", 0, first["start"])
    else:
        messages = view.get("rollout", rollouts[0]["id"]).body["prompt"] if rollouts else []
    return next((message["content"] for message in messages if message["role"] == "user"), None)


def tokens(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    if "id" not in query:
        return {"rows": _token_rows(view)}
    found = view.all("kind = 'tokens' AND id = ? ORDER BY number", query["id"])
    if not found:
        raise view.missing(f"token weights {query['id']}")
    rows: dict[tuple[str, tuple[int, ...]], JsonObject] = {}
    for each in found:
        body = each.body
        row = rows.setdefault(
            (body["part"], tuple(body["ids"])),
            {**{name: body.get(name) for name in ("part", "ids")}, "channels": {}},
        )
        row["channels"][body["channel"]] = body["weights"]
        row |= {name: body.get(name) or row.get(name) for name in ("pieces", "mask", "entropy")}
    first = found[0].facts
    return {"id": found[0].id, "step": first["step"], "trace_id": first["trace_id"], "rows": list(rows.values())}


def _token_rows(view: RunView) -> list[JsonObject]:
    rows: dict[str, JsonObject] = {}
    for facts in view.facts("kind = 'tokens' ORDER BY number"):
        empty = {"id": facts["id"], "step": facts["step"], "trace_id": facts["trace_id"], "n_tokens": 0}
        row = rows.setdefault(facts["id"], {**empty, "parts": [], "channels": []})
        row["n_tokens"] = max(row["n_tokens"], facts["n_tokens"])
        for name in ("part", "channel"):
            if facts[name] not in row[f"{name}s"]:
                row[f"{name}s"].append(facts[name])
    return list(rows.values())


def _findings(view: RunView, trace_id: str) -> list[JsonObject]:
    return view.facts("trace_id = ? AND kind = 'finding'", trace_id)
