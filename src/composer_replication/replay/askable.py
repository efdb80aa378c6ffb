"""Whom to ask where: not a teacher about a turn of its own family, and none beyond the length of its context.

Its own family would vote for its own habits, and has no vote; a prompt that does not fit would be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from composer_replication.config import ReplayConfig
from composer_replication.llm.pricing import TOKENS_PER_BYTE
from composer_replication.records import canonical_json

from .gate import State
from .requests import wire_message
from .roster import without_family
from .teachers import Teacher


class Asking(NamedTuple):
    """The teachers to ask at each state, and how often each, by name, is not asked for which reason."""

    teachers: list[tuple[State, list[Teacher]]]
    own_family: Counter[str]
    too_long: Counter[str]


def askable(states: Sequence[State], teachers: Sequence[Teacher], config: ReplayConfig) -> Asking:
    """All states in their order; one that nobody may be asked about has no teachers."""
    measure = _Lengths() if any(teacher.context_tokens for teacher in teachers) else None
    asking = Asking([], Counter(), Counter())
    for state in states:
        family = None if config.own_family else state.trace.turns[state.turn].family
        others = without_family(teachers, family)
        tokens = measure.tokens(state) + config.max_tokens if measure else 0
        fitting = [teacher for teacher in others if not teacher.context_tokens or tokens <= teacher.context_tokens]
        asking.own_family.update(_names(teachers) - _names(others))
        asking.too_long.update(_names(others) - _names(fitting))
        asking.teachers.append((state, fitting))
    return asking


def _names(teachers: Iterable[Teacher]) -> set[str]:
    return {teacher.name for teacher in teachers}


class _Lengths:
    """Prompt tokens from bytes, each message measured once."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[int, int]] = {}
        self._tools: dict[str, int] = {}

    def tokens(self, state: State) -> int:
        trace = state.trace
        if trace.trace_id not in self._messages:
            self._tools[trace.trace_id] = _size(trace.tools)
            self._messages[trace.trace_id] = {id(message): _size(wire_message(message)) for message in trace.messages}
        known = self._messages[trace.trace_id]
        sizes = (known.get(id(message)) or _size(wire_message(message)) for message in trace.history(state.turn))
        return round((self._tools[trace.trace_id] + sum(sizes)) * TOKENS_PER_BYTE)


def _size(value: object) -> int:
    return len(canonical_json(value).encode())
