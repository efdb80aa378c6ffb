"""The toolbox: exact splits, difficulty that does what it says, errors for the right reason, reward from the world."""

from __future__ import annotations

import itertools
import json
from functools import lru_cache

import pytest

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import (
    FINISH,
    MAX_TURNS,
    SPLITS,
    TOOLS,
    Call,
    ToolboxEpisode,
    TurnError,
    make_task,
    next_call,
    replay_history,
    task_by_id,
    task_stream,
    trace_of,
)
from composer_replication.environments.toolbox.tasks import Listing, Step, ToolboxTask
from composer_replication.environments.toolbox.tools import World
from composer_replication.sites import find_sites

from .toolbox_plays import play, solve

CONFIG = ToolboxConfig(rename_rate=0.3, rename_verbs=False, quoted_int_rate=0.0, call_mix=(0.7, 0.25, 0.05))
VERBS = ToolboxConfig(rename_verbs=True, rename_rate=0.6)


@lru_cache(maxsize=100)
def tasks(split, number, config=CONFIG) -> tuple[ToolboxTask, ...]:
    return tuple(make_task(config, split, index) for index in range(number))


def task_of(start: World, goal: World, *plan: Step, types=None, names=None) -> ToolboxTask:
    """A task that lists every tool under its base name, unless told otherwise."""
    listings = tuple(
        Listing(
            tool.name,
            (names or {}).get(tool.name, tool.name),
            {p: (types or {}).get(p, "int" if kind == "int" else "str") for p, kind in tool.params.items()},
        )
        for tool in TOOLS
    )
    return ToolboxTask("toolbox/train/0", "train", "request", listings, plan, start, goal)


WORLD = World({"a.py": "x y", "empty.md": ""}, {"k": 5, "j": 7})
GOAL = World({"a.py": "x y", "empty.md": ""}, {"k": 5, "j": 5})
COPY_K_TO_J = (Step("get_key", {"key": "k"}), Step("set_key", {"key": "j", "value": 5}, "value"))
TASK = task_of(WORLD, GOAL, *COPY_K_TO_J)


def test_there_are_24_tools_with_names_of_their_own():
    assert len(TOOLS) == 24
    names = [name for tool in TOOLS for name in tool.names]
    assert len(names) == len(set(names))
    assert all(tool.names[0] == tool.name for tool in TOOLS)


@pytest.mark.parametrize("split", SPLITS)
def test_five_to_seven_different_tools_are_listed(split):
    sizes = set()
    for task in tasks(split, 200):
        listed = [entry.tool for entry in task.listings]
        assert len(listed) == len(set(listed))
        assert len({entry.name for entry in task.listings}) == len(listed)
        assert set(task.composition) <= set(listed)
        sizes.add(len(listed))
    assert sizes == {5, 6, 7}


def test_listed_bounds_are_settings():
    assert {len(task.listings) for task in tasks("train", 60, ToolboxConfig(listed=(9, 10)))} == {9, 10}


def test_every_listed_name_belongs_to_its_tool():
    names = {tool.name: tool.names for tool in TOOLS}
    for task in tasks("renames", 100, VERBS):
        assert all(entry.name in names[entry.tool] for entry in task.listings)


def test_a_task_is_the_same_every_time():
    for split, index in itertools.product(SPLITS, range(10)):
        task = make_task(CONFIG, split, index)
        assert task == make_task(CONFIG, split, index)
        assert task == task_by_id(CONFIG, task.task_id)
        assert (task.split, task.task_id) == (split, f"toolbox/{split}/{index}")


def test_a_task_never_changes_between_versions():
    task = make_task(CONFIG, "train", 0)
    assert task.request == "take the text of data.csv then fill todo.md with it"
    assert [entry.render() for entry in task.listings] == [
        "count_doc(path:str)", "read_file(path:str)", "copy_sheet(source:str,target:str)",
        "multiply_numbers(a:int,b:int)", "drop_key(key:str)", "write_file(path:str,text:str)",
    ]  # fmt: skip


@pytest.mark.parametrize("task_id", ["", "toolbox/train", "other/train/0", "toolbox/nowhere/0", "toolbox/train/x"])
def test_other_ids_name_no_task(task_id):
    with pytest.raises(ValueError, match=r"not a toolbox task|unpack|invalid literal"):
        task_by_id(CONFIG, task_id)


def test_a_stream_has_no_prompt_twice():
    seen = [str(task.messages) for task in itertools.islice(task_stream(CONFIG, "train", 5), 300)]
    assert len(set(seen)) == 300


