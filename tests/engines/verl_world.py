"""A world for engines' tests: a first turn always fails, and the reward depends on what was written."""

from __future__ import annotations

from composer_replication.environments.protocol import Environment, EpisodeLimits, PlainAnswer
from composer_replication.training.rollouts.plain_traces import PlainTurn, plain_trace

ERROR = "error: no file app.py"
WORDS = ("read write the file app.py done now please", ERROR)


class Task:
    def __init__(self, task_id: str) -> None:
        self.task_id, self.labels = task_id, {}
        self.messages = [
            {"role": "system", "content": "read write"},
            {"role": "user", "content": f"read the file {task_id.partition('-')[2]}"},
        ]


class Episode:
    tools = ()
    evidence = None

    def __init__(self, task: Task) -> None:
        self.task, self.messages, self._turns = task, task.messages, []

    @property
    def finished(self) -> bool:
        return len(self._turns) == 2

    @property
    def reward(self) -> float:
        return sum(map(ord, "".join(turn.text for turn in self._turns))) % 7 / 6

    def step(self, turn: str) -> PlainAnswer:
        failed = not self._turns
        observation = ERROR if failed else None
        self._turns.append(PlainTurn(turn, observation, failed))
        return PlainAnswer(observation, failed)

    def trace(self, source_model: str, sample: int):
        return plain_trace(self.messages, self._turns, source_model, sample)

    def close(self) -> None:
        pass


class World(Environment):
    name = "world"
    limits = EpisodeLimits(turns=2, observation_tokens=16)

    def tasks(self, split, use="training"):
        return [Task(f"task-{number}") for number in range(4)]

    def task(self, task_id):
        return Task(task_id)

    def start(self, task):
        return Episode(task)

    def vocabulary(self):
        return [*WORDS, "0 1 2 3 4 5 6 7 8 9"]


def open_world(config) -> World:
    return World()
