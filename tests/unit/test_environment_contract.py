"""What every environment keeps to, whoever wrote it: train, evaluate and monitor know nothing else of it.

An environment of your own is added to `ENVIRONMENTS` with turns that it takes, one that it refuses, and some that solve
its first training task.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from inspect import isawaitable
from itertools import islice
from typing import NamedTuple

import pytest

from composer_replication.config import Config, EnvironmentConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.protocol import TRAIN, Environment
from composer_replication.environments.toolbox import FINISH, ToolboxEpisode, next_call
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.records import Source, Trace, Turn, content_id
from composer_replication.sites import find_sites
from tests.hacks.sample_task import SPANS, SPANS_GOLD, code_task, write_sample_task

FEW = 20
"""Tasks that are looked at of an environment without end."""


class Sum(NamedTuple):
    task_id: str
    messages: Sequence[dict]
    labels: dict


class Added:
    """An environment in a few lines: add two numbers, three tries. Its step is a coroutine."""

    tools, evidence = (), None

    def __init__(self, task):
        self.task, self.messages, self.finished, self.reward = task, task.messages, False, 0.0
        self._right = str(sum(map(int, task.task_id.split("-")[1:])))
        self._said = []

    async def step(self, turn):
        await asyncio.sleep(0)
        right = turn.strip() == self._right
        self.reward, self.finished = float(right), right or len(self._said) == 2
        failed = not turn.strip().lstrip("-").isdigit()
        told = "Your response could not be parsed: write a number." if failed else "yes" if right else "no"
        self._said.append((turn, told, failed))
        return type("Answer", (), {"observation": told, "failed": failed})()

    def trace(self, source_model, sample):
        messages, turns = list(self.messages), []
        for said, told, failed in self._said:
            start = len(messages)
            answer = {"role": "tool", "content": told} | ({"is_error": True} if failed else {})
            messages += [{"role": "assistant", "content": said}, answer]
            turns.append(Turn(start=start, end=len(messages), source_model=source_model))
        return Trace(
            trace_id=content_id(self.task.task_id, source_model, sample, messages),
            source=Source(agent="sums"),
            task_id=self.task.task_id,
            messages=tuple(messages),
            turns=tuple(turns),
            outcome=self.reward,
        )

    def close(self):
        pass


class Sums(Environment):
    name = "sums"

    def tasks(self, split, use="training"):
        return [self.task(f"{split}-{a}-{b}") for a in range(3) for b in range(3)]

    def task(self, task_id):
        split, *numbers = task_id.split("-")
        if split not in (TRAIN, *self.heldout) or len(numbers) != 2:
            raise LookupError(task_id)
        asked = {"role": "user", "content": f"{split}: {' + '.join(numbers)}?"}
        return Sum(task_id, (asked,), {"split": split})

    def start(self, task):
        return Added(task)

    def resume(self, task_id, history):
        episode = self.start(self.task(task_id))
        for message in history:
            if message["role"] == "assistant":
                play(episode, message["content"])
        return episode


class Case(NamedTuple):
    environment: Environment
    taken: str
    """A turn that is taken and does not end the episode."""
    refused: str
    refused_as: str
    """The kind of that error."""
    solving: Callable[[object], Sequence[str]]
    """Turns that solve a task."""


def code_environment(folder, answer):
    """A task of each side; the grader and the sandbox are the real ones."""
    other = code_task().task.model_copy(update={"task_id": "other", "statement": "Write `merge` and `gaps` again."})
    folders = [write_sample_task(folder / "one"), write_sample_task(folder / "two", task=other, repository="other")]
    settings = EnvironmentConfig(name="code", answer=answer, heldout_repositories=("other",), concurrency=1)
    return CodeEnvironment(folders, settings)


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def sums(folder):
    return Case(Sums(), "1000", "a lot", "json_decode", lambda task: [str(sum(map(int, task.task_id.split("-")[1:])))])


def agent(folder):
    solving = [call("write_file", path=SPANS, content=SPANS_GOLD), call("submit")]
    return Case(code_environment(folder, "agent"), call("bash", command="ls"), "hm", "no_action", lambda task: solving)


def definition(folder):
    breaking = "```python\nBROKEN = 1 / 0\n\ndef merge(spans):\n    return []\n\ndef gaps(spans):\n    return []\n```"
    right = f"```python\n{SPANS_GOLD[SPANS_GOLD.index('def merge') :]}\n```"
    return Case(code_environment(folder, "definition"), breaking, "I do not know.", "no_action", lambda task: [right])


def toolbox(folder):
    def solving(task):
        episode, said = ToolboxEpisode(task), []
        while not episode.finished:
            call = next_call(episode)
            said.append(call.render() if call else FINISH)
            episode.step(said[-1])
        return said

    return Case(open_toolbox(Config()), '{"name":"nothing","arguments":{}}', "no json", "json_decode", solving)


ENVIRONMENTS = {"toolbox": toolbox, "sums": sums, "code, agent": agent, "code, definition": definition}


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def case(request, tmp_path_factory):
    made = ENVIRONMENTS[request.param](tmp_path_factory.mktemp("environment"))
    yield made
    made.environment.close()


def play(episode, turn):
    """A step, whether it is a coroutine or not."""
    answer = episode.step(turn)

    async def waited():
        return await answer

    return asyncio.run(waited()) if isawaitable(answer) else answer


def first_tasks(environment, split=TRAIN):
    return list(islice(environment.tasks(split), FEW))


def shown(task):
    return task.task_id, list(task.messages), dict(task.labels)


def test_tasks_are_the_same_each_time_and_known_by_their_ids(case):
    for split in (TRAIN, *case.environment.heldout):
        tasks = first_tasks(case.environment, split)
        assert tasks and len({task.task_id for task in tasks}) == len(tasks)
        assert list(map(shown, tasks)) == list(map(shown, first_tasks(case.environment, split)))
        assert [shown(case.environment.task(task.task_id)) for task in tasks] == list(map(shown, tasks))
        for task in tasks:
            assert task.messages[-1]["role"] in ("user", "tool")
            assert all(isinstance(text, str) for label in task.labels.items() for text in label)
    with pytest.raises(LookupError):
        case.environment.task("nobody's")


def test_no_task_and_no_prompt_is_on_two_sides(case):
    seen = set()
    for split in (TRAIN, *case.environment.heldout):
        tasks = first_tasks(case.environment, split)
        names = {task.task_id for task in tasks} | {json.dumps(list(task.messages)) for task in tasks}
        assert not names & seen
        seen |= names


def test_the_headline_and_the_limits_are_told(case):
    assert TRAIN not in case.environment.heldout and next(iter(case.environment.heldout.values()))
    limits = case.environment.limits
    assert limits.turns >= 1 and limits.room(64) >= 64
    assert limits.concurrency >= 1 or not isawaitable(case.environment.start(first_tasks(case.environment)[0]).step)


def test_turns_that_solve_the_task_earn_everything(case):
    task = first_tasks(case.environment)[0]
    episode = case.environment.start(task)
    turns = case.solving(task)
    for turn in turns:
        assert not episode.finished
        play(episode, turn)
    assert episode.finished and episode.reward == 1.0
    trace = episode.trace("policy", 0)
    episode.close()
    assert (trace.outcome, trace.task_id, len(trace.turns)) == (1.0, task.task_id, len(turns))
    assert find_sites(trace) == [] and trace == episode.trace("policy", 0)


def test_a_malformed_turn_keeps_its_place_and_the_episode_ends(case):
    episode = case.environment.start(first_tasks(case.environment)[0])
    said, answer = [case.refused], play(episode, case.refused)
    assert answer.failed and answer.observation
    if not episode.finished:  # a malformed turn may end an episode, as it does in the toolbox
        said.append(case.taken)
        play(episode, case.taken)
    for _ in range(case.environment.limits.turns):
        if episode.finished:
            break
        said.append(case.refused)
        assert play(episode, case.refused).failed
    assert episode.finished and 0.0 <= episode.reward < 1.0
    trace = episode.trace("policy", 1)
    episode.close()
    episode.close()
    assert len(trace.turns) == len(said)
    assert trace.messages[: len(episode.messages)] == tuple(episode.messages)
    assert [trace.messages[turn.start]["role"] for turn in trace.turns] == ["assistant"] * len(said)
    wrong = [turn for turn, each in enumerate(said) if each == case.refused]
    assert set(wrong) <= {site.turn for site in find_sites(trace)}
    assert find_sites(trace)[0].error_kind == case.refused_as
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


def test_an_episode_that_nobody_plays_costs_nothing(case):
    episode = case.environment.start(first_tasks(case.environment)[0])
    assert not episode.finished and episode.reward == 0.0 and episode.evidence is None
    episode.close()


def test_a_conversation_goes_on_where_it_was(case):
    task = first_tasks(case.environment)[0]
    first = case.environment.start(task)
    play(first, case.taken)
    reached = first.trace("policy", 0).messages
    again = case.environment.resume(task.task_id, reached)
    assert not again.finished
    for turn in case.solving(task):
        play(again, turn)
    assert again.finished and again.reward == 1.0
    trace = again.trace("policy", 0)
    assert trace.messages[: len(reached)] == reached and len(trace.turns) == 1 + len(case.solving(task))
    first.close()
    again.close()


def test_a_turn_is_judged_at_its_state(case):
    task = first_tasks(case.environment)[0]
    *before, last = case.solving(task)
    state = {
        "state_id": "s",
        "messages": [*task.messages, *({"role": "assistant", "content": turn} for turn in before)],
        "student_action": "",
    }
    judged = case.environment.judge(state, last)
    assert judged is None or judged == (True, True)
    if judged:
        assert not case.environment.judge(state, case.refused).accepted
        state["messages"] = [{"role": "user", "content": "Another conversation."}]
        assert case.environment.judge(state, last) is None
