"""verifiers' tasksets as an environment, in verifiers' own Python; the tasksets are in `tests/verifiers_tasksets`.

`VERIFIERS_PYTHON` names that environment's interpreter; `.venv-verifiers/bin/python` is looked for otherwise.
"""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.errors import RecomposeError, UsageError
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("VERIFIERS_PYTHON", ROOT / ".venv-verifiers" / "bin" / "python"))
SAMPLES = ROOT / "tests" / "verifiers_tasksets"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no environment with verifiers: see docs/serving.md")


@contextmanager
def opened(name, /, max_steps=6, python_path=(str(SAMPLES),), **settings):
    section = {
        "name": "verifiers",
        "taskset": name,
        "python": str(PYTHON),
        "max_steps": max_steps,
        "step_timeout_s": 120.0,
        "settings": {"python_path": list(python_path), **settings},
    }
    with open_environment(Config.model_validate({"environment": section})) as environment:
        yield environment


@pytest.fixture(scope="module")
def words():
    with opened("backwards") as environment:
        yield environment


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_a_scripted_policy_gets_the_whole_reward(words):
    task = words.task("word-river")
    assert task.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Write river backwards."},
    )
    assert task.labels == {"name": "river"}
    episode = words.start(task)
    assert episode.step("revir") == (None, False)
    assert episode.finished and episode.reward == pytest.approx(1.0)
    trace = episode.trace("some/model", 0)
    assert (len(trace.turns), trace.task_id, trace.outcome) == (1, "word-river", pytest.approx(1.0))
    episode.close()
    episode.close()


def test_the_rubric_decides(words):
    rewards = []
    for answer in ("river", "r" * 50):
        episode = words.start(words.task("word-river"))
        episode.step(answer)
        rewards.append(episode.reward)
        episode.close()
    assert rewards == pytest.approx([0.2, 0.0])


def test_an_attempt_that_nobody_plays_earns_nothing(words):
    episode = words.start(words.task("word-river"))
    assert episode.reward == 0.0 and not episode.finished
    episode.close()


def test_many_episodes_are_played_at_a_time(words):
    tasks = [*words.tasks("train"), *words.tasks("heldout")] * 2
    episodes = [words.start(task) for task in tasks]
    with ThreadPoolExecutor(len(episodes)) as pool:
        list(pool.map(lambda episode: episode.step(episode.task.labels["name"][::-1]), episodes))
    assert [episode.reward for episode in episodes] == pytest.approx([1.0] * 12)
    for episode in episodes:
        episode.close()


def test_ids_are_stable_splits_disjoint_and_the_process_guarded(words):
    sides = {split: {task.task_id for task in words.tasks(split)} for split in ("train", "heldout")}
    assert not sides["train"] & sides["heldout"] and all(sides.values())
    assert sides["train"] | sides["heldout"] == {
        f"word-{word}" for word in ("stone", "river", "cloud", "amber", "gravel", "meadow")
    }
    with pytest.raises(LookupError):
        words.task("word-none")
    with opened("backwards", taskset={"words": ["river", "new", "stone"]}) as again:
        for split, found in sides.items():
            assert {task.task_id for task in again.tasks(split)} - {"word-new"} <= found
        process = again._process
        url = str(process._client.base_url)
        assert httpx.post(f"{url}/rollouts", json={"task": "word-river"}).status_code == 401
        assert alive(process.pid)
        left = again.start(again.task("word-river"))
    assert not alive(process.pid)
    with pytest.raises(RecomposeError, match="was closed"):
        left.step("revir")
    left.close()
    again.close()


def test_tools_are_called_as_text():
    with opened("tool-sums") as environment:
        (task,) = (*environment.tasks("train"), *environment.tasks("heldout"))
        episode = environment.start(task)
        names = [tool["function"]["name"] for tool in episode.tools]
        assert names == ["calculator_add", "calculator_divide"] and "Add two numbers." in task.messages[0]["content"]
        assert episode.step("<tool_call>{broken") == ("Your response could not be parsed: the call is no JSON.", True)
        assert episode.step(call("calculator_divide", a=1, b=0)).failed
        assert episode.step(call("no_tool")).failed
        answer = episode.step(call("calculator_add", a=12, b=456) + call("calculator_add", a=1, b=1))
        assert answer == ("468\n2", False)
        episode.step("468")
        assert episode.finished and episode.reward == 1.0
        trace = episode.trace("some/model", 0)
        assert len(trace.turns) == 5
        failed = [trace.messages[turn.end - 1].get("is_error", False) for turn in trace.turns]
        assert failed == [True, True, True, False, False]
        episode.close()


def test_a_game_is_played_to_its_limit_and_its_reward_is_scaled():
    with opened("higher-lower", max_steps=3, limit=5, reward_range=[-5, 5]) as environment:
        task = environment.task("game-4")
        assert task.messages[-1] == {"role": "user", "content": "Game 4: guess."}
        won, lost, left = (environment.start(task) for _ in range(3))
        assert won.step("2") == ("No.", False)
        won.step("4")
        assert won.finished and won.reward == 1.0
        for guess in "123":
            lost.step(guess)
        assert lost.finished and lost.reward == 0.0
        left.step("1")
        assert not left.finished and left.reward == 0.0
        resumed = environment.resume("game-4", left.trace("some/model", 0).messages)
        resumed.step("4")
        assert resumed.reward == 1.0 and len(resumed.trace("some/model", 0).turns) == 2
        for episode in (won, lost, left, resumed):
            episode.close()
        with pytest.raises(LookupError):
            environment.task("game-5")


def test_commands_of_a_taskset_do_not_run_here_unasked_and_a_dead_process_is_told(tmp_path):
    command = f"touch {tmp_path / 'ran'}"
    with opened("shell-scored") as environment:
        episode = environment.start(environment.task("one"))
        with pytest.raises(RecomposeError, match="outside of any sandbox"):
            episode.step(command)
        episode.close()
        assert not (tmp_path / "ran").exists()
        another = environment.start(environment.task("one"))
        os.kill(environment._process.pid, signal.SIGKILL)
        with pytest.raises(RecomposeError, match="does not answer"):
            another.step(command)
        another.close()


def test_a_tasksets_own_harness_is_played(tmp_path):
    """Our own code tasks, as verifiers serves them."""
    write_sample_task(tmp_path / "one")
    paths = [str(ROOT / "src"), str(ROOT / "integrations" / "verifiers")]
    settings = {"taskset": {"tasks": str(tmp_path)}, "harness": "composer-code-tasks"}
    with opened("composer-code-tasks", python_path=paths, **settings) as environment:
        episode = environment.start(environment.task("spanbook-merge"))
        assert "Wrote" in episode.step(call("write_file", path=SPANS, content=SPANS_GOLD)).observation
        episode.step(call("submit"))
        assert episode.finished and episode.reward == 1.0
        episode.close()


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"taskset": None}, "needs a taskset"),
        ({"python": "no/such/python"}, "cannot be started"),
        ({"taskset": "no-such-taskset"}, "not found"),
        ({"settings": {"words": ["a"]}}, "has no words"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_reason(section, reason):
    section = {"name": "verifiers", "taskset": "backwards", "python": str(PYTHON), **section}
    with pytest.raises(UsageError, match=reason), open_environment(Config.model_validate({"environment": section})):
        pass
