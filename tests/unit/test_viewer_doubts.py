"""What makes a pair suspicious, in plain sentences, and how far people agree with the teachers' vote."""

from __future__ import annotations

import json
import sqlite3

import pytest

from composer_replication.evaluation.stats import kappa
from composer_replication.llm.ledger import Ledger
from composer_replication.records import ErrorSite, content_id
from composer_replication.viewer.annotations import add_vote
from composer_replication.viewer.answers.parts import replies_at
from composer_replication.viewer.answers.run import people, run
from composer_replication.viewer.answers.sites import difference
from composer_replication.viewer.answers.sites import pair as pair_answer
from composer_replication.viewer.answers.training import task
from composer_replication.viewer.ballots import without_vote
from composer_replication.viewer.doubts import doubts, kept_because, who_voted
from composer_replication.viewer.lookup import RunView, listing
from tests.command_line import recompose
from tests.viewed_run import viewed_run


def said(content="", **arguments):
    function = {"name": "read", "arguments": json.dumps(arguments)}
    calls = {"tool_calls": [{"id": "c", "type": "function", "function": function}]} if arguments else {}
    return {"role": "assistant", "content": content, **calls}


def make_pair(chosen, rejected, **changes):
    agreement = {"tier": "exact", "votes": 4, "n": 4, "families": ["qwen", "glm", "kimi", "gpt"]}
    fields = {"kind": "exit_code", "precision": None, "off_policy": False, "rejected_from": "policy"}
    return {"chosen": chosen, "rejected": rejected, "agreement": agreement, **fields, **changes}


PLAIN = make_pair(said(path="a"), said(path="b"))


def with_votes(votes, n, tier="exact"):
    return {**PLAIN, "agreement": {"tier": tier, "votes": votes, "n": n, "families": ["qwen"]}}


@pytest.mark.parametrize(
    ("pair", "names"),
    [
        (PLAIN, []),
        ({**PLAIN, "off_policy": True}, ["off-policy"]),
        ({**PLAIN, "kind": None}, ["no error"]),
        ({**PLAIN, "precision": 0.7}, ["low precision"]),
        ({**PLAIN, "precision": 0.9}, []),
        (with_votes(2, 3), ["low agreement"]),
        (with_votes(3, 3), []),
        (with_votes(3, 4), ["low agreement"]),
        (with_votes(4, 5), ["low agreement"]),
        (with_votes(5, 6), []),
        (with_votes(2, 2), ["low agreement"]),
        (with_votes(1, 1, "single"), ["low agreement"]),
        (make_pair(said(path="a"), said("I would rather ask.")), ["text against call"]),
        (make_pair(said(path="a"), said('{"name": "read"'), kind="json_decode"), []),
        (make_pair(said(path="a"), said("Hm."), kind="no_action"), []),
        (make_pair(said(path="a" * 500), said(path="b")), ["length"]),
        (make_pair(said(path="a" * 60), said(path="b")), []),
        (make_pair(said(path="a b", n=3), said(path=" a  b ", n=3, x=None)), ["same call"]),
        (make_pair(said(n=87), said(n="87")), []),
        (make_pair(said(n=[1]), said(n=[True])), []),
        (make_pair(said(n=1), said(n=1.0)), []),
        (make_pair(said(flag=True), said(flag="True")), []),
        (make_pair(said("yes"), said("no")), []),
    ],
)
def test_a_doubt_has_a_name(pair, names):
    assert list(doubts(pair)) == names


def test_why_a_pair_was_kept_is_one_sentence():
    assert kept_because({**PLAIN, "rejected_from": "actor"}, "codex") == (
        "Kept because 4 of 4 families gave the same call (match: exact): qwen, glm, kimi and gpt; "
        "the rejected side is the actor's (codex) and failed with exit code."
    )
    assert "1 of 1 families gave this call: qwen; " in kept_because(with_votes(1, 1, "single"), "")


