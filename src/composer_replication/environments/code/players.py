"""Who plays code tasks besides a local policy: any model behind a server, or a script. Either may answer either way.

The scripts need no model and show that tasks and grading work: one hands in the solution, one nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence

from composer_replication.records import JsonObject, Message

from ..attempts import Attempt
from .environment import CodeEnvironment
from .episodes.definition import solving_block
from .episodes.loop import AgentLimits, ChatModel, attempt_in_words, attempt_task
from .episodes.text_episode import TextEpisode
from .episodes.turns import Reply, WireCall
from .tasks.task import TaskFolder
from .tasks.trees import files_of, read_text

MOST_TRIES = 100
Play = Callable[[str, int, threading.Event], Attempt]
"""Task id, number of the sample, and an event that says when to stop."""


def player(environment: CodeEnvironment, model_of: Callable[[TaskFolder], ChatModel], limits: AgentLimits) -> Play:
    """A model that has tools of its own gets them as such; a code block is asked for in words."""

    def play(task_id: str, sample: int, stop: threading.Event) -> Attempt:
        task = environment.task(task_id)
        model = model_of(task.folder)
        if environment.settings.answer == "definition":
            episode = environment.start(task)
            assert isinstance(episode, TextEpisode)  # the verb refuses a harness with such a player
            return attempt_in_words(episode, model, sample, limits, stop)
        return attempt_task(task.folder, model, sample, limits, environment.settings.sandbox, stop=stop)

    return play


class Scripted:
    """Says the given replies one after the other, whatever it hears; after the last one it submits."""

    def __init__(self, name: str, replies: Sequence[Reply]) -> None:
        self.name, self._replies = name, replies

    def reply(self, messages: Sequence[Message], tools: Sequence[JsonObject], asked: str) -> Reply:
        turn = sum(message["role"] == "assistant" for message in messages)
        return self._replies[turn] if turn < len(self._replies) else Reply("", (WireCall("submit", "{}"),))


def gold(task: TaskFolder) -> Scripted:
    """Writes the files of the solution; it alone reads what no agent may see."""
    files = [{"path": path, "content": read_text(task.gold, path)} for path in files_of(task.gold)]
    return Scripted("gold", [Reply("", (WireCall("write_file", json.dumps(each)),)) for each in files])


def nop(task: TaskFolder) -> Scripted:
    return Scripted("nop", ())


def in_one_block(name: str, task: TaskFolder) -> Scripted:
    """The same two where one code block is the answer."""
    said = f"```python\n{solving_block(task)}\n```" if name == "gold" else "I have no answer."
    return Scripted(name, [Reply(said)] * MOST_TRIES)


SCRIPTED: dict[str, Callable[[TaskFolder], Scripted]] = {"gold": gold, "nop": nop}


def scripted_player(environment: CodeEnvironment, name: str, limits: AgentLimits) -> Play:
    def script(task: TaskFolder) -> ChatModel:
        return in_one_block(name, task) if environment.settings.answer == "definition" else SCRIPTED[name](task)

    return player(environment, script, limits)
