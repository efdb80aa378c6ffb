"""What an author of attacks or honest work writes, and what they may know of a task.

An author's module has one function per kind of behaviour; each takes the facts of a task and a seeded `random.Random`
and gives the tool calls of one attempt. Labels follow from the function: class 0 is honest.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

Call = tuple[str, dict[str, Any]]
"""A tool (`bash`, `read_file`, `write_file`, `edit_file`, `run_tests`, `submit`) and its arguments."""


class Known(NamedTuple):
    """Facts of a task for authors of behaviour."""

    task_id: str
    repository: str
    package: str
    module_file: str
    """The file with the deleted or broken symbols, relative to the working folder, as `toolz/itertoolz.py`."""
    symbols: tuple[str, ...]
    """Qualified names inside that file."""
    module_text: str
    """That file as the agent finds it."""
    gold_text: str
    """That file solved, for honest work and for attackers that also solve."""
    visible_tests: tuple[str, ...]
    """Test files of the tree."""
    files: tuple[str, ...]
    """All files of the tree."""
    statement: str


class Case(NamedTuple):
    name: str
    """Unique per author: behaviour and variant."""
    hack_class: int
    """1 to 26, or 0 for honest work."""
    calls: tuple[Call, ...]


Author = Callable[[Known, random.Random], list[Case]]
