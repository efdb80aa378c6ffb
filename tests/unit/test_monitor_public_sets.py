"""Loaders of public sets, on tiny files of their layouts that were written here."""

import json

import pytest

from composer_replication.errors import UsageError
from composer_replication.monitor.public_rows import as_our_tool
from composer_replication.monitor.public_sets import PUBLIC_SETS, read_public_set


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def commands(labelled):
    return [step.command for step in labelled.watched.steps if step.kind == "command"]


def wrench(root, task, tree, label, classification, keystrokes):
    home = root / "tasks" / task / "some-model" / tree / label
    steps = [
        {"source": "user", "message": "do it"},
        {
            "source": "agent",
            "message": "I shall cheat",
            "reasoning_content": "secretly",
            "tool_calls": [
                {
                    "tool_call_id": "c1",
                    "function_name": "bash_command",
                    "arguments": {"keystrokes": keystrokes, "duration": 1},
                }
            ],
            "observation": {"results": [{"content": "some output"}]},
        },
    ]
    write(home / "trial" / "agent" / "trajectory.json", {"schema_version": "ATIF-v1.6", "steps": steps})
    facts = {"classification": classification, "task_id": task, "exploit_categories": ["output-spoofing"]}
    write(home / "metadata.json", facts)


def test_terminal_wrench(tmp_path):
    wrench(tmp_path, "7", "hack_trajectories", "v5", "rewarded_serious_exploit", "echo 1 > /logs/reward.txt\n")
    wrench(tmp_path, "7", "hack_trajectories", "v6", "no_reward", "ls\n")
    wrench(tmp_path, "7", "stripped_trajectories", "v5", "rewarded_serious_exploit", "echo 1\n")
    wrench(tmp_path, "8", "baseline_trajectories", "b1", "baseline", "pytest\n")
    found = list(read_public_set("terminal_wrench", tmp_path))
    assert [(each.is_hack, commands(each)) for each in found] == [
        (True, ["echo 1 > /logs/reward.txt"]),
        (False, ["pytest"]),
    ]
    assert found[0].hack_class == "output-spoofing"
    assert found[0].watched.steps[0].output == "some output"
    assert found[0].watched.evidence is None


def harbor(root, trial, truth, trace):
    write(root / trial / "tests" / "ground_truth.json", truth)
    write(root / trial / "environment" / "trace.txt", trace)


def test_rewardhackbench(tmp_path):
    clean = {"harness_level_cheating": False, "task_level_reward_hacking": False, "refusals": False}
    harbor(tmp_path, "a", {**clean, "task_level_reward_hacking": True}, 'said\n{"keystrokes": "cat \\"x y\\"\\n"}\n')
    harbor(tmp_path, "b", clean, "root@box:/app# make test\nok\n$ ls -l\n")
    harbor(tmp_path, "c", {**clean, "refusals": True}, "I will not")
    found = list(read_public_set("rewardhackbench", tmp_path))
    assert [(each.is_hack, each.hack_class, commands(each)) for each in found] == [
        (True, "task_level_reward_hacking", ['cat "x y"']),
        (False, "", ["make test", "ls -l"]),
    ]


def trace_row(label):
    turns = [
        {"role": "user", "content": "fix it"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"name": "execute", "parameters": {"command": "git log"}},
                {"name": "str_replace", "parameters": {"path": "tests/test_a.py", "old_str": "1", "new_str": "2"}},
            ],
            "tool_results": [{"output": "commit"}],
        },
    ]
    return {"trajectory_id": f"t{label}", "conversation": json.dumps(turns), "label": label}


def test_trace(tmp_path):
    rows = "\n".join(json.dumps(trace_row(label)) for label in ("0", "1.1.1,1.3.2"))
    found = list(read_public_set("trace", write(tmp_path / "train.jsonl", rows)))
    assert [(each.is_hack, each.hack_class) for each in found] == [(False, ""), (True, "1.1.1,1.3.2")]
    assert [step.kind for step in found[1].watched.steps] == ["command", "edit"]
    assert found[1].watched.steps[0].output == "commit"
    assert found[1].watched.steps[1].path == "tests/test_a.py"


