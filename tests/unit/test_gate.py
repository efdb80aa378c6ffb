"""The gate: which states are asked, in which order, and why."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_replication.config import Config, GateConfig, ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.records import Agreement, ErrorSite, PreferencePair, Source, Trace, Turn
from composer_replication.replay import State, choose_states, states_to_ask
from composer_replication.replay.gate import Choice, Yield, action_entropy, states_to_sample, yields
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.sites.marking import StoredTraces

NO_AUDIT = GateConfig(audit_rate=0.0)


def talk(name: str, turns: int, words: str = "") -> Trace:
    """A conversation whose turns all say something of its own."""
    messages = [{"role": "user", "content": words or name}]
    for turn in range(turns):
        messages += [{"role": "assistant", "content": f"{name} {turn}"}, {"role": "user", "content": "go on"}]
    return Trace(
        trace_id=name,
        source=Source(agent="test"),
        messages=tuple(messages),
        turns=tuple(Turn(start=1 + 2 * turn, end=2 + 2 * turn) for turn in range(turns)),
    )


TALKS = [talk("a", 5), talk("b", 5)]


def site(trace_id: str, turn: int, fault: str = "policy", site_id: str = "s") -> ErrorSite:
    return ErrorSite(
        site_id=site_id, trace_id=trace_id, turn=turn, state_id="x", error_kind="exit_code", fault=fault,
        error_message="e", detector="d",
    )  # fmt: skip


def call(*names: str) -> dict:
    calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def asked(sites, limit=100):
    return [(state.trace.trace_id, state.turn) for state in states_to_ask(TALKS, sites, limit)]


def chosen(traces, sites=(), config=NO_AUDIT, limit=1000, seed=0, samples=None):
    choices = choose_states(traces, list(sites), config, limit, seed, samples)
    return [(choice.state.trace.trace_id, choice.state.turn, choice.bucket) for choice in choices]


def test_states_are_asked_earliest_turns_first():
    sites = [site("a", 4), site("a", 1), site("b", 2), site("b", 0)]
    assert asked(sites) == [("b", 0), ("a", 1), ("b", 2), ("a", 4)]


def test_states_of_the_same_turn_keep_their_order():
    assert asked([site("b", 1), site("a", 1), site("a", 0)]) == [("a", 0), ("b", 1), ("a", 1)]


def test_each_state_is_asked_once():
    assert asked([site("a", 1), site("a", 1, site_id="other"), site("b", 1)]) == [("a", 1), ("b", 1)]


def test_only_faults_of_the_policy_are_asked():
    sites = [site("a", 0, "user"), site("a", 1, "harness"), site("a", 2, "environment"), site("a", 3)]
    assert asked(sites) == [("a", 3)]


def test_the_limit_keeps_the_earliest():
    assert asked([site("a", 3), site("a", 2), site("b", 1)], limit=2) == [("b", 1), ("a", 2)]


def clumsy_traces(episodes: int) -> list[Trace]:
    """Toolbox rollouts that call a tool that is not there on every second turn."""
    traces = []
    for index in range(episodes):
        episode = ToolboxEpisode(make_task(ToolboxConfig(), "train", index))
        while not episode.finished:
            right = next_call(episode)
            wrong = right and (index + len(episode.turns)) % 2
            episode.step(Call("nope", right.arguments).render() if wrong else right.render() if right else "done")
        traces.append(trace_of(episode, "tiny", index))
    return traces


@pytest.mark.parametrize("limit", [1000, 40])
def test_without_samples_and_audit_the_error_states_are_asked_and_no_other(limit):
    traces = clumsy_traces(64)
    sites = [site for trace in traces for site in find_sites(trace)]
    choices = choose_states(traces, sites, NO_AUDIT, limit, seed=0)
    assert len(choices) == min(limit, len({(site.trace_id, site.turn) for site in sites}))
    assert [choice.state for choice in choices] == states_to_ask(traces, sites, limit)
    assert {choice.bucket for choice in choices} == {"error"}


def test_nothing_is_audited_unless_it_is_asked_for():
    """An outside audit paid 59 % of its bill for such states, and none of their pairs was clearly better."""
    traces = [talk(f"t{n}", 20) for n in range(100)]
    assert chosen(traces, config=Config().replay.gate, limit=10_000) == []


def test_a_share_of_the_rest_is_audited():
    traces = [talk(f"t{n}", 20) for n in range(100)]
    got = chosen(traces, config=GateConfig(audit_rate=0.05), limit=10_000)
    assert {bucket for _, _, bucket in got} == {"audit"}
    assert 70 < len(got) < 130
    assert [turn for _, turn, _ in got] == sorted(turn for _, turn, _ in got)


def test_the_audit_depends_on_the_seed_and_not_on_other_traces():
    traces = [talk(f"t{n}", 20) for n in range(20)]
    config = GateConfig(audit_rate=0.2)
    assert chosen(traces, config=config) != chosen(traces, config=config, seed=1)
    few = {choice for choice in chosen(traces, config=config) if choice[0] in ("t3", "t7")}
    assert set(chosen([traces[3], traces[7]], config=config)) == few


def test_where_the_limit_cuts_the_audit_keeps_its_share():
    traces = [talk(f"t{n}", 40) for n in range(20)]
    sites = [site(trace.trace_id, turn) for trace in traces for turn in range(20)]
    got = chosen(traces, sites, GateConfig(audit_rate=0.1), limit=100)
    assert [bucket for _, _, bucket in got] == ["error"] * 90 + ["audit"] * 10


def test_a_rate_of_one_audits_everything_and_the_limit_still_holds():
    assert len(chosen(TALKS, config=GateConfig(audit_rate=1.0))) == 10
    assert len(chosen(TALKS, [site("a", 0)], GateConfig(audit_rate=1.0), limit=4)) == 4


def test_equal_requests_are_asked_once_and_the_error_wins():
    twins = [talk("a", 3, "same"), talk("b", 3, "same")]
    everything = GateConfig(audit_rate=1.0)
    got = chosen(twins, [site("b", 0)], everything)
    assert [choice for choice in got if choice[1] == 0] == [("b", 0, "error")]
    assert len(got) == 5
    assert chosen(twins, [site("b", 0), site("a", 0)]) == [("b", 0, "error")]


def test_other_tools_make_another_request_and_a_local_mark_does_not():
    plain = talk("a", 1, "same")
    tools = plain.model_copy(update={"trace_id": "b", "tools": ({"type": "function"},)})
    marked = plain.model_copy(
        update={"trace_id": "c", "messages": ({**plain.messages[0], "is_error": True}, *plain.messages[1:])}
    )
    everything = GateConfig(audit_rate=1.0)
    assert [name for name, _, _ in chosen([plain, tools, marked], config=everything)] == ["a", "b"]


def test_the_states_where_samples_differ_most_are_asked():
    [trace] = traces = [talk("a", 10)]
    names = {2: ("x", "y"), 5: ("x", "y", "z"), 7: ("x", "y", "z", "w")}
    samples = {trace.state_id(t): [call(n) for n in (*names.get(t, ()), "x", "x", "x", "x")[:4]] for t in range(10)}
    assert chosen(traces, samples=samples) == [("a", 2, "entropy"), ("a", 5, "entropy"), ("a", 7, "entropy")]
    fewer = GateConfig(audit_rate=0.0, entropy_share=0.2)
    assert chosen(traces, config=fewer, samples=samples) == [("a", 5, "entropy"), ("a", 7, "entropy")]
    with_error = chosen(traces, [site("a", 7)], fewer, samples=samples)
    assert with_error == [("a", 7, "error"), ("a", 2, "entropy"), ("a", 5, "entropy")]


def test_nothing_is_asked_where_all_samples_agree():
    [trace] = traces = [talk("a", 4)]
    assert chosen(traces, samples={trace.state_id(turn): [call("x")] * 4 for turn in range(4)}) == []


def test_an_unsure_state_is_not_audited_too():
    [trace] = traces = [talk("a", 1)]
    samples = {trace.state_id(0): [call("x"), call("y")]}
    got = chosen(traces, config=GateConfig(audit_rate=1.0), samples=samples)
    assert got == [("a", 0, "entropy")]


@pytest.mark.parametrize(
    ("samples", "entropy"),
    [
        ([], 0.0),
        ([call("x")], 0.0),
        ([call("x")] * 4, 0.0),
        ([call("x"), call("x"), call("y"), call("y")], 0.5),
        ([call("x"), call("y"), call("z"), call("w")], 1.0),
        ([call("x", "y"), call("y", "x")], 1.0),
        ([{"role": "assistant", "content": "one"}, {"role": "assistant", "content": "another"}], 0.0),
    ],
    ids=["none", "one", "alike", "two and two", "all differ", "two calls in another order", "words"],
)
def test_entropy_of_actions(samples, entropy):
    assert action_entropy(samples) == pytest.approx(entropy)


def test_spelling_makes_no_entropy():
    spelt = [call("x"), call("x")]
    spelt[0]["tool_calls"][0]["function"]["arguments"] = '{"a": 1, "b": 2}'
    spelt[1]["tool_calls"][0]["function"]["arguments"] = '{"b":2,"a":1}'
    assert action_entropy(spelt) == 0.0


@given(st.lists(st.sampled_from("wxyz"), min_size=2, max_size=12))
def test_entropy_is_a_share(names):
    entropy = action_entropy([call(name) for name in names])
    assert 0.0 <= entropy <= 1.0 + 1e-9
    assert (entropy == 0.0) == (len(set(names)) == 1)
    assert math.isclose(entropy, action_entropy([call(name) for name in reversed(names)]))


def pair(trace: Trace, turn: int) -> PreferencePair:
    return PreferencePair(
        pair_id=f"{trace.trace_id}{turn}", state_id=trace.state_id(turn), trace_id=trace.trace_id, turn=turn,
        chosen=call("x"), rejected=call("y"), agreement=Agreement(tier="exact", votes=2, n=2, families=("p", "q")),
        off_policy=True, provenance=(), simulated=True,
    )  # fmt: skip


def test_the_yield_of_each_bucket():
    [trace, _] = TALKS
    choices = [Choice(State(trace, turn), "error" if turn < 3 else "audit").stored() for turn in range(5)]
    pairs = [pair(trace, turn) for turn in (0, 1, 3)] + [pair(TALKS[1], 0)]
    verdicts = {0: True, 1: False, 3: None}
    got = yields(choices, pairs, lambda pair: verdicts[pair.turn])
    assert got == {"error": Yield(3, 2, 2, 1), "audit": Yield(2, 1, 0, 0)}
    assert yields(choices, pairs)["error"] == Yield(3, 2, 0, 0)


def test_traces_of_a_run_give_the_same_states_and_no_more_of_them_than_is_shown(tmp_path):
    traces = [talk("a", 5), talk("b", 5), talk("c", 5, words="a"), talk("d", 5, words="a")]
    sites = [site("b", 3), site("a", 1), site("d", 0), site("c", 0)]
    run = Run.start(tmp_path / "run", Config())
    run.stage("ingestion").finish(traces, {}, [], 0.0)
    run.stage("sites").finish(sites, {}, [run.stage("ingestion")], 0.0)
    stored = StoredTraces(run.stage("ingestion"), run.stage("sites"))
    config = GateConfig(audit_rate=0.5)
    samples = {traces[0].state_id(turn): [call("x"), call("y")] for turn in (2, 4)}
    assert chosen(stored, stored.sites(), config, samples=samples) == chosen(traces, sites, config, samples=samples)
    assert {bucket for *_, bucket in chosen(traces, sites, config, samples=samples)} == {"error", "entropy", "audit"}
    found, whole = (states_to_sample(source, sites, 6, seed=1) for source in (stored, traces))
    assert [(one.state_id, one.trace.history(one.turn)) for one in found] == [
        (one.state_id, one.trace.history(one.turn)) for one in whole
    ]
    (shown,) = states_to_ask(stored, [site("b", 3)])
    assert shown.trace.messages == traces[1].messages[: traces[1].turns[3].end]