def test_who_voted_how_is_told_by_teacher():
    def reply(name, action, no_vote=None, chosen=False):
        return {"name": name, "action": action, "no_vote": no_vote, "voted_for_chosen": chosen}

    replies = [
        reply("a", {"name": "read"}, chosen=True),
        reply("b", {"name": "read"}, chosen=True),
        reply("c", {"name": "read"}),
        reply("d", {"name": "write"}),
        reply("e", None, "truncated"),
        reply("f", {"name": "red"}, "no listed tool has this name"),
    ]
    assert who_voted(replies, said(path="a")) == (
        "a and b: for the chosen call; c: for read with other arguments; d: for write; e: no vote (truncated); "
        "f: no vote (no listed tool has this name)"
    )


@pytest.mark.parametrize(
    ("one", "other", "literals"),
    [
        ({"n": 87}, {"n": "87"}, ("87", '"87"')),
        ({"n": 1}, {"n": True}, ("1", "true")),
        ({"n": 1}, {"n": 1.0}, ("1", "1.0")),
        ({"n": None}, {}, ("null", None)),
        ({"n": "a\nb"}, {"n": "a"}, ('"a\nb"', '"a"')),
    ],
)
def test_arguments_of_other_types_differ_and_are_spelled_as_json(one, other, literals):
    (row,) = difference([{"name": "f", "parsed": one}], [{"name": "f", "parsed": other}])["arguments"]
    assert (row["chosen"], row["rejected"], row["same"]) == (*literals, False)


def test_kappa_is_agreement_beyond_chance_with_an_interval():
    half = kappa([1.0] * 60 + [0.0] * 40, [0.25] * 100)
    assert half.mean == pytest.approx((0.6 - 0.25) / 0.75)
    assert half.lo < half.mean < half.hi
    assert half.n == 100
    assert kappa([0.0] * 4, [0.5] * 4).mean == -1
    one = kappa([1.0], [0.25])
    assert one.mean == 1
    assert one.lo < 0.1, "one vote says next to nothing"


@pytest.fixture
def view(tmp_path):
    return RunView(viewed_run(tmp_path / "run"))


def test_people_are_compared_with_the_vote_blind_and_open_apart(view):
    view.fresh()
    site = view.run.stage("sites").read(ErrorSite)[0].site_id
    keys = [f"{content_id('reply', family)}{'0' * 48}" for family in ("qwen", "glm", "kimi")]
    assert people(view) == {"blind": None, "open": None}
    for who, choice, blind in (("a", keys[0], True), ("b", keys[1], True), ("c", "tie", True), ("d", keys[2], False)):
        add_vote(view.run.path, site, choice, who, blind)
    add_vote(view.run.path, "no such site", "none", "a", True)
    found = people(view)
    assert found["blind"]["mean"] == 1, "the first two voted for the chosen call"
    assert found["blind"]["n"] == 1
    assert found["open"]["mean"] == pytest.approx((0 - 0.25) / 0.75), "the chosen call, another, the actor's, none"
    told = recompose("show", view.run.path).stdout
    assert (found["blind"]["lo"], found["blind"]["hi"]) == (None, None), "one site says nothing of others"
    assert "people   kappa 1.000 [too few to tell]" in told
    assert "with the teachers' vote, 1 sites, blind votes" in told


def test_people_who_chose_otherwise_are_a_doubt(view):
    view.fresh()
    site = view.run.stage("sites").read(ErrorSite)[0].site_id
    (found,) = view.all("kind = 'pair'")
    names = [doubt["name"] for doubt in pair_answer(view, {"id": found.id})["why"]["doubts"]]
    assert names == ["low agreement", "off-policy"]
    assert found.facts["doubts"] == "low agreement, off-policy"
    add_vote(view.run.path, site, "actor", "me", blind=True)
    first = pair_answer(view, {"id": found.id})["why"]["doubts"][0]
    assert first == {"name": "people", "says": "0 of 1 people chose this call."}