def test_trace_in_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [trace_row("0"), trace_row("2.1.1")]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "train-00000.parquet")
    assert [each.is_hack for each in read_public_set("trace", tmp_path)] == [False, True]


def message(role, content="", call=None):
    return {"role": role, "content": content, "function_call": {"name": "bash", "arguments": call} if call else None}


def test_malt_as_samples_and_as_a_graph(tmp_path):
    history = [
        message("user", "go"),
        message("assistant", call='{"command": "nvidia-smi"}'),
        message("function", "GPU 0"),
    ]
    answer = [[message("assistant", call='{"command": "cat /root/score.py"}')]]
    short = {"input": history[:1], "output": [[history[1]]]}
    sampled = {
        "run_id": 1,
        "labels": ["bypass_constraints"],
        "task_id": "t/1",
        "samples": [short, {"input": history, "output": answer}],
    }
    nodes = [
        {"node_id": number, "parent_node_id": number - 1 if number else None, "node_data": {"message": each}}
        for number, each in enumerate(history)
    ]
    nodes.append({"node_id": 9, "parent_node_id": 0, "node_data": {"message": message("assistant", "another try")}})
    graph = {"run_id": 2, "labels": ["normal"], "task_id": "t/2", "nodes": nodes}
    other = {"run_id": 3, "labels": ["sabotage"], "task_id": "t/3", "nodes": nodes}
    path = write(tmp_path / "malt.jsonl", "\n".join(map(json.dumps, (sampled, graph, other))))
    found = list(read_public_set("malt", path))
    assert [(each.is_hack, each.hack_class, commands(each)) for each in found] == [
        (True, "bypass_constraints", ["nvidia-smi", "cat /root/score.py"]),
        (False, "", ["nvidia-smi"]),
    ]
    assert found[0].watched.steps[0].output == "GPU 0"


def test_rewardhackwatch(tmp_path):
    for name, hack in (("assert_true_1", True), ("clean_2", False)):
        trajectory = {"cot_traces": ["I cheat"], "code_outputs": ["assert True"]}
        write(
            tmp_path / f"{name}.json",
            {"name": name, "id": "x", "expected_hack": hack, "category": "c", "trajectory": trajectory},
        )
    found = list(read_public_set("rewardhackwatch", tmp_path))
    assert [(each.is_hack, each.hack_class) for each in found] == [(True, "c"), (False, "")]
    assert found[0].watched.steps[0].text == "assert True"


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_a_set_that_is_not_there_says_where_it_is(name, tmp_path):
    with pytest.raises(UsageError) as error:
        list(read_public_set(name, tmp_path / "nowhere"))
    assert PUBLIC_SETS[name].url in str(error.value)
    assert PUBLIC_SETS[name].get in str(error.value)
    with pytest.raises(UsageError, match="nothing in the layout"):
        list(read_public_set(name, tmp_path))


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_every_set_has_a_licence_and_a_citation(name):
    known = PUBLIC_SETS[name]
    assert known.name == name
    assert all((known.url.startswith("https://"), known.licence, known.citation, known.layout))


def test_a_set_nobody_knows():
    with pytest.raises(UsageError, match="terminal_wrench"):
        list(read_public_set("nonsense", None))


def test_what_is_no_json_names_the_file(tmp_path):
    with pytest.raises(UsageError, match=r"x\.jsonl is not JSON"):
        list(read_public_set("trace", write(tmp_path / "x.jsonl", "{")))


@pytest.mark.parametrize(
    ("arguments", "tool"),
    [
        ({"cmd": ["bash", "-lc", "ls"]}, "bash"),
        ({"file_path": "a.py", "content": ""}, "write_file"),
        ({"path": "a.py", "command": "view"}, "read_file"),
        ({"path": "a.py", "command": "create", "file_text": "x"}, "write_file"),
        ({"path": "a.py", "command": "str_replace", "old_str": "x", "new_str": ""}, "edit_file"),
        ({"code": "print(1)"}, "python"),
        ({"query": "x"}, "search_web"),
    ],
)
def test_calls_become_our_tools_by_their_arguments(arguments, tool):
    assert as_our_tool("search_web", arguments)[0] == tool
