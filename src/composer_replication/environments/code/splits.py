"""Which side a task is on. Its repository's or its symbols' names decide, so that it never changes sides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence

from ..protocol import TRAIN
from .tasks.task import CodeTask

HELDOUT = "heldout"


def roots(task: CodeTask) -> frozenset[str]:
    """The functions and classes of modules that a task is about; a method belongs to its class."""
    return frozenset(f"{symbol.file}:{symbol.name.partition('.')[0]}" for symbol in task.symbols)


def by_repository(task: CodeTask, share: float, named: Collection[str]) -> str:
    """`named` repositories are held out, or, without any, about `share` of all there may be."""
    is_out = task.repository in named if named else _is_drawn(f"repository {task.repository}", share)
    return HELDOUT if is_out else TRAIN


def by_symbol(task: CodeTask, share: float) -> str | None:
    """None for a task that is on neither side."""
    sides = {_is_drawn(f"symbol {task.repository} {root}", share) for root in roots(task)}
    if len(sides) != 1:
        return None
    return HELDOUT if sides.pop() else TRAIN


def smallest_share(
    tasks: Sequence[CodeTask], number: int, side: Callable[[CodeTask, float], str | None]
) -> float | None:
    """In hundredths, that holds out so many tasks and leaves some to train on."""
    for hundredths in range(1, 100):
        sides = [side(task, hundredths / 100) for task in tasks]
        if sides.count(HELDOUT) >= number and TRAIN in sides:
            return hundredths / 100
    return None


def _is_drawn(name: str, share: float) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) < share * 16**12