def test_a_prompt_shows_every_listed_tool_and_the_request():
    task = make_task(CONFIG, "train", 0)
    system, user = task.messages
    assert system["content"].splitlines()[1:] == [entry.render() for entry in task.listings]
    assert (system["role"], user["role"], user["content"]) == ("system", "user", task.request)
    schema = task.tool_schemas[3]["function"]
    assert schema["name"] == "multiply_numbers"
    assert schema["parameters"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert schema["parameters"]["required"] == ["a", "b"]


@pytest.mark.parametrize("config", [CONFIG, VERBS, ToolboxConfig(quoted_int_rate=0.5, call_mix=(0, 0.5, 0.5))])
@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_every_task_without_an_error(split, config):
    for task in tasks(split, 200 if config is CONFIG else 60, config):
        episode = solve(task)
        assert len(episode.turns) <= MAX_TURNS
        assert not [turn.error for turn in episode.turns if turn.error]
        assert episode.turns[-1].text == FINISH
        assert episode.reward == 1


@pytest.mark.parametrize("config", [CONFIG, VERBS])
def test_splits_do_not_overlap(config):
    train = tasks("train", 3000 if config is CONFIG else 1000, config)
    prompts = {str(task.messages) for task in train}
    names = {entry.name for task in train for entry in task.listings}
    compositions = {task.composition for task in train}
    for split in ("heldout", "renames", "compositions"):
        held = tasks(split, 300, config)
        assert not prompts & {str(task.messages) for task in held}
        needed = {task.listing_of(tool).name for task in held for tool in task.composition}
        assert not needed & names if split == "renames" else needed <= names
        if split == "compositions":
            assert not {task.composition for task in held} & compositions
            assert {len(task.composition) for task in held} == {2, 3}


def test_prompts_do_not_overlap_even_where_there_are_few():
    few = ToolboxConfig(listed=(1, 1), rename_rate=0, call_mix=(1, 0, 0))
    train, held = ([str(task.messages) for task in tasks(split, 600, few)] for split in ("train", "heldout"))
    assert len(set(train)) < len(train)
    assert len(set(held)) < len(held)
    assert not set(train) & set(held)


def test_a_rename_keeps_the_verb_unless_verbs_may_change():
    def verbs(config):
        return {entry.name.split("_")[0] for task in tasks("renames", 200, config) for entry in task.listings}

    bases = {tool.verbs[0] for tool in TOOLS}
    assert verbs(CONFIG) <= bases
    assert verbs(VERBS) - bases


def test_rename_rate_at_its_ends():
    for task in tasks("train", 100, ToolboxConfig(rename_rate=0)):
        assert all(entry.name == entry.tool for entry in task.listings)
    for task in tasks("train", 100, ToolboxConfig(rename_rate=1)):
        assert all(entry.name != entry.tool for entry in task.listings)


def test_rename_rate_in_between():
    entries = [entry for task in tasks("train", 3000) for entry in task.listings]
    assert 0.25 < sum(entry.name != entry.tool for entry in entries) / len(entries) < 0.35


def test_quoted_int_rate_at_its_ends():
    for rate, kind in ((0, "int"), (1, "str")):
        shown = {
            entry.types[param]
            for task in tasks("train", 100, ToolboxConfig(quoted_int_rate=rate))
            for entry in task.listings
            for param in entry.types
            if param in {"a", "b", "value", "amount", "factor"}
        }
        assert shown == {kind}


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_call_mix_alone_decides_how_many_calls_a_task_needs(calls):
    mix = tuple(float(calls == n) for n in (1, 2, 3))
    assert {len(task.plan) for task in tasks("train", 60, ToolboxConfig(call_mix=mix))} == {calls}


def test_call_mix_gives_shares():
    lengths = [len(task.plan) for task in tasks("train", 3000)]
    shares = [lengths.count(calls) / len(lengths) for calls in (1, 2, 3)]
    assert shares == pytest.approx(CONFIG.call_mix, abs=0.04)


def get(key):
    return Call("get_key", {"key": key})


ERRORS = [
    (Call("fetch_key", {"key": "k"}), "tool_not_found", "no tool fetch_key"),
    (Call("get_key", {}), "type_error", "get_key takes key"),
    (Call("get_key", {"key": "k", "extra": 1}), "type_error", "get_key takes key"),
    (Call("set_key", {"key": "k"}), "type_error", "set_key takes key,value"),
    (Call("set_key", {"key": "k", "value": "5"}), "type_error", "value must be int"),
    (Call("set_key", {"key": "k", "value": 5.0}), "type_error", "value must be int"),
    (Call("set_key", {"key": "k", "value": True}), "type_error", "value must be int"),
    (Call("get_key", {"key": 5}), "type_error", "key must be str"),
    (Call("get_key", {"key": None}), "type_error", "key must be str"),
    (get("z"), "runtime_error", "no key z"),
    (Call("drop_key", {"key": "z"}), "runtime_error", "no key z"),
    (Call("swap_key", {"first": "k", "second": "z"}), "runtime_error", "no key z"),
    (Call("read_file", {"path": "b.py"}), "runtime_error", "no file b.py"),
    (Call("move_file", {"source": "b.py", "target": "c.py"}), "runtime_error", "no file b.py"),
    (Call("copy_file", {"source": "a.py", "target": "empty.md"}), "runtime_error", "empty.md exists"),
    (Call("touch_file", {"path": "a.py"}), "runtime_error", "a.py exists"),
    (Call("replace_file", {"path": "a.py", "old": "q", "new": "r"}), "runtime_error", "no q in a.py"),
    (Call("peek_file", {"path": "empty.md"}), "runtime_error", "empty.md is empty"),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=[f"{kind}:{text}" for _, kind, text in ERRORS])
def test_a_failing_call_says_why_and_changes_nothing(call, kind, message):
    episode = play(TASK, call)
    [turn] = episode.turns
    assert turn.error == TurnError(kind, message, call.name)
    assert turn.observation == f"error: {kind}: {message}"
    assert not episode.finished
    assert episode.world == WORLD


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name":"get_key","arguments":{"key":"k"}', "the turn is not valid json"),
        ("get k", "the turn is not valid json"),
        ("", "the turn is not valid json"),
        ("Done", "the turn is not valid json"),
        ("[" * 100_000, "the turn is not valid json"),
        ('{"a":' + "9" * 5000 + "}", "the turn is not valid json"),
        ("[]", "the turn is not one call with name and arguments"),
        ("null", "the turn is not one call with name and arguments"),
        ('{"name":"get_key"}', "the turn is not one call with name and arguments"),
        ('{"name":"get_key","arguments":"{}"}', "the turn is not one call with name and arguments"),
        ('{"name":1,"arguments":{}}', "the turn is not one call with name and arguments"),
        ('{"name":"get_key","arguments":{},"id":1}', "the turn is not one call with name and arguments"),
    ],
    ids=range(12),
)
def test_an_unparsable_turn_ends_the_episode(text, message):
    episode = play(TASK, text)
    [turn] = episode.turns
    assert (turn.text, turn.call, turn.error) == (text, None, TurnError("json_decode", message))
    assert episode.finished
    assert episode.reward == 0
    with pytest.raises(RuntimeError, match="has ended"):
        episode.step(FINISH)