def test_spend_has_a_clock_and_an_older_ledger_none(view):
    ledger = Ledger(view.run.path / "ledger.sqlite")
    for key in ("a", "b"):
        ledger.reserve(key, "qwen/big")
    ledger.close()
    spend = run(view, {})["spend"]
    assert [point["call"] for point in spend["over_calls"]] == [1, 2]
    assert spend["over_calls"][0]["after_s"] == 0
    assert 0 <= spend["over_calls"][1]["after_s"] < 60
    old = sqlite3.connect(view.run.path / "ledger.sqlite")
    old.execute("ALTER TABLE attempts DROP COLUMN began_at")
    old.commit()
    old.close()
    assert [point["after_s"] for point in run(view, {})["spend"]["over_calls"]] == [None, None]


def test_a_task_tells_its_statement_where_the_run_has_it(view):
    view.fresh()
    assert task(view, {"id": "task/1"})["statement"] == "do"


def test_who_has_no_vote_is_said_with_the_reason(view):
    view.fresh()
    site = view.run.stage("sites").read(ErrorSite)[0]
    at = (site.trace_id, site.turn)
    (turn,) = view.cache.part(site.trace_id, "t", site.turn, site.turn + 1)
    first, second, third = replies_at(view, site.state_id)
    assert without_vote(view, *at, [first, second, third]) == {}

    def why(**changes):
        return without_vote(view, *at, [first, {**third, **changes}]).get(third["key"])

    assert why(action='{"arguments":{},"name":"no such tool"}') == "no listed tool has this name"
    assert why(finish_reason="length") == "cut off at its token limit"
    assert why(action=None, outcome="no_action") == "no action"
    assert why(family=turn["family"]) == "its family made this turn"
    torn = dict.fromkeys((second["key"], third["key"]), "its family disagrees with itself")
    assert without_vote(view, *at, [first, second, {**third, "family": second["family"]}]) == torn


def test_a_number_of_the_funnel_is_the_number_of_rows_that_it_opens(view):
    rows = run(view, {})["funnel"]
    promised = [(link["reason"], link) for row in rows for link in (*row["drops"], *row["links"]) if link["filters"]]
    assert {"no_majority", "sites without a pair", "doubtful pairs"} <= {reason for reason, _ in promised}
    for reason, link in promised:
        filters = dict(link["filters"])
        kind = filters.pop("page").removesuffix("s")
        assert listing(view, {"kind": kind, **filters})["total"] == link["count"], reason
    (site,) = listing(view, {"kind": "site", "verdict": "no_majority"})["rows"]
    assert site["verdict"] == "no_majority"


def test_a_reason_that_no_list_can_show_has_no_link(view):
    (view.run.path / "pairs/verdicts.jsonl.zst").unlink()
    (row,) = [row for row in run(view, {})["funnel"] if row["noun"] == "pairs"]
    assert row["drops"] == [{"reason": "no_majority", "count": 1, "filters": None}]


def test_steps_that_taught_channel_1_nothing_stand_in_the_funnel(view):
    view.run.stage("training").finish([], {"steps": 20, "untaught": {"steps without an advantage": 7}}, [], 0.0)
    (row,) = [row for row in run(view, {})["funnel"] if row["noun"] == "training"]
    assert row["drops"] == [{"reason": "steps without an advantage", "count": 7, "filters": None}]


def test_a_pair_says_whether_training_read_it_and_what_was_asked(view):
    view.fresh()
    (found,) = view.all("kind = 'pair'")

    def told():
        answer = pair_answer(view, {"id": found.id})
        return answer["training"], answer["not_trained"]

    read = view.run.path / "training/read.jsonl"
    assert told() == ([2], None)
    assert pair_answer(view, {"id": found.id})["request"]["role"] == "user"
    read.write_text("")
    assert told() == ([], "not yet")
    view.run.stage("training").finish([], {}, [view.run.stage("pairs")], 0.0)
    assert told() == ([], "never: training/read.jsonl names no step")
    read.unlink()
    assert told() == ([], "not recorded: no training/read.jsonl")
