"""An environment that rewards any policy: one turn, and the more different letters it has, the better."""

import time
from pathlib import Path
from types import MappingProxyType

from composer_replication.environments.protocol import Environment, EpisodeLimits, PlainAnswer
from composer_replication.training.rollouts.plain_traces import PlainTurn, plain_trace


class Task:
    def __init__(self, number):
        self.task_id = f"letters-{number}"
        self.messages = ({"role": "user", "content": f"Write many letters, please. {number}"},)
        self.labels = {}


class LettersEpisode:
    tools, evidence = (), None

    def __init__(self, task):
        self.task, self.messages, self.turn = task, task.messages, None

    @property
    def finished(self):
        return self.turn is not None

    @property
    def reward(self):
        return len(set(self.turn or "")) / 64

    def step(self, turn):
        self.turn = turn
        return PlainAnswer(None)

    def trace(self, source_model, sample):
        return plain_trace(self.messages, [PlainTurn(self.turn or "", None, False)], source_model, sample)

    def close(self):
        pass


class Letters(Environment):
    name, heldout, limits = "letters", MappingProxyType({"heldout": "unseen"}), EpisodeLimits(turns=1)

    def __init__(self, seed, hold):
        self._seed, self._hold = seed, Path(hold)

    def tasks(self, split, use="training"):
        return [Task(1000 * self._seed + number) for number in range(500)]

    def task(self, task_id):
        return Task(int(task_id.removeprefix("letters-")))

    def vocabulary(self):
        return [message["content"] for task in self.tasks("train") for message in task.messages]

    def start(self, task):
        while self._hold.exists():
            time.sleep(0.05)
        return LettersEpisode(task)


def open_letters(config):
    return Letters(config.seed, config.environment.settings["hold"])