def test_an_unparsable_turn_costs_a_reward_already_earned_and_stays_in_the_trace():
    calls = [Call("get_key", {"key": "k"}), Call("set_key", {"key": "j", "value": 5})]
    earned = play(TASK, *calls)
    assert earned.world == GOAL
    assert earned.reward == 1
    spoilt = play(TASK, *calls, '{"name":')
    assert spoilt.world == GOAL
    assert spoilt.reward == 0
    trace = trace_of(spoilt, "tiny", 0)
    assert trace.outcome == 0
    assert len(trace.turns) == 3
    last = trace.turns[-1]
    assert [message["content"] for message in trace.messages[last.start : last.end]] == [
        '{"name":', "error: json_decode: the turn is not valid json"
    ]  # fmt: skip
    assert [(site.turn, site.error_kind) for site in find_sites(trace)] == [(2, "json_decode")]


def test_a_call_that_failed_before_is_a_repeated_failure_of_the_same_kind():
    spaced = '{ "arguments": {"value": "5", "key": "k"}, "name": "set_key" }'
    mistyped = Call("set_key", {"key": "k", "value": "5"})
    errors = [turn.error for turn in play(TASK, mistyped, get("z"), spaced, get("z")).turns]
    assert errors == [
        TurnError("type_error", "value must be int", "set_key"),
        TurnError("runtime_error", "no key z", "get_key"),
        TurnError("repeated_failure", "value must be int", "set_key", "type_error"),
        TurnError("repeated_failure", "no key z", "get_key", "runtime_error"),
    ]


def test_a_call_that_failed_before_and_now_works_is_no_failure():
    episode = play(TASK, get("z"), Call("set_key", {"key": "z", "value": 1}), get("z"))
    assert [turn.error is None for turn in episode.turns] == [False, True, True]


