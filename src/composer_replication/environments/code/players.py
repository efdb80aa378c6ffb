"""Who plays code tasks besides a local policy: any model behind a server, or a script. Either may answer either way."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..attempts import Attempt
from .environment import CodeEnvironment
from .episodes.loop import AgentLimits, ChatModel, attempt_in_words, attempt_task
from .episodes.scripted import SCRIPTED, in_one_block
from .tasks.task import TaskFolder

Play = Callable[[str, int, threading.Event], Attempt]
"""Task id, number of the sample, and an event that says when to stop."""


def player(environment: CodeEnvironment, model_of: Callable[[TaskFolder], ChatModel], limits: AgentLimits) -> Play:
    """A model that has tools of its own gets them as such; a code block is asked for in words."""

    def play(task_id: str, sample: int, stop: threading.Event) -> Attempt:
        task = environment.task(task_id)
        model = model_of(task.folder)
        if environment.settings.answer == "definition":
            return attempt_in_words(environment.start(task), model, sample, limits, stop)
        return attempt_task(task.folder, model, sample, limits, environment.settings.sandbox, stop=stop)

    return play


def scripted_player(environment: CodeEnvironment, name: str, limits: AgentLimits) -> Play:
    def script(task: TaskFolder) -> ChatModel:
        return in_one_block(name, task) if environment.settings.answer == "definition" else SCRIPTED[name](task)

    return player(environment, script, limits)
