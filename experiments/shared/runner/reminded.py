"""A policy that reads the same reminder before every turn: what hints do without any training."""

from collections.abc import Callable
from typing import Any

from composer_replication.environments.toolbox import ToolboxEpisode, ToolboxTask
from composer_replication.environments.toolbox.episode import TurnResult
from composer_replication.hints import dispatch
from composer_replication.records import Message
from composer_replication.training.models.tokens import ChatTokens

Reminder = Callable[[ToolboxTask], str]
MARK = "\x00"
"""Between what a tool answered and the reminder that follows it; no answer of the toolbox holds it."""


def true_hint(task: ToolboxTask) -> str:
    """About the names of tools, with what the prompt lists and no word on which of them is meant."""
    return _written("tool_not_found", {"available_tools": [entry.name for entry in task.listings]})


def sham_hint(task: ToolboxTask) -> str:
    """About a fault that no log of the warm-up has, without any fact."""
    return _written("runtime_error", {})


REMINDERS: dict[str, Reminder] = {"hint": true_hint, "sham": sham_hint}


def _written(kind: str, facts: dict[str, Any]) -> str:
    text = dispatch(kind, facts)
    assert text is not None
    return text


class RemindedEpisode(ToolboxEpisode):
    def __init__(self, task: ToolboxTask, reminder: str) -> None:
        super().__init__(task)
        self._reminder = reminder

    @property
    def messages(self) -> list[Message]:
        return [*super().messages, {"role": "user", "content": self._reminder}]

    def step(self, text: str) -> TurnResult:
        result = super().step(text)
        if self.finished or result.observation is None:
            return result
        return TurnResult(result.text, result.call, f"{result.observation}{MARK}{self._reminder}", result.error)


class RemindedTokens(ChatTokens):
    """Writes the reminder behind a tool's answer as the user's message that a hint is."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        plain = self.after_turn

        def reminded(observation: str) -> list[int]:
            answer, _, reminder = observation.partition(MARK)
            return self.splice_hint(plain(answer), reminder) if reminder else plain(answer)

        self.after_turn = reminded