def test_quoted_integers_must_be_quoted_numbers():
    task = task_of(WORLD, GOAL, *COPY_K_TO_J, types={"value": "str"})

    def error(value):
        return play(task, Call("set_key", {"key": "j", "value": value})).turns[0].error

    assert error("5") is None
    assert error("-5") is None
    for value in ("x", "", "5.0"):
        assert error(value) == TurnError("type_error", "value must be a number in quotes", "set_key")
    assert error(5) == TurnError("type_error", "value must be str", "set_key")
    assert play(task, Call("set_key", {"key": "j", "value": "5"})).reward == 1


@pytest.mark.parametrize("value", ["--5", "²"])
def test_a_quoted_text_that_is_no_number_is_a_type_error(value):
    task = task_of(WORLD, GOAL, *COPY_K_TO_J, types={"value": "str"})
    [turn] = play(task, Call("set_key", {"key": "j", "value": value})).turns
    assert turn.error == TurnError("type_error", "value must be a number in quotes", "set_key")


EFFECTS = [
    ("read_file", {"path": "a.py"}, "x y", {}),
    ("peek_file", {"path": "a.py"}, "x", {}),
    ("count_file", {"path": "a.py"}, "2", {}),
    ("write_file", {"path": "b", "text": "w"}, "ok", {"b": "w"}),
    ("append_file", {"path": "a.py", "text": "w"}, "ok", {"a.py": "x y w"}),
    ("append_file", {"path": "empty.md", "text": "w"}, "ok", {"empty.md": "w"}),
    ("delete_file", {"path": "a.py"}, "ok", {"a.py": None}),
    ("copy_file", {"source": "a.py", "target": "b"}, "ok", {"b": "x y"}),
    ("move_file", {"source": "a.py", "target": "b"}, "ok", {"b": "x y", "a.py": None}),
    ("replace_file", {"path": "a.py", "old": "x", "new": "z"}, "ok", {"a.py": "z y"}),
    ("touch_file", {"path": "b"}, "ok", {"b": ""}),
    ("get_key", {"key": "k"}, "5", {}),
    ("set_key", {"key": "k", "value": 9}, "ok", {"k": 9}),
    ("drop_key", {"key": "k"}, "ok", {"k": None}),
    ("raise_key", {"key": "k", "amount": 2}, "ok", {"k": 7}),
    ("scale_key", {"key": "k", "factor": 3}, "ok", {"k": 15}),
    ("mirror_key", {"source": "k", "target": "m"}, "ok", {"m": 5}),
    ("swap_key", {"first": "k", "second": "j"}, "ok", {"k": 7, "j": 5}),
    ("reset_key", {"key": "k"}, "ok", {"k": 0}),
    ("add_numbers", {"a": 2, "b": 3}, "5", {}),
    ("subtract_numbers", {"a": 2, "b": 3}, "-1", {}),
    ("multiply_numbers", {"a": 2, "b": 3}, "6", {}),
    ("max_numbers", {"a": 2, "b": 3}, "3", {}),
    ("enable_flag", {"flag": "f"}, "ok", {"f": 1}),
    ("disable_flag", {"flag": "f"}, "ok", {"f": 0}),
]


def test_the_effects_cover_every_tool():
    assert {name for name, *_ in EFFECTS} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize(("name", "arguments", "observation", "changes"), EFFECTS)
def test_what_each_tool_does(name, arguments, observation, changes):
    episode = play(TASK, Call(name, arguments))
    assert episode.turns[0].observation == observation
    before, after = WORLD.files | WORLD.keys, episode.world.files | episode.world.keys
    assert {key: after.get(key) for key in before | after if before.get(key) != after.get(key)} == changes


def test_an_episode_does_not_change_its_task():
    play(TASK, Call("delete_file", {"path": "a.py"}), Call("reset_key", {"key": "k"}))
    assert TASK.start == WORLD
    assert ToolboxEpisode(TASK).world == WORLD


@pytest.mark.parametrize("split", SPLITS)
def test_doing_nothing_earns_nothing(split):
    for task in tasks(split, 200):
        assert ToolboxEpisode(task).reward == 0
        assert play(task, FINISH).reward == 0


def test_an_episode_ends_after_its_last_turn():
    episode = play(TASK, *[get("k")] * (MAX_TURNS - 1))
    assert not episode.finished
    episode.step(get("k").render())
    assert episode.finished
    with pytest.raises(RuntimeError, match="has ended"):
        episode.step(FINISH)


def test_saying_done_ends_the_episode_without_an_observation():
    [turn] = play(TASK, f"  {FINISH}\n").turns
    assert (turn.observation, turn.error, turn.call) == (None, None, None)


