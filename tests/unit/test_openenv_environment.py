"""OpenEnv servers of others as an environment: our own served tasks, and servers as third parties write them."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI
from fastmcp import FastMCP
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State

from composer_replication.config import Config
from composer_replication.environments.code.serving.server import ServerSettings, build_app, server_config
from composer_replication.environments.opening import open_environment
from composer_replication.errors import RecomposeError, UsageError
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task


class Guess(Action):
    number: int


class Hint(Observation):
    text: str


class GuessingGame(Environment):
    """A number from 1 to 10, chosen by the seed; three guesses."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **options):
        self._number, self._left = (seed or 0) % 10 + 1, 3
        return Hint(text=f"Game {seed}: guess a number from 1 to 10.")

    def step(self, action, timeout_s=None, **options):
        self._left -= 1
        if action.number == 13:
            raise ValueError("thirteen brings bad luck")
        if action.number == self._number:
            return Hint(text="Right.", done=True, reward=1.0)
        return Hint(text="Higher." if action.number < self._number else "Lower.", done=self._left == 0, reward=0.0)

    @property
    def state(self):
        return State()


class Forgetful(GuessingGame):
    """Shows another task at every reset."""

    shown = 0

    def reset(self, seed=None, episode_id=None, **options):
        super().reset(seed)
        type(self).shown += 1
        return Hint(text=f"Game {self.shown}")


class WithSplits(GuessingGame):
    def reset(self, seed=None, episode_id=None, split="train", index=0, **options):
        super().reset(index)
        return Hint(text=f"{split} {index}")

    def list_splits(self):
        return ["train", "test"]

    def num_tasks(self, split):
        return len(self.list_tasks(split))

    def list_tasks(self, split):
        return [{"id": f"{split}/{index}"} for index in range(3 if split == "train" else 2)]


class Adder(MCPEnvironment):
    """Third-party tools of FastMCP; `answer` ends the episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("adder")
        self._done, self._right = False, False

        @server.tool()
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @server.tool()
        def answer(value: int) -> str:
            """Say the result."""
            self._done, self._right = True, value == 579
            return "noted"

        super().__init__(server)

    def reset(self, seed=None, episode_id=None, **options):
        self._done = False
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action, timeout_s=None, **options):
        raise ValueError("only tools")

    def step(self, action, timeout_s=None, **options):
        return self._judged(super().step(action, timeout_s, **options))

    async def step_async(self, action, timeout_s=None, **options):
        return self._judged(await super().step_async(action, timeout_s, **options))

    def _judged(self, seen):
        seen.done, seen.reward = self._done, float(self._right) if self._done else None
        return seen

    @property
    def state(self):
        return State()


@contextmanager
def running(config):
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def serving(environment, action=Guess, observation=Hint):
    app = FastAPI()
    concurrency = ConcurrencyConfig(max_concurrent_envs=8)
    HTTPEnvServer(environment, action, observation, concurrency_config=concurrency).register_routes(app)
    with running(uvicorn.Config(app, port=0, log_level="warning")) as url:
        yield url


@contextmanager
def opened(url, max_steps=6, **settings):
    section = {"name": "openenv", "url": url, "max_steps": max_steps, "settings": settings}
    with open_environment(Config.model_validate({"environment": section})) as environment:
        yield environment


@pytest.fixture(scope="module")
def game():
    with serving(GuessingGame) as url:
        yield url


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_a_scripted_policy_wins_a_third_partys_game(game):
    with opened(game, tasks=20) as environment:
        task = environment.task("seed-4")
        assert task.messages[-1] == {"role": "user", "content": "Game 4: guess a number from 1 to 10."}
        assert "number" in task.messages[0]["content"]
        episode = environment.start(task)
        assert episode.step("3") == ("Higher.", False)
        assert episode.step('{"number": 5}') == ("Right.", False)
        assert episode.finished and episode.reward == 1.0
        trace = episode.trace("some/model", 0)
        assert (len(trace.turns), trace.task_id, trace.outcome) == (2, "seed-4", 1.0)
        episode.close()
        episode.close()


def test_ids_are_stable_and_splits_disjoint(game):
    with opened(game, tasks=40) as first, opened(game, tasks=40) as second:
        sides = [[task.task_id for task in environment.tasks(split)] for environment in (first, second)
                 for split in ("train", "heldout")]  # fmt: skip
    assert sides[:2] == sides[2:] and all(sides)
    assert not set(sides[0]) & set(sides[1]) and len(sides[0]) + len(sides[1]) == 40
    with pytest.raises(LookupError):
        first.task("seed-40")


def test_what_the_policy_does_wrong_is_answered_and_keeps_its_place(game):
    with opened(game) as environment:
        episode = environment.start(environment.task("seed-4"))
        answers = [episode.step(turn) for turn in ('{"nubmer": 3}', "perhaps \ud800", "13", "5")]
        assert [answer.failed for answer in answers] == [True, True, True, False]
        assert "bad luck" in answers[2].observation
        trace = episode.trace("some/model", 0)
        assert [trace.messages[turn.end - 1].get("is_error", False) for turn in trace.turns] == [
            True,
            True,
            True,
            False,
        ]
        assert episode.finished and episode.reward == 1.0
        episode.close()


def test_a_conversation_goes_on_where_it_was(game):
    with opened(game) as environment:
        first = environment.start(environment.task("seed-4"))
        first.step("3")
        reached = first.trace("some/model", 0).messages
        again = environment.resume("seed-4", reached)
        again.step("5")
        assert again.reward == 1.0 and again.trace("some/model", 0).messages[: len(reached)] == reached
        altered = [*reached[:-1], {**reached[-1], "content": "Lower."}]
        assert environment.resume("seed-4", altered) is None
        first.close()
        again.close()


def test_an_episode_ends_at_its_last_step(game):
    with opened(game, max_steps=2) as environment:
        episode = environment.start(environment.task("seed-4"))
        episode.step("nothing")
        episode.step("nothing")
        assert episode.finished and episode.reward == 0.0
        episode.close()


def test_rewards_are_scaled_by_their_range(game):
    with opened(game, reward_range=[-1, 1]) as environment:
        assert environment.start(environment.task("seed-4")).reward == 0.5
    with opened(game, reward_range=[0, 0.5]) as environment:
        episode = environment.start(environment.task("seed-4"))
        episode.step("5")
        with pytest.raises(RecomposeError, match="reward_range"):
            _ = episode.reward
        episode.close()


def test_the_servers_own_splits_are_kept():
    with serving(WithSplits) as url, opened(url) as environment:
        assert [task.task_id for task in environment.tasks("train")] == ["train/0", "train/1", "train/2"]
        assert [task.task_id for task in environment.tasks("test")] == ["test/0", "test/1"]
        assert list(environment.heldout) == ["test"]
        assert environment.task("test/1").messages[-1]["content"] == "test 1"


def test_a_server_that_does_not_repeat_its_tasks_is_told():
    with serving(Forgetful) as url, opened(url) as environment:
        episode = environment.start(environment.task("seed-0"))
        with pytest.raises(RecomposeError, match="another task"):
            episode.step("1")
        episode.close()


def test_a_lost_session_is_not_taken_up_by_another(game):
    """OpenEnv's client connects again by itself; the new session would not have been reset."""
    with opened(game) as environment:
        episode = environment.start(environment.task("seed-4"))
        episode.step("3")
        episode._session.disconnect()
        with pytest.raises(RecomposeError, match="connection was lost"):
            episode.step("5")
        episode.close()


