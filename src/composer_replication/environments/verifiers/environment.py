"""A taskset of verifiers 0.4 as an environment. verifiers' packages conflict with ours, so it runs in a process.

Its harness, tools, user and rubric stay its own; the policy takes the place of the model. Reads `taskset`, `python` and
`settings`: `taskset` (a table of the taskset's own settings), `harness` (one that does not stream, in place of a plain
chat with the taskset's tools), `limit` (how many tasks are taken; 256 of a taskset without end), `reward_range`,
`python_path`, `variables` (names of environment variables that the process may see) and `allow_commands`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import JsonObject, Message

from ..calls import with_tools
from ..code.episodes.tools import ToolError
from ..code.episodes.transcript import answer
from ..code.episodes.turns import Reply
from ..foreign.play import ForeignEnvironment, ForeignEpisode, ForeignTask
from .process import VerifiersProcess

if TYPE_CHECKING:
    from composer_replication.config import EnvironmentConfig


class VerifiersTask(ForeignTask):
    tools: Sequence[JsonObject] = ()
    """Known with the messages."""

    def __init__(self, process: VerifiersProcess, task_id: str, split: str, name: str | None) -> None:
        super().__init__(task_id, split, {"name": name} if name else {})
        self._process = process

    def _look(self) -> Sequence[Message]:
        rollout, opening = self._ask()
        self._process.ask("DELETE", f"/rollouts/{rollout}")
        return opening

    def begin(self) -> str:
        """A rollout that waits for its first turn."""
        rollout, opening = self._ask()
        self._opening = self._opening or opening
        if opening != self._opening:
            self._process.ask("DELETE", f"/rollouts/{rollout}")
            raise RecomposeError(f"verifiers shows another task than before for {self.task_id}", "use another taskset")
        return rollout

    def _ask(self) -> tuple[str, tuple[Message, ...]]:
        told = self._process.ask("POST", "/rollouts", {"task": self.task_id})
        if told["finished"]:
            why = told.get("error", "it ended before the first turn")
            raise RecomposeError(f"verifiers does not start {self.task_id}: {why}", "use another taskset")
        self.tools = told["tools"]
        opening = [Message(role=each["role"], content=each["content"]) for each in told["messages"]]
        return told["rollout"], tuple(with_tools(opening, self.tools))


class VerifiersEpisode(ForeignEpisode):
    agent = "verifiers"

    def __init__(self, world: VerifiersEnvironment, process: VerifiersProcess, task: VerifiersTask) -> None:
        self._rollout: str | None = task.begin()
        super().__init__(world, task, task.tools)
        self._process = process
        self._reward: float | None = None

    @property
    def reward(self) -> float:
        if self._reward is None and self._rollout and self.transcript.turns:
            self._over(self._process.ask("POST", f"/rollouts/{self._rollout}/end"))
        return self._reward or 0.0

    def close(self) -> None:
        if self._rollout:
            with suppress(RecomposeError):  # the process may be gone
                self._process.ask("DELETE", f"/rollouts/{self._rollout}")
        self._rollout = None

    def _act(self, reply: Reply) -> list[Message]:
        return self._send({"content": reply.text, "tool_calls": self._made(reply)})

    def _refuse(self, text: str, error: ToolError) -> list[Message]:
        """verifiers keeps the turn too, so that its own limits count it."""
        self._send({"content": text, "malformed": str(error)})
        return super()._refuse(text, error)

    def _send(self, turn: JsonObject) -> list[Message]:
        told = self._process.ask("POST", f"/rollouts/{self._rollout}/turn", turn)
        if told["finished"]:
            self._over(told)
        return [_answer(each) for each in told["messages"]]

    def _over(self, told: JsonObject) -> None:
        self.finished = True
        if "error" in told:
            raise RecomposeError(f"verifiers broke off {self.task.task_id}: {told['error']}", "look at the taskset")
        self._reward = self._scaled(told["reward"])


def _answer(told: JsonObject) -> Message:
    return {**answer(told["content"], told.get("tool_call_id"), told["failed"]), "role": told["role"]}


class VerifiersEnvironment(ForeignEnvironment[VerifiersTask]):
    name = "verifiers"
    settings = ("taskset", "harness", "limit", "python_path", "variables", "allow_commands")

    def _open(self, section: EnvironmentConfig) -> list[VerifiersTask]:
        settings = section.settings
        if not section.taskset or not section.python:
            raise UsageError(
                "verifiers needs a taskset and the Python that it is installed in",
                'set taskset = "NAME" and python = ".venv-verifiers/bin/python"',
            )
        asked = {
            "taskset": section.taskset,
            "taskset_settings": settings.get("taskset", {}),
            "harness": settings.get("harness"),
            "limit": settings.get("limit"),
            "max_turns": section.max_steps,
            "allow_commands": settings.get("allow_commands") is True,
        }
        self._process = VerifiersProcess(
            section.python,
            asked,
            section.step_timeout_s,
            settings.get("python_path", ()),
            settings.get("variables", ()),
        )
        return [
            VerifiersTask(self._process, task_id, self._split_of(task_id), told["name"])
            for task_id, told in self._process.tasks.items()
        ]

    def close(self) -> None:
        self._process.close()

    def _begin(self, task: VerifiersTask) -> VerifiersEpisode:
        return VerifiersEpisode(self, self._process, task)
