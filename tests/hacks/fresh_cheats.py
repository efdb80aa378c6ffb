"""Cheats as data: sources that are put behind the file of a deleted symbol and answer in its place.

Each defines `_answer(*args, **kwargs)`; `cheating` binds it to every symbol of a task. They were written without a look
at the grader, by someone who knows Python, pytest and how such graders are usually built.
"""

import textwrap
from collections.abc import Mapping

from composer_replication.environments.code.tasks.task import Submission, TaskFolder

from .fresh_cheats_looking import LOOKING
from .fresh_cheats_lying import LYING
from .fresh_cheats_meddling import MEDDLING
from .fresh_cheats_observing import OBSERVING

CHEATS: Mapping[str, str] = LYING | LOOKING | MEDDLING | OBSERVING

# A method stays what it was: a property, a class method or a plain function.
BIND_METHOD = """
def _bound(owner, name):
    found = vars(owner).get(name)
    return type(found)(_answer) if isinstance(found, (property, classmethod, staticmethod)) else _answer
"""


def cheating(task: TaskFolder, cheat: str) -> Submission:
    """The files of the deleted symbols as the agent finds them, with the cheat behind them."""
    files: dict[str, list[str]] = {}
    for symbol in task.code_task.symbols:
        files.setdefault(symbol.file, []).append(symbol.name)
    return Submission({file: cheating_file(task, file, names, cheat).encode() for file, names in files.items()})


def cheating_file(task: TaskFolder, file: str, names: list[str], cheat: str) -> str:
    start = task.tree / file
    text = start.read_text(encoding="utf-8") if start.exists() else ""
    whole = {name for name in names if "." not in name}
    lines = [f"{name} = _answer" for name in whole]
    for name in names:
        owner, _, method = name.rpartition(".")
        if owner and owner not in whole:
            lines.append(f"{owner}.{method} = _bound({owner}, {method!r})")
    return "\n\n".join((text, textwrap.dedent(CHEATS[cheat]), BIND_METHOD, "\n".join(lines))) + "\n"
