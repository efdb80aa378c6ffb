"""Votes at one state: one per family, two thirds must agree, and at least two families must vote."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from composer_replication.records import Agreement, TeacherReply

MIN_FAMILIES = 2


class Verdict(NamedTuple):
    """The action that won, or why none did."""

    action: str | None
    agreement: Agreement | None
    reason: str


def vote(replies: Iterable[TeacherReply]) -> Verdict:
    ballots: dict[str, set[str]] = {}
    for reply in replies:
        if reply.outcome == "answered" and reply.action is not None:
            ballots.setdefault(reply.family, set()).add(reply.action)
    # A family whose members answer differently abstains.
    votes = {family: next(iter(actions)) for family, actions in ballots.items() if len(actions) == 1}
    if len(votes) < MIN_FAMILIES:
        return Verdict(None, None, "too_few_votes")
    action, count = Counter(votes.values()).most_common(1)[0]
    if count < math.ceil(2 * len(votes) / 3):
        return Verdict(None, None, "no_majority")
    families = tuple(sorted(family for family, choice in votes.items() if choice == action))
    return Verdict(action, Agreement(tier="exact", votes=count, n=len(votes), families=families), "agreed")
