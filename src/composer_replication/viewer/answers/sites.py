"""Answers about sites, pairs and votes: what the policy saw, what teachers would have done, and what people say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject

from ..annotations import NOT_A_REPLY, add_vote, tally, votes_on
from ..doubts import doubts, kept_because, who_voted
from ..lookup import CachedRecord, RunView
from .parts import blinded, by_letter, ref, refs, replies_at, shown_reply, shown_turn, side, trace_card
from .training import read_in_training


def site(view: RunView, query: Mapping[str, str], who: str = "") -> JsonObject:
    view.fresh()
    found = view.get("site", query.get("id", ""))
    hint = view.first("parent = ? AND kind = 'hint'", found.id)
    pairs = view.all("state_id = ? AND kind = 'pair'", found.state_id)
    raw = replies_at(view, str(found.state_id))
    replies = [shown_reply(reply, _voters(pairs)) for reply in raw]
    votes = vote_state(view, found.id, who, query.get("blind") == "1")
    is_hidden = query.get("blind") == "1" and votes["mine"] is None
    return {
        "site": found.body,
        "hint": hint.body if hint else None,
        "trace": trace_card(view, str(found.trace_id)),
        "turn": shown_turn(view, str(found.trace_id), int(found.turn or 0)),
        "replies": blinded(replies, found.id) if is_hidden else replies,
        "pair": refs(pairs, "error_kind")[0] if pairs and not is_hidden else None,
        "agreement": None if is_hidden else agreement_at(raw),
        "votes": votes,
        "training": [] if is_hidden else read_in_training(view, str(found.trace_id)),
    }


def reply(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    found = view.get("reply", query.get("id", ""))
    return {"reply": shown_reply(found.body, _voters(view.all("state_id = ? AND kind = 'pair'", found.state_id)))}


def pair(view: RunView, query: Mapping[str, str]) -> JsonObject:
    view.fresh()
    found = view.get("pair", query.get("id", ""))
    body = found.body
    sites = view.all("state_id = ? AND kind = 'site'", found.state_id)
    hint = view.first("parent = ? AND kind = 'hint'", sites[0].id) if sites else None
    chosen, rejected = side(body["chosen"]), side(body["rejected"])
    trace, agreement = trace_card(view, str(found.trace_id)), body["agreement"]
    replies = [shown_reply(reply, body["provenance"]) for reply in replies_at(view, str(found.state_id))]
    of_people = _people(body, votes_on(view.run.path, sites[0].id)) if sites else {}
    names = ("precision", "chosen_from", "rejected_from", "off_policy", "simulated")
    return {
        "pair": {name: value for name, value in body.items() if name not in ("chosen", "rejected", "tools")},
        "trace": trace,
        "turn": shown_turn(view, str(found.trace_id), int(found.turn or 0)),
        "site": ref("site", sites[0].id, sites[0].facts["error_kind"]) if sites else None,
        "hint": ref("hint", hint.id, hint.body["text"]) if hint else None,
        "chosen": chosen,
        "rejected": rejected,
        "diff": difference(chosen["calls"], rejected["calls"]),
        "why": {
            **agreement,
            **{name: body[name] for name in names},
            "rule": view.run.config.pairs.rule,
            "kept_because": kept_because(body, trace["source"]["agent"]),
            "who_voted": who_voted(replies, body["chosen"]),
            "doubts": [{"name": name, "says": says} for name, says in {**of_people, **doubts(body)}.items()],
        },
        "replies": replies,
        "training": read_in_training(view, str(found.trace_id)),
    }


def difference(chosen: Sequence[JsonObject], rejected: Sequence[JsonObject]) -> JsonObject:
    """Argument by argument, of the first call of each side."""
    one, other = (_flat(calls[0]["parsed"]) if calls else {} for calls in (chosen, rejected))
    rows = [
        {"path": path, "chosen": one.get(path), "rejected": other.get(path), "same": one.get(path) == other.get(path)}
        for path in dict.fromkeys((*one, *other))
    ]
    names = [calls[0]["name"] if calls else None for calls in (chosen, rejected)]
    return {"same_tool": names[0] == names[1], "tools": names, "arguments": rows}


def agreement_at(replies: Sequence[JsonObject]) -> JsonObject:
    """Families by the call that they gave, spelled canonically; the vote itself may also take near calls as one."""
    calls = {reply["family"]: reply["action"] for reply in replies if reply["outcome"] == "answered"}
    sizes = Counter(calls.values())
    return {
        "families": len(calls),
        "largest": max(sizes.values(), default=0),
        "needed": math.ceil(2 * len(calls) / 3),
        "not_answered": dict(Counter(reply["outcome"] for reply in replies if reply["outcome"] != "answered")),
    }


def vote_state(view: RunView, site_id: str, who: str, blind: bool = False) -> JsonObject:
    votes = votes_on(view.run.path, site_id)
    mine = votes.get(who) if who else None
    return {"mine": mine, "tally": None if blind and mine is None else tally(votes)}


def votes(view: RunView, query: Mapping[str, str], who: str = "") -> JsonObject:
    view.fresh()
    return vote_state(view, view.get("site", query.get("site", "")).id, who, query.get("blind") == "1")


def cast_vote(view: RunView, given: Any, who: str) -> JsonObject:
    """A vote from the page; anything that is not one is refused."""
    view.fresh()
    fields = cast("JsonObject", given) if isinstance(given, dict) else {}
    site_id, choice, note = fields.get("site"), fields.get("choice"), fields.get("note", "")
    if not (isinstance(site_id, str) and isinstance(choice, str) and isinstance(note, str)):
        raise UsageError("a vote names a site and a choice", '{"site": "ID", "choice": "A"}')
    found = view.get("site", site_id)
    replies = replies_at(view, str(found.state_id))
    keys = {reply["key"] for reply in replies}
    chosen = by_letter(replies, found.id).get(choice, choice)
    if chosen not in keys and chosen not in NOT_A_REPLY:
        raise UsageError("no such choice at this site", f"a reply's key or letter, {', '.join(NOT_A_REPLY)}")
    add_vote(view.run.path, found.id, chosen, who, bool(fields.get("blind")), note)
    return vote_state(view, found.id, who)


def _people(pair: JsonObject, votes: Mapping[str, JsonObject]) -> dict[str, str]:
    """The doubt of people who chose otherwise, where they are the most."""
    choices = [vote["choice"] for vote in votes.values() if vote["choice"] != "tie"]
    agreeing = sum(choice in pair["provenance"] for choice in choices)
    is_doubted = 2 * agreeing < len(choices)
    return {"people": f"{agreeing} of {len(choices)} people chose this call."} if is_doubted else {}


def _voters(pairs: Sequence[CachedRecord]) -> list[str]:
    return [key for pair in pairs for key in pair.body["provenance"]]


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, inner in cast("JsonObject", value).items():
            found |= _flat(inner, f"{path}.{name}" if path else str(name))
        return found
    return {path: value} if path else {}
