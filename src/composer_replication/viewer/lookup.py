"""A run as the answers see it: records by id, by what they belong to, and in lists with filters."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from composer_replication.errors import UsageError, quoted
from composer_replication.evaluation.held_out import held_out
from composer_replication.records import JsonObject, content_id
from composer_replication.runs import Run

from .cache import Cache, unpacked
from .filling import fill

FACETS: dict[str, tuple[str, ...]] = {
    "trace": ("agent", "model", "task_id"),
    "site": ("error_kind", "fault", "tool_name", "detector"),
    "hint": ("layer", "leak_level"),
    "reply": ("teacher", "outcome", "finish_reason"),
    "pair": ("error_kind", "tier", "chosen_from", "rejected_from", "off_policy", "doubtful", "doubts"),
    "rollout": ("step", "task_id", "solved"),
    "outcome": ("split", "phase", "reward"),
    "verdict": ("alarm", "hard", "person"),
    "finding": ("hack_class", "evidence", "layer"),
    "tokens": ("step", "channel", "part"),
}
"""Kinds that have lists, and what their rows are grouped by."""
SHOWN = ("trace", "site", "hint", "reply", "pair", "rollout", "finding")
"""Kinds with ids of their own."""
MAX_ROWS, FACET_VALUES = 500, 30
_FIELD = re.compile(r"[a-z_]{1,40}")
_TURN = re.compile(r"(.+):(\d{1,9})")
_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_JOINS = {
    ("trace", "sites"): "other.trace_id = records.id AND other.kind = 'site'",
    ("trace", "pairs"): "other.trace_id = records.id AND other.kind = 'pair'",
    ("trace", "findings"): "other.trace_id = records.id AND other.kind = 'finding'",
    ("site", "hints"): "other.parent = records.id AND other.kind = 'hint'",
    ("site", "pairs"): "other.state_id = records.state_id AND other.kind = 'pair'",
    ("site", "replies"): "other.state_id = records.state_id AND other.kind = 'reply'",
}
"""What `has=` and `lacks=` may name, and which numbers rows of a list carry."""
_VERDICT = (
    "(SELECT other.facts ->> 'verdict' FROM records other"
    " WHERE other.state_id = records.state_id AND other.kind = 'ended')"
)
"""What became of the state of a site; rows of sites carry it, and `verdict=` filters by it."""


def _beside(kind: str, place: str, value: str) -> str:
    return f"(SELECT {value} FROM records other WHERE {place} AND other.kind = '{kind}' LIMIT 1)"  # noqa: S608


_OF_SITE = "other.id = records.parent"
_BESIDE = {
    "site": {
        "verdict": _VERDICT,
        "hint": _beside("hint", "other.parent = records.id", "other.facts ->> 'text'"),
        "no_hint": _beside("refusal", "other.parent = records.id", "other.facts ->> 'reason'"),
    },
    "hint": {
        "error_kind": _beside("site", _OF_SITE, "other.facts ->> 'error_kind'"),
        "trace_id": _beside("site", _OF_SITE, "other.trace_id"),
        "turn": _beside("site", _OF_SITE, "other.turn"),
    },
}
"""What rows of a list carry of other records, by kind."""


def _holds(text: str) -> str:
    """The page shows `exit_code` as words; both find it."""
    return f"instr(lower(replace({text}, '_', ' ')), lower(?))"


_ANY_TEXT = (
    "EXISTS (SELECT 1 FROM json_tree(records.facts) AS field WHERE field.type IN ('text', 'integer', 'real')"  # noqa: S608
    f" AND {_holds('field.atom')})"
)
"""Not the JSON itself: a name of a field is in every row, and quotes are escaped."""


@dataclass
class CachedRecord:
    """Unpacked where it is looked into: of most of many records only the id is wanted."""

    kind: str
    id: str
    trace_id: str | None
    turn: int | None
    state_id: str | None
    parent: str | None
    stored_facts: str
    stored_body: bytes

    @cached_property
    def facts(self) -> JsonObject:
        return orjson.loads(self.stored_facts)

    @cached_property
    def body(self) -> JsonObject:
        return unpacked(self.stored_body)


class RunView:
    """One run that is looked at."""

    def __init__(self, run: Run, name: str | None = None) -> None:
        self.run, self.name = run, name or run.path.resolve().name
        self.place = str(run.path)
        """How answers name the run's folder; an export, which may go to anybody, does not say where it lies."""
        self.cache = Cache(run)
        self._filling = threading.Lock()

    def fresh(self) -> Cache:
        """The cache, with what was added to the run since."""
        with self._filling:
            fill(self.run, self.cache)
        return self.cache

    def get(self, kind: str, record_id: str) -> CachedRecord:
        found = self.all("kind = ? AND id = ?", kind, record_id)
        if not found:
            raise self.missing(f"{kind} {record_id}")
        return found[0]

    def first(self, where: str, *values: Any) -> CachedRecord | None:
        return next(iter(self.all(f"{where} LIMIT 1", *values)), None)

    def all(self, where: str, *values: Any) -> list[CachedRecord]:
        query = f"SELECT kind, id, trace_id, turn, state_id, parent, facts, body FROM records WHERE {where}"  # noqa: S608
        return [CachedRecord(*row) for row in self.cache.rows(query, *values)]

    def facts(self, where: str, *values: Any) -> list[JsonObject]:
        query = f"SELECT facts FROM records WHERE {where}"  # noqa: S608
        return [orjson.loads(row[0]) for row in self.cache.rows(query, *values)]

    def held_out(self) -> set[str]:
        """Sessions that training leaves alone, by their ids; what the policy played itself comes from no file."""
        share = self.run.config.evaluation.held_out_sessions
        query = "SELECT id, facts ->> 'opening' FROM records WHERE kind = 'trace' AND facts ->> 'file' IS NOT NULL"
        return held_out({str(trace_id): str(opening) for trace_id, opening in self.cache.rows(query)}, share)

    def missing(self, what: str) -> UsageError:
        return UsageError(f"{self.place} has no {what}", f"recompose show {quoted(self.place)}")

    def resolve(self, text: str) -> tuple[str, str]:
        """Kind and id of what a person named: a whole id, its beginning, TRACE:TURN, a state or a task."""
        if turn := _TURN.fullmatch(text):
            kind, trace_id = self.resolve(turn[1])
            if kind == "trace" and int(turn[2]) < self.get("trace", trace_id).facts["turns"]:
                return "turn", f"{trace_id}:{int(turn[2])}"
            raise self.missing(f"turn {text}")
        found = self._named("id = ?", text)
        if not found and _PREFIX.fullmatch(text):
            found = self._named("id >= ? AND id < ?", text, f"{text}g")
        if not found and (state := self.first("state_id = ? AND trace_id IS NOT NULL", text)):
            return "turn", f"{state.trace_id}:{state.turn}"
        if not found and (rollout := self.first("kind = 'rollout' AND trace_id = ?", text)):
            return "rollout", rollout.id
        if not found and self.facts("parent = ? AND kind IN ('rollout', 'outcome') LIMIT 1", text):
            return "task", text
        if not found and self.facts("kind = 'trace' AND facts ->> 'task_id' = ? LIMIT 1", text):
            return "task", text
        if not found:
            raise self.missing(text)
        if len(found) > 1:
            named = ", ".join(f"{kind} {record_id[:16]}" for kind, record_id in found[:4])
            raise UsageError(f"{text} begins several ids ({named})", "give more of the one that you mean")
        return found[0]

    def _named(self, where: str, *values: str) -> list[tuple[str, str]]:
        kinds = ", ".join(f"'{kind}'" for kind in SHOWN)
        query = f"SELECT DISTINCT kind, id FROM records WHERE {where} AND kind IN ({kinds}) LIMIT 5"  # noqa: S608
        return [(kind, record_id) for kind, record_id in self.cache.rows(query, *values)]


