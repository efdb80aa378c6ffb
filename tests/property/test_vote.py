"""The vote at one state, for any replies."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from composer_replication.pairs import vote
from composer_replication.records import TeacherReply, Usage, canonical_call

OUTCOMES = ("no_action", "truncated", "mismatched", "failed")


def make(family: str, action: str | None, outcome: str) -> TeacherReply:
    return TeacherReply(
        key=f"{family}{action}{outcome}", state_id="s", trace_id="t", turn=0, teacher="m", served_model="m",
        family=family, action=action, raw="", finish_reason=None, usage=Usage(), cost_micros=0, latency_s=0,
        outcome=outcome, simulated=False,
    )  # fmt: skip


families = st.sampled_from("abcdefg")
actions = st.sampled_from([canonical_call("get_key", {"key": key}) for key in "xyz"])
answered = st.builds(make, families, actions, st.just("answered"))
silent = st.builds(make, families, st.none() | actions, st.sampled_from(OUTCOMES))
replies = st.lists(answered | silent, max_size=14)


def expected(ballots: list[TeacherReply]) -> tuple[str | None, str]:
    """The rule once more, from the sentence in the design."""
    said = {}
    for reply in ballots:
        if reply.outcome == "answered":
            said.setdefault(reply.family, []).append(reply.action)
    votes = [choices[0] for choices in said.values() if len(set(choices)) == 1]
    if len(votes) < 2:
        return None, "too_few_votes"
    winners = [action for action, count in Counter(votes).items() if count >= math.ceil(2 * len(votes) / 3)]
    return (winners[0], "agreed") if winners else (None, "no_majority")


@settings(max_examples=150, deadline=None)
@given(replies)
def test_the_rule(ballots):
    verdict = vote(ballots)
    assert (verdict.action, verdict.reason) == expected(ballots)
    assert (verdict.agreement is None) == (verdict.action is None)


@settings(max_examples=100, deadline=None)
@given(replies, st.data())
def test_the_order_of_replies_does_not_matter(ballots, data):
    assert vote(data.draw(st.permutations(ballots))) == vote(ballots)


@settings(max_examples=100, deadline=None)
@given(replies.filter(bool), st.data())
def test_a_familys_equal_vote_again_changes_nothing(ballots, data):
    again = data.draw(st.lists(st.sampled_from(ballots), max_size=5))
    assert vote([*ballots, *again]) == vote(ballots)


@settings(max_examples=100, deadline=None)
@given(replies, st.lists(silent, max_size=5))
def test_replies_without_an_action_change_nothing(ballots, quiet):
    assert vote([*ballots, *quiet]) == vote(ballots)


@settings(max_examples=100, deadline=None)
@given(replies)
def test_agreement_counts_the_families_that_voted_for_the_action(ballots):
    verdict = vote(ballots)
    if verdict.agreement is None:
        return
    agreement = verdict.agreement
    assert agreement.votes == len(agreement.families) == len(set(agreement.families))
    assert 2 <= agreement.votes <= agreement.n
    assert 3 * agreement.votes >= 2 * agreement.n
    for family in agreement.families:
        said = {reply.action for reply in ballots if reply.family == family and reply.outcome == "answered"}
        assert said == {verdict.action}


garbage = st.builds(make, families, st.text(max_size=12) | st.just('{"name":"f"}'), st.just("answered"))


@settings(max_examples=100, deadline=None)
@given(replies, st.lists(garbage, max_size=5))
def test_answers_that_are_no_call_change_nothing(ballots, unreadable):
    assert vote([*ballots, *unreadable]) == vote(ballots)


@settings(max_examples=150, deadline=None)
@given(replies)
def test_a_winner_stands_alone(ballots):
    verdict = vote(ballots)
    if verdict.agreement is None:
        return
    others = {reply.family for reply in ballots} - set(verdict.agreement.families)
    against = Counter(
        next(iter(said))
        for family in others
        if len(said := {r.action for r in ballots if r.family == family and r.outcome == "answered"}) == 1
    )
    assert all(count < verdict.agreement.votes and 3 * count < 2 * verdict.agreement.n for count in against.values())


@settings(max_examples=100, deadline=None)
@given(replies)
def test_names_of_families_do_not_matter(ballots):
    renamed = [reply.model_copy(update={"family": f"new-{reply.family}"}) for reply in ballots]
    assert vote(renamed).action == vote(ballots).action