def test_a_server_that_goes_away_is_told():
    with serving(GuessingGame) as url, opened(url) as environment:
        episode = environment.start(environment.task("seed-4"))
        episode.step("3")
        waiting = environment.start(environment.task("seed-4"))
    with pytest.raises(RecomposeError, match="server is gone"):
        episode.step("5")
    with pytest.raises(RecomposeError, match="takes no session"):
        waiting.step("5")
    episode.close()
    waiting.close()


def test_tools_of_an_mcp_server_are_called_as_text():
    with serving(Adder, CallToolAction, CallToolObservation) as url, opened(url) as environment:
        episode = environment.start(environment.task("seed-0"))
        assert [tool["function"]["name"] for tool in episode.tools] == ["add", "answer"]
        assert "Add two numbers." in episode.messages[0]["content"]
        assert episode.step("I wonder.").failed
        assert episode.step(call("add", a=123)).failed
        assert episode.step(call("multiply", a=1)).failed
        answer = episode.step("I add." + call("add", a=123, b=456) + call("answer", value=579))
        assert answer == ("579\nnoted", False)
        assert episode.finished and episode.reward == 1.0
        last = episode.trace("some/model", 0).messages[-3]
        assert (last["content"], len(last["tool_calls"])) == ("I add.", 2)
        episode.close()


def test_our_own_served_tasks_are_solved(tmp_path):
    other = code_task().task.model_copy(update={"task_id": "second", "statement": "The second."})
    tasks = [write_sample_task(tmp_path / "first"), write_sample_task(tmp_path / "second", task=other)]
    settings = ServerSettings(port=0)
    with running(server_config(build_app(tasks, settings), settings)) as url, opened(url) as environment:
        task = environment.task("spanbook-merge")
        assert task.messages[-1]["content"] == "Write `merge` and `gaps` in spanbook/spans.py."
        episode = environment.start(task)
        assert episode.step(call("read_file", path="nope")).failed
        answer = episode.step(call("write_file", path=SPANS, content=SPANS_GOLD) + call("submit") + call("submit"))
        assert "handed in" in answer.observation and "not made" in answer.observation
        assert episode.finished and episode.reward == 1.0
        episode.close()


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"url": None}, "address"),
        ({"url": "http://192.0.2.1:8000"}, "clear text"),
        ({"url": "http://127.0.0.1:9"}, "does not answer"),
        ({"url": "http://127.0.0.1:9", "settings": {"seeds": 4}}, "has no seeds"),
        ({"url": "http://127.0.0.1:9", "settings": {"token_variable": "RECOMPOSE_NO_SUCH_TOKEN"}}, "is not set"),
        ({"url": "http://127.0.0.1:9", "settings": {"reward_range": [1, 0]}}, "no range"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_reason(section, reason):
    config = Config.model_validate({"environment": {"name": "openenv", **section}})
    with pytest.raises(UsageError, match=reason), open_environment(config):
        pass