def state_of(trace_id: str, turn: int) -> str:
    return content_id(trace_id, turn)


def listing(view: RunView, query: Mapping[str, str]) -> JsonObject:
    """Rows of a kind, with filters; see `design/010-viewer.md`."""
    rest = dict(query)
    kind = rest.pop("kind", "site")
    if kind not in FACETS:
        raise UsageError(f"no list of {kind}", f"choose from {', '.join(FACETS)}")
    offset, limit = number(rest.pop("offset", ""), 0), min(number(rest.pop("limit", ""), 50), MAX_ROWS)
    sort = rest.pop("sort", "")
    where, values = _condition(kind, rest)
    cache = view.fresh()
    if "q" in rest:  # looked into once: below, every facet counts again
        found = [number for (number,) in cache.rows(f"SELECT number FROM records WHERE {where}", *values)]  # noqa: S608
        where, values = "number IN (SELECT value FROM json_each(?))", [orjson.dumps(found).decode()]
    ((total,),) = cache.rows(f"SELECT COUNT(*) FROM records WHERE {where}", *values)  # noqa: S608
    counted = {name: how for (of, name), how in _JOINS.items() if of == kind}
    joins = {name: f"(SELECT COUNT(*) FROM records other WHERE {how})" for name, how in counted.items()}  # noqa: S608
    joins |= _BESIDE.get(kind, {})
    joined = "".join(f", {column}" for column in joins.values())
    order, by = _order(sort)
    found = cache.rows(
        f"SELECT facts{joined} FROM records WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",  # noqa: S608
        *values, *by, limit, offset,
    )  # fmt: skip
    rows = [{**orjson.loads(facts), **dict(zip(joins, values, strict=True))} for facts, *values in found]
    if kind == "site":
        left_alone = view.held_out()
        rows = [{**row, "held_out": row["trace_id"] in left_alone} for row in rows]
    facets = {field: _facet(cache, field, where, values) for field in FACETS[kind]}
    return {"kind": kind, "total": total, "offset": offset, "rows": rows, "facets": facets}


