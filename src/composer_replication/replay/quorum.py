"""Whether a pair can come of it at all, known before a cent is spent.

A vote needs two families, or one where samples of the policy stand against it. The origin's `majority` counts teachers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from composer_replication.config import Config, ReplayConfig
from composer_replication.errors import UsageError

from .askable import Asking
from .roster import DEFAULT_TEACHERS, ENOUGH_FAMILIES
from .teachers import Teacher


class Quorum(NamedTuple):
    needed: int
    by_family: bool

    @classmethod
    def of(cls, config: Config, replay: ReplayConfig) -> Quorum:
        """`replay` is the run's, with what the command line adds."""
        return cls(1 if replay.one_teacher else ENOUGH_FAMILIES, config.pairs.rule == "agreement")

    def is_met(self, teachers: Iterable[Teacher]) -> bool:
        return len({teacher.family if self.by_family else teacher.name for teacher in teachers}) >= self.needed


def with_quorum(asking: Asking, quorum: Quorum) -> Asking:
    """Where too few may be asked for a pair, nobody is."""
    kept = [(state, teachers if quorum.is_met(teachers) else []) for state, teachers in asking.teachers]
    emptied = sum(bool(before) and not after for (_, before), (_, after) in zip(asking.teachers, kept, strict=True))
    return asking._replace(teachers=kept, too_few=emptied)


def refuse_hopeless(asking: Asking, teachers: Sequence[Teacher], quorum: Quorum) -> None:
    """`asking` is what the quorum left. Says what to add."""
    if not asking.teachers or any(own for _, own in asking.teachers):
        return
    names = ", ".join(teacher.name for teacher in teachers)
    if not quorum.is_met(teachers):
        what = f"{names}: all of one family ({teachers[0].family})" if quorum.by_family else f"{names}: one alone"
        raise UsageError(
            f"no pair can come of it, and nobody was asked: a vote needs two families, and there is {what}",
            f"add {_another(asking, teachers)}, or sample the policy against one teacher: --policy MODEL --one-teacher",
        )
    raise UsageError(
        f"no pair can come of it, and nobody was asked: at none of {len(asking.teachers)} states may "
        f"{'two families' if quorum.needed == ENOUGH_FAMILIES else 'anybody'} be asked. Of {names}, "
        f"{_times(asking.own_family.total())} one is of the family that made the turn and "
        f"{_times(asking.too_long.total())} a context is too short",
        f"add {_another(asking, teachers)}"
        + (", or let a family judge its own turns: --own-family" if asking.own_family else ""),
    )


def _times(count: int) -> str:
    return f"{count} time{'' if count == 1 else 's'}"


def _another(asking: Asking, teachers: Sequence[Teacher]) -> str:
    """A teacher of the roster whose vote would count. None of these has batches."""
    families = {teacher.family for teacher in teachers}
    families |= {state.trace.turns[state.turn].family or "" for state, _ in asking.teachers}
    others = (teacher for teacher in DEFAULT_TEACHERS if teacher.family not in families)
    found = None if teachers[0].batch else next(others, None)
    return f"--teacher {found.model}" if found else "a teacher of another family"
