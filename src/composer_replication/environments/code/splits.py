"""Which side a code task is on: decided by names alone, so that a task never changes sides from run to run.

With several repositories, whole repositories are held out: the solution of one task may stand in the tree of another.
With one repository, functions and classes of modules are drawn, with all that is inside them. A task about drawn and
undrawn ones is on neither side, so that no symbol is ever on both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from .tasks.task import CodeTask

TRAIN, HELDOUT = "train", "heldout"


def roots(task: CodeTask) -> frozenset[str]:
    """The functions and classes of modules that a task is about; a method belongs to its class."""
    return frozenset(f"{symbol.file}:{symbol.name.partition('.')[0]}" for symbol in task.symbols)


def family(task: CodeTask) -> str:
    """Tasks on the same code, whatever their level, mode and generator."""
    return f"{task.repository}/{'+'.join(sorted(roots(task)))}"


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


def _is_drawn(name: str, share: float) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) < share * 16**12
