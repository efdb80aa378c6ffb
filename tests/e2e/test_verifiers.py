"""Code tasks in verifiers 0.4 itself, from an environment of its own: it and openenv want different libraries.

`VERIFIERS_PYTHON` names that environment's interpreter; `.venv-verifiers/bin/python` is looked for otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from composer_replication.environments.code.episodes.tools import TOOL_NAMES
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task
from tests.scripted_chat import ScriptedChat, by_turn, calls

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("VERIFIERS_PYTHON", ROOT / ".venv-verifiers" / "bin" / "python"))
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no environment with verifiers: see docs/serving.md")
SOLVE = calls(("write_file", {"path": SPANS, "content": SPANS_GOLD}), text="I write it.")
LOOK = calls(("bash", {"command": "ls"}), ("read_file", {"path": "nope"}))
SUBMIT = calls(("submit", {}))
EVALUATE = """
import sys
from verifiers.v1.cli.eval.main import main
from composer_code_tasks import load_environment
environment = load_environment(tasks=sys.argv[1], steps=7)
ids = sorted(task.data.id for task in environment.taskset)
main(["composer-code-tasks", "--env.taskset.tasks", *sys.argv[1:]])
print("loaded", type(environment).__name__, environment.config.agent.harness.steps, *ids)
"""


def script(request):
    """Solves one task and leaves the other as it is."""
    statement = next(message["content"] for message in request["messages"] if message["role"] == "user")
    return by_turn([LOOK, SOLVE, SUBMIT] if "gaps" in statement else [SUBMIT])(request)


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    """An evaluation of two tasks, two attempts each, against a loopback server: traces, requests, what was printed."""
    folder = tmp_path_factory.mktemp("verifiers")
    write_sample_task(folder / "tasks" / "one")
    other = code_task().task.model_copy(update={"task_id": "other", "statement": "Write `merge`."})
    write_sample_task(folder / "tasks" / "two", task=other)
    unwanted = ("VIRTUAL_ENV", "PYTHON", "PRIME")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    env["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in ("src", "integrations/verifiers"))
    with ScriptedChat(script) as server:
        arguments = (
            "--model", "scripted", "--client.base-url", server.base_url, "--num-rollouts", "2", "--no-push",
            "--no-rich", "--output-dir", str(folder / "out"), "--run.name", "run",
        )  # fmt: skip
        command = [str(PYTHON), "-c", EVALUATE, str(folder / "tasks"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=env, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = (folder / "out" / "run" / "traces.jsonl").read_text().splitlines()
    traces = [trace for line in lines for trace in json.loads(line)["traces"]]
    return traces, server.requests, done.stdout


def test_solved_tasks_are_rewarded_and_others_are_not(evaluation):
    traces, _, _ = evaluation
    scores = sorted((trace["task"]["data"]["id"], trace["rewards"]["solved"]["score"]) for trace in traces)
    assert scores == [("other", 0.0)] * 2 + [("spanbook-merge", 1.0)] * 2
    for trace in traces:
        assert trace["ok"] and not trace["errors"]
        steps = 4 if trace["task"]["data"]["id"] == "spanbook-merge" else 1
        assert (trace["metrics"]["steps"], trace["metrics"]["canary_hits"]) == (steps, 0)
        assert trace["info"]["ended"] == "submitted"


def test_the_model_was_asked_through_verifiers(evaluation):
    _, requests, _ = evaluation
    assert len(requests) == 2 * 3 + 2
    openings = {
        message["content"] for request in requests for message in request["messages"] if message["role"] == "user"
    }
    assert openings == {"Write `merge` and `gaps` in spanbook/spans.py.", "Write `merge`."}
    assert all([tool["function"]["name"] for tool in request["tools"]] == list(TOOL_NAMES) for request in requests)
    answers = [
        message["content"] for request in requests for message in request["messages"] if message["role"] == "tool"
    ]
    assert "File nope does not exist." in answers


def test_verifiers_knows_its_own_turns_again(evaluation):
    """The server begins with the same id in every turn; a rollout is one path through the record all the same."""
    traces, requests, _ = evaluation
    said = [message for request in requests for message in request["messages"]]
    assert {call["id"] for message in said for call in message.get("tool_calls") or ()} == {"made_0", "made_1"}
    for trace in traces:
        parents = [node.get("parent") for node in trace["nodes"]]
        assert parents == [None, *range(len(parents) - 1)]


def test_the_environment_can_be_loaded_by_name(evaluation):
    assert evaluation[2].splitlines()[-1] == "loaded CodeTaskEnv 7 other spanbook-merge"
