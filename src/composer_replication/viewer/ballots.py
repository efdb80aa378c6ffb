"""Which replies have no vote at a state, and why, by the rules that made the pairs. Reads the cache; writes text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from composer_replication.records import JsonObject, TeacherReply

from .lookup import RunView

OBJECTIONS = {
    "unknown_tool": "no listed tool has this name",
    "missing_argument": "the call lacks a required argument",
    "ill_typed_argument": "an argument has a type that the tool does not take",
}


def without_vote(
    view: RunView, trace_id: str, turn: int, replies: Sequence[JsonObject], tier: str | None = None
) -> dict[str, str]:
    """By the reply's key; `replies` as they are stored, `tier` the one of their agreement where there is one."""
    if not replies:
        return {}
    from composer_replication.pairs.vote import Chamber

    trace, settings = view.get("trace", trace_id).body, view.run.config.pairs
    (stored,) = view.cache.part(trace_id, "t", turn, turn + 1)
    chamber = Chamber(
        trace["tools"], critical=settings.critical, free_text=settings.free_text, inferred=trace["tools_inferred"]
    )
    everybody_votes = settings.rule == "majority"
    own = everybody_votes or view.run.stage("replay").counts.get("own_family", False)
    barred = None if own else stored.get("family")
    found: dict[str, str] = {}
    ballots: dict[str, dict[str, str]] = defaultdict(dict)
    for reply in (TeacherReply.model_validate(each) for each in replies):
        ballot = chamber.ballot(reply)
        if barred is not None and reply.family == barred:
            found[reply.key] = "its family made this turn"
        elif ballot is not None:
            ballots[reply.family][reply.key] = ballot
        elif reply.finish_reason == "length":
            found[reply.key] = "cut off at its token limit"
        elif reply.outcome == "answered" and (why := chamber.objection(reply.action or "")):
            found[reply.key] = OBJECTIONS[why]
        else:
            found[reply.key] = reply.outcome.replace("_", " ")
    # Only an environment knows which calls have the same effect, and it is not open here.
    if not everybody_votes and not settings.execution:
        alike = [same for name, same in chamber.tiers() if tier in (None, name)]
        for given in ballots.values():
            first = min(given.values())
            if alike and not all(any(same(first, each) for same in alike) for each in given.values()):
                found |= dict.fromkeys(given, "its family disagrees with itself")
    return found
