"""Votes at one state: one per family, two thirds must agree, and at least two families must vote.

A call that no listed tool takes has no vote.

Tiers, from the strongest: `execution` (an environment replayed both calls and saw the same effect), `exact` (the same
canonical call), `critical` (the same but for arguments that only describe the call). The first tier with an agreement
counts; the same tool alone never does. Answers in plain text are a class of their own, `text`, off by default. So is
`single`: one family's word, where the caller lets it count against samples of the policy.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, Protocol

from composer_replication.records import Agreement, JsonObject, TeacherReply, TraceState, canonical_json
from composer_replication.replay.roster import ENOUGH_FAMILIES
from composer_replication.replay.valid_calls import Objection, objection

from .canonical import canonical_action, critical_key, parse_action

TWO_THIRDS = Fraction(2, 3)
Tier = Literal["execution", "exact", "critical", "text", "single"]


class Equivalence(Protocol):
    """Whether two calls have the same effect from a state; None where the environment cannot tell."""

    def __call__(self, state: TraceState, a: str, b: str, /) -> bool | None: ...


class VoteVerdict(NamedTuple):
    """The action that won, or why none did."""

    action: str | None
    """None where none won."""
    agreement: Agreement | None
    reason: str


@dataclass(frozen=True)
class Chamber:
    """What is needed to tell whether two actions at one state are the same."""

    tools: Sequence[JsonObject] = ()
    """Listed at the state, as OpenAI lists them."""
    state: TraceState | None = None
    equivalent: Equivalence | None = None
    """Runs two calls at the state and tells whether they do the same."""
    critical: bool = True
    """Whether calls may differ in arguments that only describe them."""
    free_text: bool = False
    """Whether answers without a call vote too."""
    inferred: bool = False
    """Whether `tools` are only those that calls of the session show."""
    needed: int = ENOUGH_FAMILIES
    """Families that must vote."""

    def ballot(self, reply: TeacherReply) -> str | None:
        """The reply's action in its one spelling; None for a reply that may not vote."""
        if reply.finish_reason == "length":
            return None
        if reply.outcome == "answered" and parse_action(reply.action):
            if self.objection(reply.action or ""):
                return None
            return canonical_action(reply.action or "", self.tools, mend_types=True)
        if self.free_text and reply.outcome == "no_action":
            text = reply_text(reply)
            return canonical_json({"text": text}) if text else None
        return None

    def objection(self, action: str) -> Objection | None:
        """Why an action may not vote, if it may not."""
        return objection(action, self.tools, self.inferred)

    def tiers(self) -> list[tuple[Tier, Callable[[str, str], bool]]]:
        """Ways to compare two actions, the strictest first."""
        found: list[tuple[Tier, Callable[[str, str], bool]]] = [("exact", lambda a, b: a == b)]
        if self.equivalent and self.state:
            found.insert(0, ("execution", self._same_effect))
        if self.critical:
            found.append(("critical", self._same_critical))
        return found

    def same(self, action: str, agreed: str) -> bool:
        """Whether an action of the actor or the policy is the `agreed` one, at any tier: another description is no
        error.

        Wrong types are not mended here.
        """
        action, agreed = canonical_action(action, self.tools), canonical_action(agreed, self.tools)
        return any(same(action, agreed) for _, same in self.tiers())

    def _same_effect(self, a: str, b: str) -> bool:
        if a == b:
            return True
        if not self.equivalent or not self.state or not parse_action(a) or not parse_action(b):
            return False
        return self.equivalent(self.state, a, b) is True

    def _same_critical(self, a: str, b: str) -> bool:
        key = critical_key(a, self.tools)
        return a == b or (key is not None and key == critical_key(b, self.tools))


def vote(replies: Iterable[TeacherReply], chamber: Chamber | None = None) -> VoteVerdict:
    """One vote per family, and what they come to."""
    chamber = chamber or Chamber()
    ballots: dict[str, list[str]] = defaultdict(list)
    for reply in replies:
        action = chamber.ballot(reply)
        if action is not None:
            ballots[reply.family].append(action)
    verdict = VoteVerdict(None, None, "too_few_votes")
    for tier, same in chamber.tiers():
        verdict = _elect(ballots, tier, same, chamber.needed)
        if verdict.action is not None:
            break
    return verdict


def _elect(ballots: dict[str, list[str]], tier: Tier, same: Callable[[str, str], bool], needed: int) -> VoteVerdict:
    # A family whose members answer differently abstains.
    votes = {
        family: min(actions)
        for family, actions in ballots.items()
        if all(same(min(actions), action) for action in actions)
    }
    if len(votes) < needed:
        return VoteVerdict(None, None, "too_few_votes")
    clusters: list[list[str]] = []
    for family in sorted(votes, key=lambda family: (votes[family], family)):
        home = next((cluster for cluster in clusters if same(votes[cluster[0]], votes[family])), None)
        if home is None:
            clusters.append([family])
        else:
            home.append(family)
    winners = max(clusters, key=len)
    if len(winners) < math.ceil(TWO_THIRDS * len(votes)):
        return VoteVerdict(None, None, "no_majority")
    # The spelling that most families used, so that what is learnt is what somebody said.
    spellings = Counter(votes[family] for family in winners)
    action = min(spellings, key=lambda spelling: (-spellings[spelling], spelling))
    families = tuple(sorted(winners))
    kind: Tier = "text" if parse_action(action) is None else "single" if len(votes) < ENOUGH_FAMILIES else tier
    agreement = Agreement(tier=kind, votes=len(families), n=len(votes), families=families)
    return VoteVerdict(action, agreement, "agreed")


def reply_text(reply: TeacherReply) -> str:
    """What a reply without a call says, blanks evened out."""
    try:
        return " ".join(json.loads(reply.raw)["choices"][0]["message"]["content"].split())
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return ""
