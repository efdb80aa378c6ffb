"""The toolbox under arbitrary and random policies."""

from __future__ import annotations

import json
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import (
    FINISH,
    MAX_TURNS,
    SPLITS,
    Call,
    ToolboxEpisode,
    ToolboxTask,
    make_task,
    next_call,
    replay_history,
    trace_of,
)
from composer_replication.sites import find_sites

CONFIG = ToolboxConfig(rename_rate=0.5, quoted_int_rate=0.3, call_mix=(0.4, 0.4, 0.2))
all_tasks = st.builds(make_task, st.just(CONFIG), st.sampled_from(SPLITS), st.integers(0, 400))
names = st.sampled_from(["read_file", "set_key", "add_numbers", "get_key", "scale_key", "write_file", "nope", ""])
huge = st.integers(0, 4299).map(lambda digits: 10**digits)
values = st.recursive(
    st.none() | st.booleans() | st.floats() | huge | st.integers() | st.text(max_size=5) | st.sampled_from(["5", "-7"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
params = st.sampled_from(["path", "text", "key", "value", "a", "b", "factor", "source", "target"])
calls = st.builds(
    lambda name, arguments: json.dumps({"name": name, "arguments": arguments}),
    names,
    st.dictionaries(params, values, max_size=3),
)
nested = st.builds(lambda mark, depth: mark * depth, st.sampled_from(["[", '{"a":', "-", "9"]), st.integers(0, 20_000))
turns = st.one_of(
    st.text(max_size=30), st.text(st.characters(), max_size=10), values.map(json.dumps), calls, nested,
    st.just(FINISH), st.characters(categories=["Cs"]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(all_tasks, st.lists(turns, min_size=1, max_size=MAX_TURNS))
@example(make_task(CONFIG, "train", 0), ['{"name":"a","arguments":{"a":NaN,"b":Infinity}}', "\x00", "{}", "[]"])
def test_no_text_raises_and_reward_is_zero_or_one(task, texts):
    episode = ToolboxEpisode(task)
    for text in texts:
        if episode.finished:
            break
        result = episode.step(text)
        assert result.text == text.strip().encode("utf-8", "replace").decode()
        assert episode.turns[-1] is result
        assert episode.reward in (0.0, 1.0)
    assert len(episode.turns) <= MAX_TURNS


@settings(max_examples=150, deadline=None)
@given(all_tasks, huge, huge)
def test_huge_numbers_never_raise(task: ToolboxTask, first, second):
    for listing in task.listings:
        episode = ToolboxEpisode(task)
        for number in (first, second, -first):
            arguments = {
                param: number if kind == "int" else str(number) if param in {"a", "b", "value", "factor"} else "x"
                for param, kind in listing.types.items()
            }
            episode.step(Call(listing.name, arguments).render())
            assert episode.reward in (0.0, 1.0)


def random_turn(episode: ToolboxEpisode, rng: random.Random) -> str:
    """Right, stale, mistyped, incomplete, refused or broken, as a careless policy would."""
    try:
        right = next_call(episode)
    except LookupError:
        right = None
    if right is None:
        listing = rng.choice(episode.task.listings)
        right = Call(listing.name, {param: 3 if kind == "int" else "zeta" for param, kind in listing.types.items()})
    mistyped = {param: str(value) if isinstance(value, int) else 4 for param, value in right.arguments.items()}
    refused = {param: f"{value}x" if isinstance(value, str) else value for param, value in right.arguments.items()}
    base = next((entry.tool for entry in episode.task.listings if entry.name == right.name), right.name)
    return rng.choice(
        [
            right.render(), right.render(), Call(base, right.arguments).render(), Call("run", {}).render(),
            Call(right.name, mistyped).render(), Call(right.name, {}).render(), Call(right.name, refused).render(),
            right.render()[:-1], FINISH, episode.turns[-1].text if episode.turns else right.render(),
        ]
    )  # fmt: skip


def random_episode(task: ToolboxTask, seed: int) -> ToolboxEpisode:
    episode, rng = ToolboxEpisode(task), random.Random(seed)
    while not episode.finished:
        episode.step(random_turn(episode, rng))
    return episode


def reported(episode: ToolboxEpisode):
    return [
        (number, turn.error.kind, turn.error.secondary_kind, turn.error.message, turn.error.tool_name)
        for number, turn in enumerate(episode.turns)
        if turn.error
    ]


def found(episode: ToolboxEpisode):
    return [
        (site.turn, site.error_kind, site.secondary_kind, site.error_message, site.tool_name)
        for site in find_sites(trace_of(episode, "tiny", 0))
    ]


@settings(max_examples=150, deadline=None)
@given(all_tasks, st.integers(0, 10**9))
def test_sites_of_a_trace_are_the_errors_of_its_episode(task, seed):
    episode = random_episode(task, seed)
    assert found(episode) == reported(episode)


def test_random_policies_meet_every_error_kind_and_every_reward():
    episodes = [random_episode(make_task(CONFIG, "train", index), index) for index in range(300)]
    assert {kind for episode in episodes for _, kind, *_ in reported(episode)} == {
        "tool_not_found", "json_decode", "type_error", "runtime_error", "repeated_failure",
    }  # fmt: skip
    assert {episode.reward for episode in episodes} == {0.0, 1.0}


@settings(max_examples=100, deadline=None)
@given(all_tasks, st.integers(0, 10**9))
def test_replaying_a_trace_reaches_the_same_world(task, seed):
    episode = random_episode(task, seed)
    trace = trace_of(episode, "tiny", 0)
    again = replay_history(task, trace.messages)
    assert again.world == episode.world
    assert again.reward == episode.reward == trace.outcome
    assert [turn.error for turn in again.turns] == [turn.error for turn in episode.turns]
    assert trace_of(again, "tiny", 0) == trace


@settings(max_examples=100, deadline=None)
@given(all_tasks, st.lists(calls, min_size=1, max_size=MAX_TURNS))
def test_any_calls_survive_the_way_through_a_trace(task, texts):
    episode = ToolboxEpisode(task)
    for text in texts:
        if not episode.finished:
            episode.step(text)
    again = replay_history(task, trace_of(episode, "tiny", 0).messages)
    assert again.world == episode.world
    assert [turn.observation for turn in again.turns] == [turn.observation for turn in episode.turns]


@settings(max_examples=100, deadline=None)
@given(all_tasks, st.integers(0, 10**9))
def test_the_oracle_uses_a_looked_up_value_only_after_seeing_it(task, seed):
    """After any beginning, a planned call that takes `it` follows an observation of the value it takes."""
    episode, rng = ToolboxEpisode(task), random.Random(seed)
    by_tool = {entry.name: entry.tool for entry in task.listings}
    while not episode.finished:
        try:
            call = next_call(episode)
        except LookupError:
            return
        if call is None:
            return
        step = next(step for step in task.plan if step.tool == by_tool[call.name])
        if step.reference is not None and len({s.tool for s in task.plan}) == len(task.plan):
            seen = {turn.observation for turn in episode.turns if turn.error is None}
            assert str(call.arguments[step.reference]) in seen
        episode.step(call.render() if rng.random() < 0.5 else random_turn(episode, rng))


@settings(max_examples=150, deadline=None)
@given(all_tasks)
def test_a_value_from_a_lookup_is_not_in_the_request(task):
    """The request says `it` in the place of a looked-up value, so it cannot be copied from there."""
    for step, phrase in zip(task.plan, task.request.split(" then "), strict=True):
        words = phrase.split()
        shown = [str(value) for param, value in step.arguments.items() if param != step.reference]
        assert all(value in words for value in shown)
        assert ("it" in words) == (step.reference is not None)


@settings(max_examples=150, deadline=None)
@given(all_tasks, st.integers(0, 3))
def test_the_oracle_recovers_from_failed_calls(task, failures):
    """A failed call changes nothing, so the plan still works while turns are left."""
    failures = min(failures, MAX_TURNS - len(task.plan))
    episode = ToolboxEpisode(task)
    for number in range(failures):
        episode.step(Call(f"nope_{number}", {}).render())
    while not episode.finished:
        call = next_call(episode)
        episode.step(call.render() if call else FINISH)
    assert episode.reward == 1
