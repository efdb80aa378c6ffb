"""Groups of episodes that are played all the time: whole, in a bounded number, and heard of when the server is gone."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from composer_replication.config import SamplingConfig
from composer_replication.environments.protocol import Environment, EpisodeLimits
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.training.backends.trl_async.worker import EpisodeQueue
from composer_replication.training.rollouts import wire
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.rollouts.server_sampling import ServerSampler
from composer_replication.training.rollouts.worker import RolloutSettings, RolloutWorker
from tests.token_server import TokenServer
from tests.unit.test_rollout_worker import AsyncEcho, Echo, EchoTask

SIZE = 3


class Echoes(Environment):
    name = "echoes"
    limits = EpisodeLimits(turns=4, observation_tokens=8, concurrency=0)

    def start(self, task):
        return Echo(task.task_id, turns=2, reward=float(len(task.task_id)))


@pytest.fixture
def queue_on(make_model, tiny_tokens, monkeypatch):
    monkeypatch.setattr(wire, "FIRST_PAUSE_S", 0.001)
    model = make_model(len(tiny_tokens.tokenizer), seed=2)

    def build(server):
        sampler = ServerSampler(SamplingConfig(server=server.url, max_attempts=2), tiny_tokens.end_of_turn_id)
        worker = RolloutWorker(sampler, tiny_tokens, RolloutSettings(max_turn_tokens=4, temperature=1.0, max_turns=3))
        tasks = [EchoTask(name, Echo(name).messages) for name in ("a", "b")]
        return EpisodeQueue(worker, sampler, Echoes(), tasks, group_size=SIZE, groups_in_flight=2, seed=1)

    return lambda **options: TokenServer(model, tiny_tokens.tokenizer.pad_token_id, **options), build


def test_groups_come_whole_and_their_number_is_bounded(queue_on):
    open_server, build = queue_on
    with open_server(flavour="vllm") as server:
        queue = build(server)
        queue.update_model_version(7)
        queue.start()
        samples = [queue.rollout_buffer.get(timeout=20) for _ in range(4 * SIZE)]
        deadline = time.monotonic() + 20
        while not queue.rollout_buffer.full() and time.monotonic() < deadline:
            time.sleep(0.01)
        asked = len(server.requests)
        time.sleep(0.2)
        assert len(server.requests) <= asked + 2 * 2 * SIZE, "a full queue holds the players back"
        queue.check_health(stale_after_s=60)
        queue.stop()
    groups = [sample.group_id for sample in samples]
    assert all(groups.count(group) == SIZE for group in set(groups) if group < 3)
    assert {sample.model_version for sample in samples} == {7}
    for sample in samples:
        assert len(sample.input_ids) == len(sample.completion_mask) == len(sample.old_log_probs)
        assert (sample.old_log_probs[sample.completion_mask == 0] == 0).all()
        assert (sample.old_log_probs[sample.completion_mask == 1] < 0).all()
        assert sample.advantage == 0, "all members of these groups have one reward"
    first = [sample.input_ids.tolist() for sample in samples if sample.group_id == 0]
    assert len({tuple(ids) for ids in first}) == SIZE, "each member has a seed of its own"


def test_a_server_that_is_gone_is_heard_of(queue_on):
    open_server, build = queue_on
    with open_server(fault=lambda number: "503") as server:
        queue = build(server)
        queue.start()
        queue._thread.join(20)
    with pytest.raises(RecomposeError, match="did not answer /v1/completions in 2 tries: 503"):
        queue.check_health(stale_after_s=60)
    queue.stop()


class Gate:
    """A sampler whose turns each wait until they are let through."""

    max_tokens = None

    def __init__(self, tokens):
        self._turn = tokens.turn("done")
        self.asked, self.let_through = threading.Semaphore(0), threading.Semaphore(0)

    @asynccontextmanager
    async def connected(self):
        yield

    async def write(self, context, **asked):
        self.asked.release()
        while not self.let_through.acquire(blocking=False):
            await asyncio.sleep(0.001)
        return SampledTurn(self._turn, [-1.0] * len(self._turn), 0)


class Counted(Environment):
    """Keeps what it started, which may have to wait for `may_start`."""

    name = "counted"
    limits = EpisodeLimits(turns=4, observation_tokens=8, concurrency=0)

    def __init__(self, kind=Echo):
        self._kind, self.episodes = kind, []
        self.starting, self.may_start = threading.Event(), threading.Event()
        self.may_start.set()

    def start(self, task):
        self.starting.set()
        assert self.may_start.wait(20)
        self.episodes.append(self._kind(task.task_id))
        return self.episodes[-1]


def gated(tokens, environment):
    sampler = Gate(tokens)
    worker = RolloutWorker(sampler, tokens, RolloutSettings(max_turn_tokens=4, temperature=1.0))
    tasks = [EchoTask("a", Echo("a").messages)]
    return sampler, EpisodeQueue(worker, sampler, environment, tasks, group_size=1, groups_in_flight=1, seed=1)


def test_each_turn_is_a_sign_of_life(tiny_tokens):
    sampler, queue = gated(tiny_tokens, Counted())
    queue._alive_at -= 1000
    queue.start()
    queue.check_health(stale_after_s=60)
    assert sampler.asked.acquire(timeout=20)
    queue._alive_at -= 1000
    with pytest.raises(RecomposeError, match="no turn of a rollout was finished for 60 s"):
        queue.check_health(stale_after_s=60)
    sampler.let_through.release()
    assert sampler.asked.acquire(timeout=20), "the second turn of the same group"
    queue.check_health(stale_after_s=60)
    queue.stop()


def test_a_turn_that_never_ends_is_given_up_and_its_episode_closed(tiny_tokens):
    environment = Counted()
    sampler, queue = gated(tiny_tokens, environment)
    queue.start()
    assert sampler.asked.acquire(timeout=20)
    queue.stop()
    assert not queue._thread.is_alive()
    assert [episode.closed for episode in environment.episodes] == [1]
    queue.check_health(stale_after_s=60)


def test_an_episode_that_was_being_started_is_closed_too(tiny_tokens):
    environment = Counted()
    environment.may_start.clear()
    _, queue = gated(tiny_tokens, environment)
    queue.start()
    assert environment.starting.wait(20)
    threading.Timer(0.05, environment.may_start.set).start()
    queue.stop()
    assert not queue._thread.is_alive()
    assert [episode.closed for episode in environment.episodes] == [1]


def test_stopped_before_it_has_begun_it_plays_nothing(tiny_tokens):
    environment = Counted()
    _, queue = gated(tiny_tokens, environment)
    queue.stop()
    queue.start()
    queue._thread.join(20)
    assert not queue._thread.is_alive()
    assert not environment.episodes


def test_an_asynchronous_environment_needs_concurrency(tiny_tokens):
    environment = Counted(AsyncEcho)
    sampler, queue = gated(tiny_tokens, environment)
    for _ in range(3):
        sampler.let_through.release()
    queue.start()
    queue._thread.join(5)
    with pytest.raises(UsageError, match="asynchronous environment cannot run inline"):
        queue.check_health(stale_after_s=60)
    queue.stop()
    assert [episode.closed for episode in environment.episodes] == [1]
