"""Many environments at once: nothing is lost, slow ones overlap, and inline rollouts are decided by the generator."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from composer_replication.config import ToolboxConfig, TrainingConfig
from composer_replication.environments.protocol import Environment, EpisodeLimits, PlainAnswer
from composer_replication.environments.toolbox import ToolboxEpisode, make_task, trace_of
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.errors import UsageError
from composer_replication.records import Message, Source, Trace, Turn, content_id
from composer_replication.sites import find_sites
from composer_replication.training.backends.trl import rollouts as trl_rollouts
from composer_replication.training.rollouts.environment_steps import ConcurrentSteps
from composer_replication.training.rollouts.playing import roll_out
from composer_replication.training.rollouts.sampling import DynamicSampler, SampledTurn, sample_turns
from composer_replication.training.rollouts.worker import RolloutSettings, RolloutWorker


class EchoTask(NamedTuple):
    task_id: str
    messages: list[Message]
    labels: dict[str, str] = {}  # noqa: RUF012


class EchoWorld(Environment):
    """Starts echoes by name; one cannot be started, one breaks, one never ends."""

    name = "echo"

    def __init__(self, concurrency):
        self.limits = EpisodeLimits(turns=4, observation_tokens=8, concurrency=concurrency)
        self.built = []

    def start(self, task):
        if task.task_id == "unbuildable":
            raise OSError("no room")
        plan = {1: fail(OSError())} if task.task_id == "sick" else None
        self.built.append(Echo(task.task_id, turns=9 if task.task_id == "long" else 2, plan=plan))
        return self.built[-1]


class Echo:
    """An environment of `turns` turns that says back what it heard. `plan` maps a turn to what goes wrong there."""

    def __init__(self, name="e", turns=3, delay_s=0.0, plan=None, reward=1.0):
        self.messages: list[Message] = [{"role": "system", "content": "echo"}, {"role": "user", "content": name}]
        self.task, self.tools, self.evidence = EchoTask(name, self.messages), (), None
        self.heard, self.turns, self.delay_s, self.plan = [], turns, delay_s, plan or {}
        self.reward, self.threads, self.closed = reward, [], 0

    @property
    def finished(self):
        return len(self.heard) >= self.turns

    def step(self, text):
        self.threads.append(threading.current_thread())
        time.sleep(self.delay_s)
        return self._hear(text)

    def _hear(self, text):
        problem = self.plan.get(len(self.heard))
        if callable(problem):
            problem()
        self.heard.append(text)
        return PlainAnswer(f"ok {len(self.heard)}")

    def trace(self, source_model, sample):
        messages, turns = list(self.messages), []
        for number, text in enumerate(self.heard):
            messages += [{"role": "assistant", "content": text}, {"role": "tool", "content": f"ok {number + 1}"}]
            turns.append(Turn(start=len(messages) - 2, end=len(messages)))
        return Trace(
            trace_id=content_id(messages),
            source=Source(agent="echo"),
            messages=tuple(messages),
            turns=tuple(turns),
            outcome=self.reward,
        )

    def close(self):
        self.closed += 1


class AsyncEcho(Echo):
    async def step(self, text):
        await asyncio.sleep(self.delay_s)
        return self._hear(text)


def count_endings(rollouts):
    """How many rollouts did not end by themselves, by reason."""
    counts = Counter(rollout.failure.kind for rollout in rollouts if rollout.failure)
    counts["truncated"] = sum(rollout.truncated for rollout in rollouts)
    return +counts


class Script:
    """Writes `done` for everybody and remembers who was asked together."""

    max_tokens = None

    def __init__(self, tokens, batch=64):
        self.batch, self._turn = batch, tokens.turn("done")
        self.batches, self.refreshed = [], []

    def refresh(self, model):
        self.refreshed.append(model)

    def sample(self, slots, contexts, *, max_new_tokens, temperature, generator=None, on_turn=None):
        assert len(set(slots)) == len(slots)
        assert all(0 <= slot < self.batch for slot in slots)
        self.batches.append(list(slots))
        return [SampledTurn(list(self._turn), [-0.5] * len(self._turn)) for _ in slots]


def run(tokens, episodes, sampler=None, **options):
    settings = RolloutSettings(**{"max_turn_tokens": 8, "temperature": 1.0} | options)
    return RolloutWorker(sampler or Script(tokens), tokens, settings).run(episodes)


class Staggered(Script):
    """Tells of the first turn and goes on writing the others until `goes_on` is set."""

    def __init__(self, tokens, goes_on):
        super().__init__(tokens)
        self._goes_on = goes_on

    def sample(self, slots, contexts, *, on_turn=None, **options):
        turns = super().sample(slots, contexts, **options)
        if on_turn:
            on_turn(0, turns[0])
            assert self._goes_on.wait(10), "nobody has stepped while the others were written"
        return turns


def fail(error):
    def work():
        raise error

    return work


def plain_roll_out(model, tokens, tasks, *, max_turn_tokens, temperature, generator, batch_size):
    """The loop that the worker must equal: everybody's turn, then everybody's step, until all have ended."""
    rows = [(ToolboxEpisode(task), tokens.prompt(task.messages), [], []) for task in tasks]
    for start in range(0, len(rows), batch_size):
        active = rows[start : start + batch_size]
        while active:
            turns = sample_turns(
                model,
                [prompt + ids for _, prompt, ids, _ in active],
                end_of_turn_id=tokens.end_of_turn_id,
                pad_id=tokens.tokenizer.pad_token_id,
                max_new_tokens=max_turn_tokens,
                temperature=temperature,
                generator=generator,
            )
            for (episode, _, ids, logprobs), turn in zip(active, turns, strict=True):
                ids += turn.ids
                logprobs += turn.logprobs
                result = episode.step(tokens.text(turn.ids))
                if not episode.finished:
                    answer = tokens.after_turn(result.observation)
                    ids += answer
                    logprobs += [0.0] * len(answer)
            active = [row for row in active if not row[0].finished]
    return rows


@pytest.fixture(scope="module")
def policy(make_model, tiny_tokens):
    """A model that has learnt to write calls, some of them wrong, so that rollouts have several turns."""
    from composer_replication.environments.toolbox import Call

    tasks = [make_task(ToolboxConfig(), "train", index) for index in range(4)]
    model = make_model(len(tiny_tokens.tokenizer), hidden=64).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows = []
    for task in tasks:
        prompt = tiny_tokens.prompt(task.messages)
        rows.append((prompt, prompt + tiny_tokens.turn(Call(task.listings[0].name, {}).render())))
    for _ in range(15):
        for prompt, ids in rows:
            labels = torch.tensor([[-100] * len(prompt) + ids[len(prompt) :]])
            model(torch.tensor([ids]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), tasks * 4


@pytest.mark.parametrize("batch_size", [5, 512])
def test_inline_rollouts_are_bit_identical_to_the_plain_loop(policy, tiny_tokens, batch_size):
    model, tasks = policy
    options = {"max_turn_tokens": 24, "temperature": 1.3, "batch_size": batch_size}
    expected = plain_roll_out(model, tiny_tokens, tasks, **options, generator=torch.Generator().manual_seed(9))
    found = roll_out(
        model,
        tiny_tokens,
        ToolboxEnvironment(ToolboxConfig()),
        tasks,
        **options,
        generator=torch.Generator().manual_seed(9),
    )
    assert [rollout.completion_ids for rollout in found] == [ids for _, _, ids, _ in expected]
    assert [rollout.logprobs for rollout in found] == [logprobs for *_, logprobs in expected]
    for sample, (rollout, (episode, prompt, *_)) in enumerate(zip(found, expected, strict=True)):
        assert rollout.prompt_ids == prompt
        assert rollout.episode.task == episode.task
        assert rollout.trace("policy", sample) == trace_of(episode, "policy", sample)
    lengths = {len(rollout.turn_spans) for rollout in found}
    assert len(lengths) > 1
    assert max(lengths) > 1


class Meeting(Echo):
    """A step ends only when all are in one."""

    def __init__(self, barrier):
        super().__init__()
        self.barrier = barrier

    def step(self, text):
        self.barrier.wait(timeout=30)
        return self._hear(text)


class AsyncMeeting(Meeting):
    async def step(self, text):
        async with asyncio.timeout(30):
            await self.barrier.wait()
        return self._hear(text)


@pytest.mark.parametrize(("kind", "barrier"), [(Meeting, threading.Barrier(24)), (AsyncMeeting, asyncio.Barrier(24))])
def test_slow_environments_overlap(tiny_tokens, kind, barrier):
    episodes = [kind(barrier) for _ in range(24)]
    sampler = Script(tiny_tokens)
    rollouts = run(tiny_tokens, episodes, sampler, max_concurrency=24)
    assert [rollout.episode for rollout in rollouts] == episodes
    assert [rollout.failure for rollout in rollouts] == [None] * 24
    assert all(len(rollout.turn_spans) == 3 and rollout.reward == 1.0 for rollout in rollouts)
    assert [len(batch) for batch in sampler.batches] == [24, 24, 24]


@pytest.mark.parametrize("kind", [Echo, AsyncEcho])
def test_no_more_steps_run_at_once_than_allowed(tiny_tokens, kind):
    now, most, lock = 0, 0, threading.Lock()

    def enter():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)

    class Counting(kind):
        def _hear(self, text):
            nonlocal now
            now -= 1
            return super()._hear(text)

    if kind is Echo:

        class Watched(Counting):
            def step(self, text):
                enter()
                return super().step(text)
    else:

        class Watched(Counting):
            async def step(self, text):
                enter()
                return await super().step(text)

    run(tiny_tokens, [Watched(turns=1, delay_s=0.02) for _ in range(12)], max_concurrency=3)
    assert most == 3


def test_a_person_is_told_which_token_is_sampled(new_policy):
    seen = []
    policy = new_policy()
    sampler = DynamicSampler(policy.model, policy.tokens)
    settings = RolloutSettings(max_turn_tokens=3, temperature=1.0, max_turns=4)
    worker = RolloutWorker(sampler, policy.tokens, settings)
    handle = policy.model.register_forward_hook(lambda *_: seen.append(worker.phase()))
    try:
        worker.run([Echo("a", turns=1), Echo("b", turns=1)])
    finally:
        handle.remove()
    assert seen[:2] == [f"sampling turn 1 of 4 of 2 rollouts, token {token} of 3" for token in (0, 1)]


def test_a_person_is_told_which_turn_is_sampled_and_when_the_environments_work(tiny_tokens):
    settings = RolloutSettings(max_turn_tokens=8, temperature=1.0, max_turns=4)
    seen = []

    class Watched(Script):
        def sample(self, *args, **options):
            seen.append(worker.phase())
            return super().sample(*args, **options)

    class Works(Echo):
        def step(self, text):
            seen.append(worker.phase())
            return super().step(text)

    worker = RolloutWorker(Watched(tiny_tokens), tiny_tokens, settings)
    worker.run([Works("a", turns=2), Works("b", turns=1)])
    assert seen[0] == "sampling turn 1 of 4 of 2 rollouts"
    assert "running and grading 2 of 2 rollouts" in seen
    assert seen[-2:] == ["sampling turn 2 of 4 of 1 rollouts", "running and grading 1 of 2 rollouts"]
    assert worker.phase() == "reading rollouts"


def test_fast_environments_run_inline_in_one_thread(tiny_tokens):
    episodes = [Echo() for _ in range(3)]
    run(tiny_tokens, episodes)
    assert {thread for episode in episodes for thread in episode.threads} == {threading.main_thread()}


def test_rollouts_that_are_ready_do_not_wait_for_a_slow_one(tiny_tokens):
    ended = [threading.Event() for _ in range(3)]
    slow = Echo(turns=2, plan={0: lambda: [event.wait(30) for event in ended]})
    quick = [Echo(turns=3, delay_s=0.01, plan={2: event.set}) for event in ended]
    sampler = Script(tiny_tokens)
    run(tiny_tokens, [slow, *quick], sampler, max_concurrency=8, patience_s=0.3)
    assert sampler.batches == [[0, 1, 2, 3], [1, 2, 3], [1, 2, 3], [0]]


def test_a_free_slot_does_not_wait_for_a_slow_one(tiny_tokens):
    last_began, waited = threading.Event(), []
    slow = Echo(turns=1, plan={0: lambda: waited.append(last_began.wait(30))})
    sampler = Script(tiny_tokens, batch=2)
    episodes = [slow, Echo(turns=1), Echo(turns=1, plan={0: last_began.set})]
    run(tiny_tokens, episodes, sampler, max_concurrency=8, patience_s=0.02)
    assert sampler.batches == [[0, 1], [1]]
    assert waited == [True]


def test_patience_keeps_batches_together(tiny_tokens):
    episodes = [Echo(turns=2, delay_s=0.01), Echo(turns=2, delay_s=0.15)]
    sampler = Script(tiny_tokens)
    run(tiny_tokens, episodes, sampler, max_concurrency=8, patience_s=2.0)
    assert sampler.batches == [[0, 1], [0, 1]]


def test_slots_are_given_to_those_who_wait(tiny_tokens):
    episodes = [Echo(str(index), turns=1 + index % 3) for index in range(11)]
    sampler = Script(tiny_tokens, batch=4)
    rollouts = run(tiny_tokens, episodes, sampler)
    assert [len(rollout.turn_spans) for rollout in rollouts] == [1 + index % 3 for index in range(11)]
    assert max(len(batch) for batch in sampler.batches) == 4
    assert sum(len(batch) for batch in sampler.batches) == sum(1 + index % 3 for index in range(11))


@pytest.mark.parametrize("concurrency", [0, 4])
@pytest.mark.parametrize("error", [ValueError("no such place"), SystemExit(3), FileNotFoundError("notes.txt")])
def test_an_environment_that_raises_keeps_its_row_with_an_error_turn(tiny_tokens, concurrency, error):
    episodes = [Echo("a"), Echo("b", plan={1: fail(error)}), Echo("c")]
    rollouts = run(tiny_tokens, episodes, max_concurrency=concurrency)
    assert [rollout.reward for rollout in rollouts] == [1.0, 0.0, 1.0]
    broken = rollouts[1]
    assert broken.failure.kind == "runtime_error"
    assert broken.failure.message == f"{type(error).__name__}: {error}"
    assert count_endings(rollouts) == {"runtime_error": 1}
    trace = broken.trace("policy", 1)
    assert len(trace.turns) == len(broken.turn_spans) == 2
    assert trace.outcome == 0.0
    (site,) = find_sites(trace)
    assert site.turn == 1
    assert str(error) in site.error_message
    assert sum(broken.sampled_mask) == 2 * len(tiny_tokens.turn("done"))


@pytest.mark.parametrize("kind", [Echo, AsyncEcho])
def test_a_step_that_takes_too_long_is_a_timeout_with_the_environment_s_reward(tiny_tokens, kind):
    episodes = [kind("a", delay_s=0.01), kind("b", delay_s=5.0, reward=0.25), kind("c", delay_s=0.01)]
    started = time.monotonic()
    rollouts = run(tiny_tokens, episodes, max_concurrency=4, step_timeout_s=1.0)
    assert time.monotonic() - started < 4.5
    assert [rollout.reward for rollout in rollouts] == [1.0, 0.25, 1.0]
    assert count_endings(rollouts) == {"timeout": 1}
    trace = rollouts[1].trace("policy", 1)
    (site,) = find_sites(trace)
    assert (site.turn, site.error_kind) == (0, "timeout")
    assert trace.outcome == 0.25


def test_steps_that_hang_do_not_keep_others_from_their_turn(tiny_tokens):
    released = threading.Event()
    episodes = [Echo("h", plan={0: released.wait}) for _ in range(4)] + [Echo("ok") for _ in range(4)]
    rollouts = run(tiny_tokens, episodes, max_concurrency=2, step_timeout_s=0.5)
    released.set()
    assert [rollout.failure is None for rollout in rollouts] == [False] * 4 + [True] * 4


def test_an_answer_that_comes_after_the_timeout_does_not_add_a_turn(tiny_tokens):
    episode = Echo("late", delay_s=0.8)
    (rollout,) = run(tiny_tokens, [episode], max_concurrency=1, step_timeout_s=0.1)
    time.sleep(1.0)
    assert len(episode.heard) == 1
    trace = rollout.trace("policy", 0)
    assert len(trace.turns) == len(rollout.turn_spans) == 1
    assert trace.messages[-1]["is_error"]


def test_a_coroutine_that_is_cancelled_from_within_is_a_failure(tiny_tokens):
    (rollout,) = run(tiny_tokens, [AsyncEcho(plan={0: fail(asyncio.CancelledError())})], max_concurrency=1)
    assert rollout.failure.kind == "runtime_error"


@pytest.mark.parametrize("concurrency", [0, 2])
def test_a_reward_that_raises_is_an_error_turn(tiny_tokens, concurrency):
    class Unpaid(Echo):
        reward = property(lambda self: 1 / 0)

        def __init__(self):
            self.messages, self.tools = [{"role": "user", "content": "u"}], ()
            self.heard, self.turns, self.delay_s, self.plan, self.threads = [], 1, 0.0, {}, []

    (rollout,) = run(tiny_tokens, [Unpaid()], max_concurrency=concurrency)
    assert (rollout.reward, rollout.failure.kind) == (0.0, "runtime_error")
    assert len(rollout.trace("policy", 0).turns) == 1


def test_steps_that_are_done_are_forgotten():
    steps = ConcurrentSteps(max_concurrency=2, timeout_s=None)
    for row in range(5):
        steps.submit(row, Echo(), "done")
        assert [found for found, _ in steps.collect(0.0, must_wait=True)] == [row]
    deadline = time.monotonic() + 5
    while steps._running and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not steps._running
    steps.close()


def test_an_asynchronous_environment_needs_concurrency(tiny_tokens):
    with pytest.raises(UsageError, match="asynchronous"):
        run(tiny_tokens, [AsyncEcho()])


def test_an_observation_that_no_tokenizer_takes_is_still_read(tiny_tokens):
    class Odd(Echo):
        def _hear(self, text):
            super()._hear(text)
            return PlainAnswer("ok \ud800")

    (rollout,) = run(tiny_tokens, [Odd(turns=2)])
    assert rollout.failure is None
    assert len(rollout.turn_spans) == 2


@pytest.mark.parametrize("budget", [16, 17, 24, 25, 60])
def test_long_rollouts_are_cut_after_a_whole_turn(tiny_tokens, budget):
    turn, answer = len(tiny_tokens.turn("done")), len(tiny_tokens.after_turn("ok 1"))
    (rollout,) = run(tiny_tokens, [Echo(turns=50, reward=0.5)], max_completion_tokens=budget, max_turn_tokens=8)
    expected = 1
    while expected * (turn + answer) + 8 <= budget:
        expected += 1
    assert rollout.truncated
    assert len(rollout.turn_spans) == len(rollout.episode.heard) == expected
    assert len(rollout.completion_ids) == rollout.turn_spans[-1][1] <= budget
    assert rollout.completion_ids[-1] == tiny_tokens.end_of_turn_id
    assert rollout.reward == 0.5
    assert count_endings([rollout]) == {"truncated": 1}


def test_an_environment_that_never_ends_is_cut(tiny_tokens):
    (rollout,) = run(tiny_tokens, [Echo(turns=10**9)], max_turns=5)
    assert rollout.truncated
    assert len(rollout.turn_spans) == 5


def test_a_sampler_s_own_limit_cuts_too(tiny_tokens):
    sampler = Script(tiny_tokens)
    sampler.max_tokens = len(tiny_tokens.prompt(Echo().messages)) + 30
    (rollout,) = run(tiny_tokens, [Echo(turns=50)], sampler)
    assert rollout.truncated
    assert len(rollout.context_ids) <= sampler.max_tokens
    sampler.max_tokens = 10
    with pytest.raises(UsageError, match="do not fit the sampler's 10 tokens"):
        run(tiny_tokens, [Echo()], sampler)


@pytest.mark.parametrize("wrong", [{"step_timeout_s": 1.0}, {"max_completion_tokens": 7}])
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(UsageError):
        RolloutSettings(**{"max_turn_tokens": 8, "temperature": 1.0} | wrong)


def test_a_malformed_call_is_a_turn_with_its_error(make_model, tiny_tokens):
    episode = ToolboxEpisode(make_task(ToolboxConfig(), "train", 0))
    worker = RolloutWorker(
        DynamicSampler(make_model(len(tiny_tokens.tokenizer)), tiny_tokens),
        tiny_tokens,
        RolloutSettings(max_turn_tokens=5, temperature=1.0),
    )
    (rollout,) = worker.run([episode], torch.Generator().manual_seed(0))
    (site,) = find_sites(rollout.trace("policy", 0))
    assert (site.turn, site.error_kind) == (0, "json_decode")
    assert rollout.reward == 0.0
    assert rollout.failure is None


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(1, 1).train()
        self.model.config = SimpleNamespace(max_position_embeddings=512)
        self.model.device = "cpu"
        self.state, self.args = SimpleNamespace(global_step=0), SimpleNamespace(temperature=1.0)
        self.accelerator = SimpleNamespace(unwrap_model=lambda model: model)


@pytest.mark.parametrize("concurrency", [0, 4])
def test_trl_gets_one_row_per_prompt_whatever_happened(tiny_tokens, monkeypatch, concurrency):
    sampler, world = Script(tiny_tokens), EchoWorld(concurrency)
    monkeypatch.setattr(trl_rollouts, "turn_sampler", lambda *_: sampler)
    names = ["fine", "unbuildable", "sick", "long", "fine"]
    prompts = [Echo(name).messages for name in names]
    tasks = [EchoTask(name, messages) for name, messages in zip(names, prompts, strict=True)]
    trainer = Trainer()
    policy = SimpleNamespace(name="policy", tokens=tiny_tokens, model=trainer.model)
    settings = TrainingConfig(max_turn_tokens=8)
    rollout_func = trl_rollouts.EnvironmentRollouts(policy, world, tasks, settings, seed=0)
    with pytest.warns(UserWarning, match="broke in 2 of 5 rollouts.*the first: "):
        columns = rollout_func([row["prompt"] for row in trl_rollouts.prompts_of(tasks)], trainer)
    columns["n_turns"] = [sum(b > a for a, b in pairwise([0, *mask])) for mask in columns["env_mask"]]
    built = world.built
    assert {name: len(rows) for name, rows in columns.items()} == dict.fromkeys(columns, 5)
    assert columns["prompt_ids"] == [tiny_tokens.prompt(prompt) for prompt in prompts]
    assert columns["episode_reward"] == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert columns["truncated"] == [False, False, False, True, False]
    assert columns["step_failure"] == [None, "runtime_error", "runtime_error", None, None]
    assert columns["n_turns"] == [2, 1, 2, 4, 2]
    for ids, logprobs, mask in zip(columns["completion_ids"], columns["logprobs"], columns["env_mask"], strict=True):
        assert len(ids) == len(logprobs) == len(mask)
        assert [logprob != 0 for logprob in logprobs] == [bool(sampled) for sampled in mask]
    assert [len(trace.turns) for trace in columns["trace"]] == columns["n_turns"]
    assert [len(find_sites(trace)) for trace in columns["trace"]] == [0, 1, 1, 0, 0]
    assert [episode.closed for episode in built] == [1] * 4
    assert sampler.refreshed == [trainer.model]
    assert trainer.model.training


def test_trl_may_not_sample_at_another_temperature_than_its_loss(tiny_tokens):
    trainer = Trainer()
    trainer.args.temperature = 0.5
    policy = SimpleNamespace(name="policy", tokens=tiny_tokens, model=trainer.model)
    tasks = [EchoTask("fine", Echo("fine").messages)]
    rollout_func = trl_rollouts.EnvironmentRollouts(policy, EchoWorld(0), tasks, TrainingConfig(), seed=0)
    with pytest.raises(UsageError, match=r"temperature 1\.0 and the loss is at 0\.5"):
        rollout_func([row["prompt"] for row in trl_rollouts.prompts_of(tasks)], trainer)


def test_an_environment_works_while_others_still_write(tiny_tokens):
    stepped = threading.Event()
    episodes = [Echo("quick", turns=1, plan={0: stepped.set}), Echo("slow", turns=1)]
    rollouts = run(tiny_tokens, episodes, Staggered(tiny_tokens, stepped), max_concurrency=2)
    assert [len(rollout.turns) for rollout in rollouts] == [1, 1]
    assert [rollout.reward for rollout in rollouts] == [1.0, 1.0]


def test_inline_steps_wait_until_all_have_written(tiny_tokens):
    episodes = [Echo("first", turns=1), Echo("second", turns=1)]
    rollouts = run(tiny_tokens, episodes, Staggered(tiny_tokens, threading.Event()))
    assert [len(rollout.turns) for rollout in rollouts] == [1, 1]
