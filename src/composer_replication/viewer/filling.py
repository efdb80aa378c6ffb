"""From the files of a run to entries of the cache: one function per kind of record, one table that names them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel

from composer_replication.evaluation.held_out import opening_of
from composer_replication.records import (
    ErrorSite,
    Finding,
    Hint,
    JsonObject,
    Message,
    PreferencePair,
    TeacherReply,
    Trace,
    content_id,
    render_action,
)
from composer_replication.runs import Run, read_records

from .cache import Cache, CacheEntry
from .doubts import doubts
from .visible import one_line

SHORT = 200
"""Characters of a text in a list."""


class AnyFields(RootModel[JsonObject]):
    """A record of a package that this one does not import."""


class CachedStage(NamedTuple):
    record_type: type[BaseModel]
    entry: Callable[[Any], CacheEntry]


def _short(text: str) -> str:
    return one_line(text, SHORT)


def _plain(record: BaseModel) -> JsonObject:
    return record.model_dump(mode="json", exclude={"schema_version"})


def _trace(trace: Trace) -> CacheEntry:
    first = next((message["content"] for message in trace.messages if message["role"] == "user"), "")
    head = trace.model_dump(mode="json", exclude={"schema_version", "messages", "turns"})
    models = {turn.source_model for turn in trace.turns if turn.source_model}
    facts = {
        "trace_id": trace.trace_id,
        "agent": trace.source.agent,
        "file": trace.source.file,
        "model": min(models, default=None),
        "turns": len(trace.turns),
        "messages": len(trace.messages),
        "task_id": trace.task_id,
        "outcome": trace.outcome,
        "title": _short(first),
        "opening": opening_of(trace),
    }
    turns = [turn.model_dump(mode="json", exclude_defaults=True) for turn in trace.turns]
    return CacheEntry("trace", trace.trace_id, facts, head, trace.trace_id, parts=(("m", trace.messages), ("t", turns)))


def _site(site: ErrorSite) -> CacheEntry:
    body = _plain(site)
    facts = {name: value for name, value in body.items() if name not in ("tool_schema", "available_tools", "span")}
    facts["error_message"] = _short(site.error_message)
    return CacheEntry("site", site.site_id, facts, body, site.trace_id, site.turn, site.state_id)


def _hint(hint: Hint) -> CacheEntry:
    body = _plain(hint)
    return CacheEntry("hint", hint.hint_id, body, body, parent=hint.site_id)


def _reply(reply: TeacherReply) -> CacheEntry:
    body = _plain(reply)
    left_out = ("raw", "usage", "served_model")
    facts = {name: value for name, value in body.items() if name not in left_out}
    facts |= {"action": _short(reply.action or ""), "call": reply.action and content_id(reply.action)}
    return CacheEntry("reply", reply.key, facts, body, reply.trace_id, reply.turn, reply.state_id)


def _pair(pair: PreferencePair) -> CacheEntry:
    body = _plain(pair)
    found = doubts(body)
    facts = {
        "pair_id": pair.pair_id,
        "trace_id": pair.trace_id,
        "turn": pair.turn,
        "state_id": pair.state_id,
        "error_kind": pair.kind,
        "tier": pair.agreement.tier,
        "votes": pair.agreement.votes,
        "n": pair.agreement.n,
        "chosen_from": pair.chosen_from,
        "rejected_from": pair.rejected_from,
        "off_policy": pair.off_policy,
        "precision": pair.precision,
        "simulated": pair.simulated,
        "doubtful": bool(found),
        "doubts": ", ".join(found) or None,
        "chosen": _acted(pair.chosen),
        "rejected": _acted(pair.rejected),
    }
    return CacheEntry("pair", pair.pair_id, facts, body, pair.trace_id, pair.turn, pair.state_id)


def _finding(finding: Finding) -> CacheEntry:
    facts = {**_plain(finding), "lines": [_short(line) for line in finding.lines[:3]]}
    return CacheEntry("finding", finding.finding_id, facts, _plain(finding), finding.trace_id)


def _bare(record: AnyFields) -> JsonObject:
    return {name: value for name, value in record.root.items() if name != "schema_version"}


def _outcome(record: AnyFields) -> CacheEntry:
    body = _bare(record)
    name = f"{body['phase']}/{body['task_id']}/{body.get('sample', 0)}"
    return CacheEntry("outcome", name, body, {}, parent=body["task_id"])


def _verdict(record: AnyFields) -> CacheEntry:
    body = _bare(record)
    return CacheEntry("verdict", body["trace_id"], body, {}, body["trace_id"])


def _refused_hint(record: AnyFields) -> CacheEntry:
    return CacheEntry("refusal", record.root["site_id"], record.root, {}, parent=record.root["site_id"])


def _evidence(record: AnyFields) -> CacheEntry:
    return CacheEntry("evidence", record.root["trace_id"], {}, record.root, record.root["trace_id"])


def _asked(record: AnyFields) -> CacheEntry:
    return CacheEntry("asked", record.root["state_id"], record.root, {}, state_id=record.root["state_id"])


def _ended(record: AnyFields) -> CacheEntry:
    return CacheEntry("ended", record.root["state_id"], record.root, {}, state_id=record.root["state_id"])


def _rollout(record: AnyFields) -> CacheEntry:
    body = record.root
    facts: JsonObject = {
        "id": f"{body['step']}-{body['trace_id']}",
        **{name: body[name] for name in ("step", "trace_id", "task_id", "reward", "sampled_tokens")},
        "solved": body["reward"] >= 1,
        "turns": len(body["turns"]),
        "errors": sorted({kind for turn in body["turns"] for kind in turn.get("error_kinds", ())}),
    }
    return CacheEntry("rollout", facts["id"], facts, body, body["trace_id"], parent=body["task_id"])


def _tokens(record: AnyFields) -> CacheEntry:
    body = record.root
    owner = body.get("trace_id") or "stored"
    facts: JsonObject = {
        "id": f"{body['step']}-{owner}",
        **{name: body.get(name) for name in ("step", "trace_id", "channel", "part")},
        "n_tokens": len(body["ids"]),
    }
    return CacheEntry("tokens", facts["id"], facts, body, body.get("trace_id"))


STAGES = {
    "ingestion": CachedStage(Trace, _trace),
    "sites": CachedStage(ErrorSite, _site),
    "hints": CachedStage(Hint, _hint),
    "replay": CachedStage(TeacherReply, _reply),
    "pairs": CachedStage(PreferencePair, _pair),
    "evaluation": CachedStage(AnyFields, _outcome),
    "monitor": CachedStage(Finding, _finding),
}
FILES = {
    "monitor/verdicts.jsonl.zst": _verdict,
    "ingestion/evidence.jsonl.zst": _evidence,
    "hints/refused.jsonl.zst": _refused_hint,
    "replay/states.jsonl.zst": _asked,
    "pairs/verdicts.jsonl.zst": _ended,
    "training/samples/step_*.jsonl.zst": _rollout,
    "training/token_weights/step_*.jsonl.zst": _tokens,
}
"""Beside the stages' own records; each appears whole, also while a training runs."""


def fill(run: Run, cache: Cache) -> None:
    """Read what is new. Cheap where nothing is."""
    known, current = cache.marks(), dict[str, tuple[str, Callable[[], Iterator[CacheEntry]]]]()
    for noun, stage in STAGES.items():
        folder = run.stage(noun)
        if folder.is_done:
            current[noun] = (
                folder.sha256,
                lambda folder=folder, stage=stage: map(stage.entry, folder.stream(stage.record_type)),
            )
    for pattern, entry in FILES.items():
        for path in (path for path in run.path.glob(pattern) if not path.is_symlink()):
            status = path.stat()
            mark = f"{status.st_size}/{status.st_mtime_ns}"
            current[path.relative_to(run.path).as_posix()] = mark, lambda path=path, entry=entry: _read(path, entry)
    for name in known.keys() - current.keys():
        cache.replace(name, None, ())
    for name, (mark, entries) in current.items():
        if known.get(name) != mark:
            cache.replace(name, mark, entries())


def _read(path: Path, entry: Callable[[AnyFields], CacheEntry]) -> Iterator[CacheEntry]:
    return map(entry, read_records(path, AnyFields))


def _acted(message: Message) -> str:
    return _short(render_action(message))
