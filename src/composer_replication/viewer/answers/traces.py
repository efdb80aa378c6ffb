"""Answers about traces: a window of turns, one message, what the actor saw, the bytes of the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from composer_replication.records import JsonObject, Message, Segment, Turn, emptied, seen_before

from ..lookup import CachedRecord, RunView, number
from ..source import source_bytes
from .parts import assembled, shown_message

MAX_TURNS, MAX_WINDOW_CHARS = 200, 1 << 20
MAX_REQUEST_CHARS, MOST_LOOKED_AT = 2000, 400
"""Of the request above a pair, and messages in which it is looked for."""


def trace(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    found = view.get("trace", query.get("id", ""))
    head, turns = found.body, found.facts["turns"]
    start = min(number(query.get("from", ""), 0), turns)
    end = min(number(query.get("to", ""), start + 50), turns, start + MAX_TURNS)
    stored = view.cache.part(found.id, "t", start, end)
    attached = view.all("trace_id = ? AND kind IN ('site', 'pair', 'finding') ORDER BY turn", found.id)
    shown = _window(view, found.id, start, stored, attached)
    segments = [{"start": each["start"], "cleared": len(each["cleared"])} for each in head["segments"]]
    return {
        "trace_id": found.id,
        **{name: head[name] for name in ("source", "task_id", "outcome", "tools_inferred", "system_is_ours")},
        "tool_names": [tool.get("function", {}).get("name") for tool in head["tools"]],
        "n_turns": turns,
        "n_messages": found.facts["messages"],
        "before": _before(view, found, stored) if not start else [],
        "from": start,
        "to": start + len(shown),
        "turns": shown,
        "marks": [_mark(each) for each in attached],
        "segments": segments,
    }


def message(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    trace_id, place = query.get("trace", ""), number(query.get("n", ""), 0)
    found = view.cache.part(trace_id, "m", place, place + 1)
    if not found:
        raise view.missing(f"message {place} of {trace_id}")
    return shown_message(found[0], place, limit=None)


def saw(view: RunView, query: Mapping[str, str]) -> JsonObject:
    """The history before a turn, the latest last."""
    view.fresh()
    found, place = view.get("trace", query.get("trace", "")), number(query.get("turn", ""), 0)
    turn = view.cache.part(found.id, "t", place, place + 1)
    if not turn:
        raise view.missing(f"turn {found.id}:{place}")
    segments = [Segment(**each) for each in found.body["segments"]]
    seen, cleared = seen_before(segments, Turn(**turn[0]))
    start = min(number(query.get("from", ""), max(0, len(seen) - 20)), len(seen))
    end = min(number(query.get("to", ""), start + MAX_TURNS), start + MAX_TURNS, len(seen))
    shown = [_marked(found, shown_message(_seen(view, found.id, n, n in cleared), n)) for n in seen[start:end]]
    return {"total": len(seen), "from": start, "to": end, "messages": shown}


def last_request(view: RunView, trace_id: str, place: int) -> JsonObject | None:
    """What a user said last before a turn."""
    (turn,) = view.cache.part(trace_id, "t", place, place + 1)
    segments = [Segment(**each) for each in view.get("trace", trace_id).body["segments"]]
    seen, _ = seen_before(segments, Turn(**turn))
    for n in reversed(seen[-MOST_LOOKED_AT:]):
        (found,) = view.cache.part(trace_id, "m", n, n + 1)
        if found["role"] == "user":
            return shown_message(found, n, MAX_REQUEST_CHARS)
    return None


def source(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    return source_bytes(view, query.get("trace", ""), number(query.get("turn", ""), 0))


def _seen(view: RunView, trace_id: str, place: int, is_cleared: bool) -> Message:
    (found,) = view.cache.part(trace_id, "m", place, place + 1)
    return emptied(found) if is_cleared else found


def _window(
    view: RunView, trace_id: str, start: int, stored: list[JsonObject], attached: list[CachedRecord]
) -> list[JsonObject]:
    """At least one turn, and no more than a page can take at once."""
    if not stored:
        return []
    first, last = stored[0]["start"], stored[-1]["end"]
    messages = view.cache.part(trace_id, "m", first, last)
    by_turn: dict[int, list[CachedRecord]] = defaultdict(list)
    for each in attached:
        if each.turn is not None:
            by_turn[each.turn].append(each)
    shown, chars = list[JsonObject](), 0
    for place, turn in enumerate(stored, start):
        own = messages[turn["start"] - first : turn["end"] - first]
        entry = assembled(trace_id, place, turn, own, by_turn[place])
        chars += sum(len(each["content"]) for each in entry["messages"])
        if shown and chars > MAX_WINDOW_CHARS:
            break
        shown.append(entry)
    return shown


def _before(view: RunView, found: CachedRecord, stored: list[JsonObject]) -> list[JsonObject]:
    """Messages ahead of the first turn."""
    end = stored[0]["start"] if stored else found.facts["messages"]
    messages = enumerate(view.cache.part(found.id, "m", 0, end))
    return [_marked(found, shown_message(each, place)) for place, each in messages]


def _marked(found: CachedRecord, message: JsonObject) -> JsonObject:
    """A system prompt that is in no file of the user's is said to be supplied."""
    return {**message, "supplied": True} if found.body["system_is_ours"] and message["n"] == 0 else message


def _mark(each: CachedRecord) -> JsonObject:
    label = each.facts.get("hack_class") or each.facts.get("error_kind") or ""
    return {"turn": each.turn, "kind": each.kind, "id": each.id, "label": label}