def _condition(kind: str, filters: Mapping[str, str]) -> tuple[str, list[Any]]:
    parts, values = ["kind = ?"], list[Any]([kind])
    for field, value in filters.items():
        if field in ("has", "lacks"):
            how = _JOINS.get((kind, value))
            if how is None:
                raise UsageError(f"a {kind} has no {value}", "choose another filter")
            inside = f"EXISTS (SELECT 1 FROM records other WHERE {how})"  # noqa: S608
            parts.append(inside if field == "has" else f"NOT {inside}")
        elif (kind, field) == ("site", "verdict"):
            parts.append(f"{_VERDICT} IS ?")
            values.append(value if value not in ("null", "") else None)
        elif field == "q":
            parts.append(f"({' OR '.join([_ANY_TEXT, *map(_holds, _BESIDE.get(kind, {}).values())])})")
            values += [value.replace("_", " ")] * parts[-1].count("?")
        elif not _FIELD.fullmatch(field):
            raise UsageError("a filter is the name of a field", "take it out")
        elif value in ("null", ""):
            parts.append("facts ->> ? IS NULL")
            values.append(field)
        else:
            parts.append("CAST(facts ->> ? AS TEXT) = ?")
            values += [field, {"true": "1", "false": "0"}.get(value, value)]
    return " AND ".join(parts), values


def _order(sort: str) -> tuple[str, list[str]]:
    field = sort.removeprefix("-")
    if not _FIELD.fullmatch(field):
        return "number", []
    return f"facts ->> ? {'DESC' if sort.startswith('-') else 'ASC'}, number", [field]


def _facet(cache: Cache, field: str, where: str, values: list[Any]) -> list[JsonObject]:
    grouped = f"SELECT facts -> ?, COUNT(*) FROM records WHERE {where} GROUP BY 1 ORDER BY 2 DESC LIMIT {FACET_VALUES}"  # noqa: S608
    return [
        {"value": orjson.loads(value or "null"), "count": count} for value, count in cache.rows(grouped, field, *values)
    ]


def number(text: str, otherwise: int) -> int:
    """A count in a query; a `UsageError` for anything else."""
    if not text:
        return otherwise
    if not re.fullmatch(r"\d{1,9}", text):
        raise UsageError(f"{text[:40]!r} is not a number", "give a whole number")
    return int(text)
