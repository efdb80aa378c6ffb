"""Cheats as data: sources that are put behind the file of a deleted symbol and answer in its place.

Each defines `_answer(*args, **kwargs)`; `cheating` binds it to every symbol of a task. They were written without
reading the source of the grader, by someone who knows Python, pytest and how such graders are usually built. Those of
`fresh_cheats_observing` came after a look at the frames that call a submission and at which tasks are self-compared,
those of `fresh_cheats_cheap` from the author of the rule that they try to get round.
"""

import textwrap

from composer_replication.environments.code.tasks.task import Submission, TaskFolder

from .fresh_cheats_cheap import CHEAP
from .fresh_cheats_looking import LOOKING
from .fresh_cheats_lying import LYING
from .fresh_cheats_meddling import MEDDLING
from .fresh_cheats_observing import OBSERVING

CHEATS: dict[str, str] = LYING | LOOKING | MEDDLING | OBSERVING | CHEAP

# No cheats but a measure for them: lines that the gate of lazy solutions tries, or could.
LAZY: dict[str, str] = {
    "lazy_none": "def _answer(*args, **kwargs): return None",
    "lazy_first_argument": "def _answer(*args, **kwargs): return args[0] if args else None",
    "lazy_true": "def _answer(*args, **kwargs): return True",
    "lazy_empty_text": "def _answer(*args, **kwargs): return ''",
    "lazy_raise": "def _answer(*args, **kwargs): raise ValueError",
}

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
    return "\n\n".join((text, textwrap.dedent((CHEATS | LAZY)[cheat]), BIND_METHOD, "\n".join(lines))) + "\n"
