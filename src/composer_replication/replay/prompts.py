"""What a teacher is shown of a state: the whole history, or a window of it where its context is too short.

Also whom to ask where: not a teacher about a turn of its own family, which would vote for its own habits, and none
whose context no window fits.

The window follows the rule of `windows.py`, the same as in training. Tokens are estimated from bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from composer_replication.config import ReplayConfig
from composer_replication.llm.pricing import TOKENS_PER_BYTE
from composer_replication.records import JsonObject, Message, canonical_json
from composer_replication.windows import TurnHistory, fit_messages

from .gate import State
from .roster import without_family
from .teachers import Teacher


class Prompts:
    """Each message of a trace is measured once."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[int, int]] = {}
        self._tools: dict[str, int] = {}

    def fits(self, state: State, teacher: Teacher, max_tokens: int) -> bool:
        """Whether the whole history does, with `max_tokens` for the answer."""
        if not teacher.context_tokens:
            return True
        known = self._sizes(state)
        sizes = (known.get(id(message)) or _size(message) for message in state.trace.history(state.turn))
        prompt = round((self._tools[state.trace.trace_id] + sum(sizes)) * TOKENS_PER_BYTE)
        return prompt + max_tokens <= teacher.context_tokens

    def messages(self, state: State, teacher: Teacher, max_tokens: int) -> list[Message] | None:
        """None where no window is small enough."""
        trace, turn = state
        if self.fits(state, teacher, max_tokens) or not teacher.context_tokens:
            return trace.history(turn)
        known = self._sizes(state)
        reserved = max_tokens + math.ceil(self._tools[trace.trace_id] * TOKENS_PER_BYTE)

        def tokens(message: Message) -> int:
            return math.ceil((known.get(id(message)) or _size(message)) * TOKENS_PER_BYTE)

        found = fit_messages(TurnHistory.before(trace, turn), teacher.context_tokens, reserved, tokens)
        return found.messages if found else None

    def _sizes(self, state: State) -> dict[int, int]:
        trace = state.trace
        if trace.trace_id not in self._messages:
            self._tools[trace.trace_id] = len(canonical_json(trace.tools).encode())
            self._messages[trace.trace_id] = {id(message): _size(message) for message in trace.messages}
        return self._messages[trace.trace_id]


def wire_message(message: Message) -> JsonObject:
    """Only what the OpenAI wire knows."""
    return {key: value for key, value in message.items() if key != "is_error"}


def _size(message: Message) -> int:
    return len(canonical_json(wire_message(message)).encode())


class Asking(NamedTuple):
    """The teachers to ask at each state, and how often each, by name, is not asked for which reason."""

    teachers: list[tuple[State, list[Teacher]]]
    own_family: Counter[str]
    too_long: Counter[str]
    windowed: Counter[str]
    """How often each is asked with less than the whole history."""
    too_few: int = 0
    """States where nobody is asked because too few may be for a vote."""


def askable(states: Sequence[State], teachers: Sequence[Teacher], config: ReplayConfig) -> Asking:
    """All states in their order; one that nobody may be asked about has no teachers."""
    prompts, asking = Prompts(), Asking([], Counter(), Counter(), Counter())
    for state in states:
        family = None if config.own_family else state.trace.turns[state.turn].family
        others = without_family(teachers, family)
        short = [teacher for teacher in others if not prompts.fits(state, teacher, config.max_tokens)]
        beyond = [teacher for teacher in short if prompts.messages(state, teacher, config.max_tokens) is None]
        asking.own_family.update(_names(teachers) - _names(others))
        asking.too_long.update(_names(beyond))
        asking.windowed.update(_names(short) - _names(beyond))
        asking.teachers.append((state, [teacher for teacher in others if teacher not in beyond]))
    return asking


def _names(teachers: Iterable[Teacher]) -> set[str]:
    return {teacher.name for teacher in teachers}