def test_the_oracle_looks_a_value_up_before_it_uses_it():
    episode = ToolboxEpisode(TASK)
    assert next_call(episode) == get("k")
    episode.step(get("j").render())
    assert next_call(episode) == get("k")
    episode.step('{"name":"get_key","arguments":{"key":7}}')
    assert next_call(episode) == get("k")
    episode.step(get("k").render())
    assert next_call(episode) == Call("set_key", {"key": "j", "value": 5})


def test_the_oracle_has_nothing_to_add_to_a_reached_goal():
    assert next_call(play(TASK, get("k"), Call("set_key", {"key": "j", "value": 5}))) is None


def test_the_oracle_gives_up_when_the_goal_is_out_of_reach():
    with pytest.raises(LookupError, match="cannot be finished"):
        next_call(play(TASK, Call("drop_key", {"key": "k"})))


def test_the_oracle_uses_the_names_and_types_of_the_episode():
    task = task_of(WORLD, GOAL, *COPY_K_TO_J, types={"value": "str"}, names={"get_key": "get_entry"})
    assert next_call(ToolboxEpisode(task)) == Call("get_entry", {"key": "k"})
    seen = play(task, Call("get_entry", {"key": "k"}))
    assert next_call(seen) == Call("set_key", {"key": "j", "value": "5"})


def test_a_lookup_that_showed_another_value_does_not_count_as_seen():
    up, down = (Call("raise_key", {"key": "k", "amount": amount}) for amount in (1, -1))
    episode = play(TASK, up, get("k"), down)
    assert episode.turns[1].observation == "6"
    assert next_call(episode) == get("k")


def test_a_trace_holds_the_whole_episode():
    episode = play(TASK, get("z"), get("k"), FINISH)
    trace = trace_of(episode, "vendor/model", 3)
    assert trace.source.agent == "toolbox"
    assert (trace.task_id, trace.outcome) == (TASK.task_id, 0)
    assert trace.tools == TASK.tool_schemas
    assert [message["role"] for message in trace.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert [(turn.start, turn.end) for turn in trace.turns] == [(2, 4), (4, 6), (6, 7)]
    assert {(turn.source_model, turn.family) for turn in trace.turns} == {("vendor/model", "vendor")}
    assert [message.get("is_error", False) for message in trace.messages] == [False] * 3 + [True] + [False] * 3
    [call] = trace.messages[2]["tool_calls"]
    assert call["id"] == trace.messages[3]["tool_call_id"]
    assert json.loads(call["function"]["arguments"]) == {"key": "z"}


def test_trace_ids_tell_samples_models_and_turns_apart():
    one = play(TASK, get("k"))
    ids = [
        trace_of(one, "tiny", 0).trace_id, trace_of(one, "tiny", 1).trace_id, trace_of(one, "big", 0).trace_id,
        trace_of(play(TASK, get("j")), "tiny", 0).trace_id,
    ]  # fmt: skip
    assert len(set(ids)) == 4
    assert trace_of(play(TASK, get("k")), "tiny", 0).trace_id == ids[0]


def test_replaying_a_history_stops_where_the_history_stops():
    trace = trace_of(play(TASK, get("k"), Call("set_key", {"key": "j", "value": 5}), FINISH), "tiny", 0)
    assert replay_history(TASK, trace.history(1)).world == WORLD
    assert replay_history(TASK, trace.history(2)).world == GOAL
    assert not replay_history(TASK, trace.history(2)).finished
    assert replay_history(TASK, trace.messages).finished


def test_nesting_near_the_limit_of_the_parser_never_raises():
    for depth in range(600, 1000):
        ToolboxEpisode(TASK).step('{"name":"x","arguments":{"a":' + "[" * depth + "]" * depth + "}}")


def test_a_lone_surrogate_makes_a_trace():
    trace_of(play(TASK, '{"name":"\\ud800","arguments":{}}'), "tiny", 0).model_dump_json()


@pytest.mark.parametrize(
    "calls",
    [
        (Call("", {}),),
        (Call("read_file", {"path": "a takes b"}),),
        (Call("touch_file", {"path": "no tool x"}), Call("touch_file", {"path": "no tool x"})),
        (Call("write_file", {"path": "b", "text": "error: x"}), Call("read_file", {"path": "b"})),
    ],
    ids=["empty name", "path with takes", "path like no tool", "file that begins with error"],
)
def test_sites_are_what_the_executor_reported_even_for_odd_texts(calls):
    episode = play(TASK, *calls)
    reported = [(number, turn.error.kind) for number, turn in enumerate(episode.turns) if turn.error]
    assert [(site.turn, site.error_kind) for site in find_sites(trace_of(episode, "tiny", 0))] == reported
