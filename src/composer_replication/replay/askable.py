"""Whom to ask where: not a teacher about a turn of its own family, and none whose context no window fits.

Its own family would vote for its own habits, and has no vote; a prompt that does not fit would be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from composer_replication.config import ReplayConfig

from .gate import State
from .prompts import Prompts
from .roster import without_family
from .teachers import Teacher


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
